// The operators that `bench fused` times: a norm or an activation and quantize in one call.
#pragma once

#include <cstdint>
#include <string>

#include "rowscale/rowscale.hpp"

namespace rowscale::cli {

enum class FusedOperator { rms_norm, silu_mul, gelu_tanh_mul, relu2, swiglu_clamped };
enum class Residual { absent, in_place };
enum class RowOut { absent, stored };

struct BenchSource {
  const char* name;  // on the command line: "rms_norm+residual"
  FusedOperator op;
  Residual residual = Residual::absent;
  RowOut row_out = RowOut::absent;

  // Elements of x for one of the codes: gate and up, or one.
  [[nodiscard]] int64_t inputs() const {
    return op == FusedOperator::rms_norm || op == FusedOperator::relu2 ? 1 : 2;
  }
  // Bytes for each element of the codes, without scales and weights: x, a residual that is read and
  // written, a row that is stored, and the code.
  [[nodiscard]] int64_t element_traffic(DType dtype) const;
  // Whether rows that a model's layers read come from here: layers as model_shapes() names them.
  [[nodiscard]] bool feeds(const std::string& layers) const;
};

// Throws Failure(usage), naming all of them, where there is none of that name.
const BenchSource& parse_source(const std::string& name);
std::string source_names();  // "rms_norm, rms_norm+residual, ..."

// Those that the source does not have stay absent.
struct SourceTensors {
  TensorView x;         // [rows, inputs() * hidden]
  TensorView weight;    // [hidden]
  TensorView residual;  // [rows, hidden]
  TensorView row_out;   // [rows, hidden]
};

Status run_fused(const BenchSource& source, const SourceTensors& tensors, const Recipe& recipe,
                 const TensorView& codes, const TensorView& scales, const Exec& exec);

// Whether a fused operator takes the recipe: a dynamic scale of more than a row needs all rows
// first.
bool is_fused_recipe(const Recipe& recipe);

}  // namespace rowscale::cli
