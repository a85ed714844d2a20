// cuBLASLt, loaded at run time: rowscale is linked without it, and a machine that has none loses
// the backends that need it and nothing else. A process that has loaded it (PyTorch has) shares it.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <memory>
#include <string>

#include "rowscale/status.hpp"

namespace rowscale::cuda {

// The first version with one scale a row and with block scales: 12.9.0.
inline constexpr size_t kOldestCublasLt = 120900;

// An opened library. Stays loaded until the process ends.
struct CublasLt {
  std::string file;    // as the loader found it
  size_t version = 0;  // 130100 is 13.1.0

  decltype(&::cublasLtGetVersion) get_version = nullptr;
  decltype(&::cublasLtGetStatusName) status_name = nullptr;
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulDescInit_internal) init_product = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) find_algorithms = nullptr;
  decltype(&::cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) get_config = nullptr;
};

// "libcublasLt.so.13 13.1.0 (/usr/lib/libcublasLt.so.13)": what a plan says of it.
std::string to_string(const CublasLt& library);

// Where a library was looked for, and what came of it.
struct CublasLtSearch {
  std::unique_ptr<const CublasLt> library;  // nullptr: none of the right kind and age
  std::string refusal;                      // then, what was tried and what was wrong with each
};

// `forced`: this file or none. Where it is nullptr, the first that serves of
//   1. libcublasLt.so.13 and .12 as they are loaded in the process;
//   2. those of the packages that PyTorch uses, beside a libtorch that is loaded;
//   3. those on the loader's path.
CublasLtSearch find_cublaslt(const char* forced);

// What this process uses: find_cublaslt() of the environment variable ROWSCALE_CUBLASLT, at the
// first call. nullptr, and why.
const CublasLt* cublaslt(std::string* refusal);

// The library's handle for a device, made at the first call with that device current and kept until
// the process ends: the driver may be gone before static objects are. Handles may be used by
// several threads at once.
Status cublaslt_handle(const CublasLt& library, int device, cublasLtHandle_t* handle);

// device_error with the status' name, ok for success.
Status status_of(const CublasLt& library, cublasStatus_t status, const char* what);

}  // namespace rowscale::cuda
