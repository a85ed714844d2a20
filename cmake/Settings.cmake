# What every target of the project is compiled with.

# Each product and sum is rounded by itself; fma only where it is written.
set(ROWSCALE_NUMERICS_FLAGS -ffp-contract=off -fno-fast-math -fno-math-errno)

function(rowscale_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${ROWSCALE_NUMERICS_FLAGS}>
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>)
  if(ROWSCALE_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  endif()
  if(ROWSCALE_SANITIZE)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${ROWSCALE_SANITIZE} -fno-sanitize-recover=all
                                  -fno-omit-frame-pointer>)
    target_link_options(${target} PUBLIC -fsanitize=${ROWSCALE_SANITIZE})
  endif()
endfunction()
