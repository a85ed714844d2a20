// cuBLASLt's names without its functions: what a search looks at.
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED size_t cublasLtGetVersion(void) {
  return FAKE_VERSION;
}
EXPORTED const char* cublasLtGetStatusName(int status) {
  (void)status;
  return "fake";
}
EXPORTED void cublasLtCreate(void) {}
EXPORTED void cublasLtMatmul(void) {}
EXPORTED void cublasLtMatmulDescInit_internal(void) {}
EXPORTED void cublasLtMatmulDescSetAttribute(void) {}
EXPORTED void cublasLtMatrixLayoutInit_internal(void) {}
EXPORTED void cublasLtMatmulPreferenceInit_internal(void) {}
EXPORTED void cublasLtMatmulPreferenceSetAttribute(void) {}
EXPORTED void cublasLtMatmulAlgoGetHeuristic(void) {}
EXPORTED void cublasLtMatmulAlgoCheck(void) {}
#ifndef FAKE_INCOMPLETE
EXPORTED void cublasLtMatmulAlgoConfigGetAttribute(void) {}
#endif
