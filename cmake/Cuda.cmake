# Sets ROWSCALE_HAS_CUDA and the architectures. Without nvcc everything else builds and passes.

set(ROWSCALE_HAS_CUDA OFF)
set(ROWSCALE_CUDA_COMPILER_TEXT "none")
set(ROWSCALE_CUDA_ARCHITECTURES_TEXT "none")
option(ROWSCALE_SOFTWARE_CODEC
       "FP8 conversions of the GPU kernels in software: the way of sm_80, on any architecture" OFF)

# In nvcc's words: machine code is sm_90, PTX compute_90. A number alone stands for both; `native`
# and `all` stay as they are.
function(rowscale_architectures_text architectures out)
  set(names "")
  foreach(architecture IN LISTS architectures)
    if(architecture MATCHES "^(.+)-real$")
      list(APPEND names "sm_${CMAKE_MATCH_1}")
    elseif(architecture MATCHES "^(.+)-virtual$")
      list(APPEND names "compute_${CMAKE_MATCH_1}")
    elseif(architecture MATCHES "^[0-9]")
      list(APPEND names "sm_${architecture}" "compute_${architecture}")
    else()
      list(APPEND names "${architecture}")
    endif()
  endforeach()
  list(JOIN names " " text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

if(NOT ROWSCALE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Every architecture that is served, and PTX of the highest for those to come.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90-real 100-real 120)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know yet that nvcc has C++20.
    foreach(kind STANDARD EXTENSION)
      if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
      endif()
    endforeach()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
      message(FATAL_ERROR "CUDA 13.0 or newer is needed, found ${CMAKE_CUDA_COMPILER_VERSION}; "
                          "configure with -DROWSCALE_CUDA=OFF for the CPU alone")
    endif()
    find_package(CUDAToolkit REQUIRED)
    # The header alone: the library is found when a program runs.
    find_path(ROWSCALE_CUBLASLT_HEADER cublasLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    if(NOT ROWSCALE_CUBLASLT_HEADER)
      message(FATAL_ERROR "cublasLt.h is needed, of the toolkit's cuBLAS development package")
    endif()
    set(ROWSCALE_HAS_CUDA ON)
    rowscale_architectures_text("${CMAKE_CUDA_ARCHITECTURES}" ROWSCALE_CUDA_ARCHITECTURES_TEXT)
    set(ROWSCALE_CUDA_COMPILER_TEXT "nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  elseif(ROWSCALE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ROWSCALE_CUDA is ON and no nvcc was found")
  endif()
endif()
rowscale_write_build_info()

# Programs look for shared objects beside themselves, too: scripts/gpu-bundle puts them there.
if(ROWSCALE_HAS_CUDA)
  set(CMAKE_BUILD_RPATH "$ORIGIN")
endif()

# Flags of every CUDA target: the numerics never fuse a product and a sum.
function(rowscale_cuda_settings target)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_VISIBILITY_PRESET hidden)
  # Compressed, an architecture's kernels take a tenth of the room; a driver unpacks what is used.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size --fmad=false -Xcompiler=-ffp-contract=off -Xcompiler=-Wall>)
  if(ROWSCALE_SOFTWARE_CODEC)
    target_compile_definitions(${target} PRIVATE ROWSCALE_SOFTWARE_CODEC)
  endif()
endfunction()
