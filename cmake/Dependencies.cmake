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
