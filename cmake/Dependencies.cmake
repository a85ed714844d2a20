# Every outside package: found on the system, or with ROWSCALE_FETCH downloaded at a pinned commit.
# The versions are those of Debian 12; scripts/install-deps names the packages. All but GoogleTest
# are used as headers only, so the library needs nothing at run time but the C and C++ runtimes.

find_package(Threads REQUIRED)

if(ROWSCALE_FETCH)
  include(FetchContent)
  function(rowscale_fetch name repository commit)
    FetchContent_Declare(${name} GIT_REPOSITORY ${repository} GIT_TAG ${commit})
    FetchContent_GetProperties(${name})
    if(NOT ${name}_POPULATED)
      FetchContent_Populate(${name})  # the files, not the project: headers are all that is needed
    endif()
    set(${name}_SOURCE_DIR ${${name}_SOURCE_DIR} PARENT_SCOPE)
  endfunction()
  rowscale_fetch(highway https://github.com/google/highway.git
                 58746ca5b9f9444a2a3549704602ecc6239f8f41)  # 1.0.3
  rowscale_fetch(nlohmann_json https://github.com/nlohmann/json.git
                 bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d)  # 3.11.2
  rowscale_fetch(fmt https://github.com/fmtlib/fmt.git
                 a33701196adfad74917046096bf5a2aa0ab0bb50)  # 9.1.0
  rowscale_fetch(cli11 https://github.com/CLIUtils/CLI11.git
                 70f8072f9dd2292fd0b9f9e5f58e279f60483ed3)  # 2.1.2
  set(ROWSCALE_HIGHWAY_INCLUDE ${highway_SOURCE_DIR})
  set(ROWSCALE_JSON_INCLUDE ${nlohmann_json_SOURCE_DIR}/single_include)
  set(ROWSCALE_FMT_INCLUDE ${fmt_SOURCE_DIR}/include)
  set(ROWSCALE_CLI11_INCLUDE ${cli11_SOURCE_DIR}/include)
else()
  find_path(ROWSCALE_HIGHWAY_INCLUDE hwy/highway.h)
  find_path(ROWSCALE_JSON_INCLUDE nlohmann/json.hpp)
  find_path(ROWSCALE_FMT_INCLUDE fmt/format.h)
  find_path(ROWSCALE_CLI11_INCLUDE CLI/CLI.hpp)
endif()

foreach(header HIGHWAY JSON FMT CLI11)
  if(NOT ROWSCALE_${header}_INCLUDE)
    message(FATAL_ERROR "The headers of ${header} were not found: run scripts/install-deps, "
                        "or configure with -DROWSCALE_FETCH=ON")
  endif()
  string(TOLOWER ${header} lower)
  add_library(rowscale_${lower} INTERFACE)
  target_include_directories(rowscale_${lower} SYSTEM INTERFACE ${ROWSCALE_${header}_INCLUDE})
endforeach()
target_compile_definitions(rowscale_fmt INTERFACE FMT_HEADER_ONLY)

# PCRE2 is code, not headers: linked statically, so that the command stays one file. Only the command
# uses it.
if(ROWSCALE_FETCH)
  set(PCRE2_BUILD_PCRE2GREP OFF CACHE INTERNAL "")
  set(PCRE2_BUILD_TESTS OFF CACHE INTERNAL "")
  set(PCRE2_SUPPORT_LIBREADLINE OFF CACHE INTERNAL "")
  rowscale_fetch(pcre2 https://github.com/PCRE2Project/pcre2.git
                 52c08847921a324c804cabf2814549f50bce1265)  # 10.42
  add_subdirectory(${pcre2_SOURCE_DIR} ${CMAKE_BINARY_DIR}/pcre2 EXCLUDE_FROM_ALL)
  set(ROWSCALE_PCRE2_INCLUDE ${CMAKE_BINARY_DIR}/pcre2)
  set(ROWSCALE_PCRE2_LIBRARY pcre2-8-static)
else()
  find_path(ROWSCALE_PCRE2_INCLUDE pcre2.h)
  find_library(ROWSCALE_PCRE2_LIBRARY NAMES libpcre2-8.a pcre2-8)
endif()
if(NOT ROWSCALE_PCRE2_INCLUDE OR NOT ROWSCALE_PCRE2_LIBRARY)
  message(FATAL_ERROR "PCRE2 was not found: run scripts/install-deps, or configure with "
                      "-DROWSCALE_FETCH=ON")
endif()
add_library(rowscale_pcre2 INTERFACE)
target_include_directories(rowscale_pcre2 SYSTEM INTERFACE ${ROWSCALE_PCRE2_INCLUDE})
target_link_libraries(rowscale_pcre2 INTERFACE ${ROWSCALE_PCRE2_LIBRARY})
target_compile_definitions(rowscale_pcre2 INTERFACE PCRE2_STATIC)
