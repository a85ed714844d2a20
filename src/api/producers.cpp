#include "rowscale/producers.hpp"

#include <fmt/format.h>

#include "api/check.hpp"
#include "api/recipe_text.hpp"
#include "cpu/operators.hpp"
#include "cpu/target.hpp"

namespace rowscale {
namespace {

using api::invalid;
using api::Named;

// Elements of x that make one of the result.
enum class Inputs { one, pair };

Status check_input(Named x, Inputs inputs, int64_t* columns) {
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(x));
  *columns = x.view.columns();
  if (inputs == Inputs::one) return {};
  if (*columns % 2 != 0) {
    return invalid(fmt::format("{}: expected an even number of columns (gate and up), got {}",
                               x.name, *columns));
  }
  *columns /= 2;
  return {};
}

// A row as it was made, in the dtype of x.
Status check_row(Named row, Named x, int64_t columns, const Exec& exec) {
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype(row, {x.view.dtype}));
  ROWSCALE_RETURN_IF_ERROR(api::check_data(row));
  ROWSCALE_RETURN_IF_ERROR(api::check_same_rows(row, x, columns));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({x, row}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_self_overlap(row));
  return api::check_no_overlap(row, x);
}

Status check_fused_recipe(const Recipe& recipe) {
  ROWSCALE_RETURN_IF_ERROR(check(recipe));
  const bool needs_all_rows = recipe.scale_source == ScaleSource::dynamic &&
                              (recipe.granularity == Granularity::per_tensor ||
                               recipe.granularity == Granularity::per_block);
  if (needs_all_rows) {
    return invalid(fmt::format("recipe.granularity: expected per_token, per_channel, per_group or "
                               "given scales in a fused operator, got dynamic {}: run the separate "
                               "operator, then quantize",
                               api::word_of(recipe.granularity)));
  }
  if (recipe.profile != Profile::rowscale) {
    return {StatusCode::unsupported, fmt::format("recipe.profile: the fused operators have {}, got "
                                                 "{}",
                                                 api::word_of(Profile::rowscale),
                                                 api::word_of(recipe.profile))};
  }
  return {};
}

// What a fused operator writes beside its own tensors.
struct Outputs {
  const Recipe& recipe;
  const TensorView& codes;
  const TensorView& scales;
  const TensorView& row_out;
};

Status check_outputs(const Outputs& out, Named x, int64_t columns, const Exec& exec) {
  const Named codes{"codes", out.codes};
  const Named scales{"scales", out.scales};
  const Named row_out{"row_out", out.row_out};
  ROWSCALE_RETURN_IF_ERROR(check_fused_recipe(out.recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes, x, columns, out.recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_scales(scales, out.codes, out.recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({x, codes, scales}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_self_overlap(codes));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(codes, x));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(codes, scales));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(scales, x));
  if (out.row_out.data == nullptr) return {};
  ROWSCALE_RETURN_IF_ERROR(check_row(row_out, x, columns, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(row_out, codes));
  return api::check_no_overlap(row_out, scales);
}

void run_fused(const cpu::RowSource& source, const Outputs& out, const Exec& exec) {
  const Recipe recipe = resolve(out.recipe);
  if (out.row_out.data == nullptr) {
    cpu::quantize(source, recipe, out.codes, out.scales, exec);
  } else {
    cpu::quantize(cpu::StoredSource(source, out.row_out), recipe, out.codes, out.scales, exec);
  }
}

const cpu::Kernels& kernels_of(const Exec& exec) {
  return cpu::kernels(cpu::resolve_target(exec.target));
}

// An operator without tensors of its own: `make(kernels)` gives its source.
template <class MakeSource>
Status run_separate(Named x, Inputs inputs, const TensorView& y, const Exec& exec,
                    MakeSource&& make) {
  int64_t columns = 0;
  ROWSCALE_RETURN_IF_ERROR(check_input(x, inputs, &columns));
  ROWSCALE_RETURN_IF_ERROR(check_row({"y", y}, x, columns, exec));
  cpu::store_rows(make(kernels_of(exec)), y, exec);
  return {};
}

template <class MakeSource>
Status run_quantized(Named x, Inputs inputs, const Outputs& out, const Exec& exec,
                     MakeSource&& make) {
  int64_t columns = 0;
  ROWSCALE_RETURN_IF_ERROR(check_input(x, inputs, &columns));
  ROWSCALE_RETURN_IF_ERROR(check_outputs(out, x, columns, exec));
  run_fused(make(kernels_of(exec)), out, exec);
  return {};
}

// The tensors of a norm, against its input and its outputs.
Status check_norm(const RmsNorm& norm, Named x, std::initializer_list<Named> outputs,
                  const Exec& exec) {
  const Named weight{"norm.weight", norm.weight};
  const Named residual{"norm.residual", norm.residual};
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(weight));
  if (norm.weight.rank != 1 || norm.weight.shape[0] != x.view.columns()) {
    return invalid(fmt::format("norm.weight: expected shape [{}], got {}", x.view.columns(),
                               to_string(norm.weight)));
  }
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({x, weight}, exec));
  if (norm.form != NormForm::standard && norm.form != NormForm::gemma) {
    return invalid(fmt::format("norm.form: expected standard or gemma, got {}",
                               static_cast<int>(norm.form)));
  }
  for (const Named& output : outputs) {
    ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(output, weight));
  }
  if (norm.residual.data == nullptr) return {};
  ROWSCALE_RETURN_IF_ERROR(check_row(residual, x, x.view.columns(), exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(residual, weight));
  for (const Named& output : outputs) {
    ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(output, residual));
  }
  return {};
}

}  // namespace

