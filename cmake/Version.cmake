# build_info.hpp: what --version and rs_version() say. The commit is that of the configure run.

execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE ROWSCALE_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE rowscale_git_failed)
if(rowscale_git_failed)
  set(ROWSCALE_COMMIT "unknown")
endif()
# Configure again when the commit changes.
foreach(file HEAD logs/HEAD)
  if(EXISTS ${PROJECT_SOURCE_DIR}/.git/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/.git/${file})
  endif()
endforeach()

function(rowscale_write_build_info)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/build_info.hpp.in
                 ${PROJECT_BINARY_DIR}/generated/build_info.hpp @ONLY)
endfunction()
