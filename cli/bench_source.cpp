#include "bench_source.hpp"

#include "failure.hpp"

namespace rowscale::cli {
namespace {

constexpr BenchSource kSources[] = {
    {"rms_norm", FusedOperator::rms_norm},
    {"rms_norm+residual", FusedOperator::rms_norm, Residual::in_place},
    {"rms_norm+row", FusedOperator::rms_norm, Residual::absent, RowOut::stored},
    {"rms_norm+residual+row", FusedOperator::rms_norm, Residual::in_place, RowOut::stored},
    {"silu_mul", FusedOperator::silu_mul},
    {"gelu_tanh_mul", FusedOperator::gelu_tanh_mul},
    {"relu2", FusedOperator::relu2},
    {"swiglu_clamped", FusedOperator::swiglu_clamped},
};

}  // namespace

int64_t BenchSource::element_traffic(DType dtype) const {
  const int64_t streams =
      inputs() + (residual == Residual::in_place ? 2 : 0) + (row_out == RowOut::stored ? 1 : 0);
  return streams * element_size(dtype) + 1;
}

bool BenchSource::feeds(const std::string& layers) const {
  const auto has = [&](const char* word) { return layers.find(word) != std::string::npos; };
  return op == FusedOperator::rms_norm ? has("qkv") || has("gate_up") : has("down");
}

const BenchSource& parse_source(const std::string& name) {
  for (const BenchSource& source : kSources) {
    if (name == source.name) return source;
  }
  throw Failure(ExitCode::usage, "--source: expected one of " + source_names() + ", got " + name);
}

std::string source_names() {
  std::string names;
  for (const BenchSource& source : kSources) {
    names += std::string(names.empty() ? "" : ", ") + source.name;
  }
  return names;
}

Status run_fused(const BenchSource& source, const SourceTensors& tensors, const Recipe& recipe,
                 const TensorView& codes, const TensorView& scales, const Exec& exec) {
  const TensorView& x = tensors.x;
  const TensorView& row = tensors.row_out;
  switch (source.op) {
    case FusedOperator::rms_norm: {
      RmsNorm norm;
      norm.weight = tensors.weight;
      norm.residual = tensors.residual;
      return rms_norm_quantize(x, norm, recipe, codes, scales, row, exec);
    }
    case FusedOperator::silu_mul:
      return silu_mul_quantize(x, recipe, codes, scales, row, exec);
    case FusedOperator::gelu_tanh_mul:
      return gelu_tanh_mul_quantize(x, recipe, codes, scales, row, exec);
    case FusedOperator::relu2:
      return relu2_quantize(x, recipe, codes, scales, row, exec);
    case FusedOperator::swiglu_clamped:
      return swiglu_clamped_quantize(x, {}, recipe, codes, scales, row, exec);
  }
  return {};
}

bool is_fused_recipe(const Recipe& recipe) {
  return recipe.scale_source == ScaleSource::given ||
         (recipe.granularity != Granularity::per_tensor &&
          recipe.granularity != Granularity::per_block);
}

}  // namespace rowscale::cli