Status rms_norm(const TensorView& x_view, const RmsNorm& norm, const TensorView& y,
                const Exec& exec) {
  const Named x{"x", x_view};
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(x));
  ROWSCALE_RETURN_IF_ERROR(check_norm(norm, x, {{"y", y}}, exec));
  return run_separate(x, Inputs::one, y, exec, [&](const cpu::Kernels& kernels) {
    return cpu::RmsNormSource(kernels, x_view, norm);
  });
}

Status rms_norm_quantize(const TensorView& x_view, const RmsNorm& norm, const Recipe& recipe,
                         const TensorView& codes, const TensorView& scales,
                         const TensorView& row_out, const Exec& exec) {
  const Named x{"x", x_view};
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(x));
  ROWSCALE_RETURN_IF_ERROR(check_norm(
      norm, x, {{"codes", codes}, {"scales", scales}, {"row_out", row_out}}, exec));
  return run_quantized(x, Inputs::one, {recipe, codes, scales, row_out}, exec,
                       [&](const cpu::Kernels& kernels) {
                         return cpu::RmsNormSource(kernels, x_view, norm);
                       });
}

Status silu_mul(const TensorView& x, const TensorView& y, const Exec& exec) {
  return run_separate({"x", x}, Inputs::pair, y, exec, [&](const cpu::Kernels& kernels) {
    return cpu::GatedSource(kernels, x, cpu::Gate::silu);
  });
}

Status silu_mul_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                         const TensorView& scales, const TensorView& row_out, const Exec& exec) {
  return run_quantized({"x", x}, Inputs::pair, {recipe, codes, scales, row_out}, exec,
                       [&](const cpu::Kernels& kernels) {
                         return cpu::GatedSource(kernels, x, cpu::Gate::silu);
                       });
}

Status gelu_tanh_mul(const TensorView& x, const TensorView& y, const Exec& exec) {
  return run_separate({"x", x}, Inputs::pair, y, exec, [&](const cpu::Kernels& kernels) {
    return cpu::GatedSource(kernels, x, cpu::Gate::gelu_tanh);
  });
}

Status gelu_tanh_mul_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                              const TensorView& scales, const TensorView& row_out,
                              const Exec& exec) {
  return run_quantized({"x", x}, Inputs::pair, {recipe, codes, scales, row_out}, exec,
                       [&](const cpu::Kernels& kernels) {
                         return cpu::GatedSource(kernels, x, cpu::Gate::gelu_tanh);
                       });
}

Status relu2(const TensorView& x, const TensorView& y, const Exec& exec) {
  return run_separate({"x", x}, Inputs::one, y, exec, [&](const cpu::Kernels& kernels) {
    return cpu::Relu2Source(kernels, x);
  });
}

Status relu2_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                      const TensorView& scales, const TensorView& row_out, const Exec& exec) {
  return run_quantized({"x", x}, Inputs::one, {recipe, codes, scales, row_out}, exec,
                       [&](const cpu::Kernels& kernels) {
                         return cpu::Relu2Source(kernels, x);
                       });
}

Status swiglu_clamped(const TensorView& x, const SwigluClamped& params, const TensorView& y,
                      const Exec& exec) {
  return run_separate({"x", x}, Inputs::pair, y, exec, [&](const cpu::Kernels& kernels) {
    return cpu::SwigluSource(kernels, x, params);
  });
}

Status swiglu_clamped_quantize(const TensorView& x, const SwigluClamped& params,
                               const Recipe& recipe, const TensorView& codes,
                               const TensorView& scales, const TensorView& row_out,
                               const Exec& exec) {
  return run_quantized({"x", x}, Inputs::pair, {recipe, codes, scales, row_out}, exec,
                       [&](const cpu::Kernels& kernels) {
                         return cpu::SwigluSource(kernels, x, params);
                       });
}

}  // namespace rowscale
