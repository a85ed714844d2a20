# cmake --install, and find_package(rowscale) -> rowscale::rowscale.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS rowscale EXPORT rowscale-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rowscale DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(ROWSCALE_CLI)
  install(TARGETS rowscale_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(rowscale_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rowscale)
set(ROWSCALE_IS_STATIC TRUE)
if(BUILD_SHARED_LIBS)
  set(ROWSCALE_IS_STATIC FALSE)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rowscale-config.cmake.in
                              ${PROJECT_BINARY_DIR}/rowscale-config.cmake
                              INSTALL_DESTINATION ${rowscale_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rowscale-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(EXPORT rowscale-targets NAMESPACE rowscale:: DESTINATION ${rowscale_config_dir})
install(FILES ${PROJECT_BINARY_DIR}/rowscale-config.cmake
              ${PROJECT_BINARY_DIR}/rowscale-config-version.cmake
        DESTINATION ${rowscale_config_dir})
