// The floating-point state that the numerics are defined in: round to nearest even, subnormals
// kept.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace rowscale::cpu {

// Sets the state for its lifetime and restores what the caller had, exception flags included.
class ScopedFpEnv {
 public:
#if defined(__x86_64__)
  // 0x1F80: all exceptions masked, nearest even, neither flush-to-zero nor denormals-are-zero.
  ScopedFpEnv() : saved_(_mm_getcsr()) {
    _mm_setcsr(0x1F80U);
  }
  ~ScopedFpEnv() {
    _mm_setcsr(saved_);
  }
#else
  ScopedFpEnv() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~ScopedFpEnv() {
    std::fesetenv(&saved_);
  }
#endif
  ScopedFpEnv(const ScopedFpEnv&) = delete;
  ScopedFpEnv& operator=(const ScopedFpEnv&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace rowscale::cpu
