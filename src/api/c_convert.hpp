// C structs to C++ values and back, whatever the size of the caller's struct.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "api/check.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/mla.hpp"
#include "rowscale/producers.hpp"
#include "rowscale/quantize.hpp"
#include "rowscale/rowscale.h"

namespace rowscale::api {

// Copies the caller's struct over `*ours`, which holds the defaults of fields the caller's version
// does not know. `first_size` is the size of the struct in version 0.1, the least there can be.
// Fields that this version does not know must be zero: a request it cannot see is not ignored.
template <class Struct>
Status read_struct(const char* name, const Struct* theirs, size_t first_size, Struct* ours) {
  if (theirs == nullptr) {
    return invalid(std::string(name) + ": expected a struct, got NULL");
  }
  const size_t size = theirs->struct_size;
  if (size < first_size) {
    return invalid(std::string(name) + ".struct_size: expected at least " +
                   std::to_string(first_size) + ", got " + std::to_string(size) +
                   " (start the struct with its _INIT macro)");
  }
  // No struct will ever be so large: this one was not set up.
  constexpr size_t kMost = 4096;
  if (size > kMost) {
    return invalid(std::string(name) + ".struct_size: expected at most " + std::to_string(kMost) +
                   ", got " + std::to_string(size) + " (start the struct with its _INIT macro)");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(theirs);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      return {StatusCode::unsupported, std::string(name) +
                                           ": holds a field that this version of rowscale does not "
                                           "know"};
    }
  }
  std::memcpy(ours, theirs, std::min(size, sizeof(Struct)));
  return {};
}

// Copies `ours` over the caller's struct, as much as it has room for; its struct_size stays.
template <class Struct>
Status write_struct(const char* name, const Struct& ours, size_t first_size, Struct* theirs) {
  Struct ignored;
  ROWSCALE_RETURN_IF_ERROR(
      read_struct(name, static_cast<const Struct*>(theirs), first_size, &ignored));
  const size_t size = theirs->struct_size;
  std::memcpy(theirs, &ours, std::min(size, sizeof(Struct)));
  theirs->struct_size = size;
  return {};
}

Status read(const char* name, const rs_tensor* theirs, TensorView* view);
// NULL is an absent tensor: data stays null.
Status read_optional(const char* name, const rs_tensor* theirs, TensorView* view);
Status read(const char* name, const rs_recipe* theirs, Recipe* recipe);
Status read(const rs_exec* theirs, Exec* exec);  // NULL: the defaults
Status read(const rs_rms_norm_args* theirs, RmsNorm* norm);
Status read(const rs_swiglu_args* theirs, SwigluClamped* params);  // NULL: the defaults
Status read(const rs_mla_norm_args* theirs, MlaNorm* norm);
Status read(const rs_mla_outputs* theirs, MlaOutputs* outputs);
Status read(const rs_scale_spec* theirs, ScaleSpec* spec);
Status read(const rs_matmul_options* theirs, MatmulOptions* options);  // NULL: the defaults
Status read(const rs_matmul_tensors* theirs, MatmulTensors* tensors);

Status write(const char* name, const TensorView& view, rs_tensor* theirs);
Status write(const Recipe& recipe, rs_recipe* theirs);
Status write(const ScaleSpec& spec, rs_scale_spec* theirs);

}  // namespace rowscale::api
