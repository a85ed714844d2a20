#include "rowscale/producers.hpp"

#include <fmt/format.h>

#include <string>

#include "api/check.hpp"
#include "api/dispatch.hpp"
#include "api/producer_check.hpp"
#include "api/words.hpp"
#include "plan/fused_call.hpp"
#include "plan/source.hpp"

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

// The tensors of a norm.
Status check_norm(const RmsNorm& norm, Named x) {
  const Named weight{"norm.weight", norm.weight};
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(weight, api::elements_for(x.view)));
  if (norm.weight.rank != 1 || norm.weight.shape[0] != x.view.columns()) {
    return invalid(fmt::format("norm.weight: expected shape [{}], got {}", x.view.columns(),
                               to_string(norm.weight)));
  }
  ROWSCALE_RETURN_IF_ERROR(api::check_word("norm.form", norm.form));
  if (api::is_absent(norm.residual)) return {};
  return api::check_row({"norm.residual", norm.residual}, x, x.view.columns());
}

// Of profile vllm: that vLLM has the operator, and what is the operator's in it.
Status check_profile(const plan::Source& source, const Recipe& recipe) {
  if (recipe.profile == Profile::rowscale) return {};
  const bool is_norm = source.kind == plan::SourceKind::rms_norm;
  if (!is_norm && source.kind != plan::SourceKind::silu_mul) {
    return api::check_own_profile("recipe", recipe);
  }
  const auto refused = [](const std::string& what) {
    return Status(StatusCode::unsupported, what);
  };
  if (!plan::has_vllm_operator(source.kind, recipe)) {
    return refused(fmt::format(
        "recipe.granularity: expected given per_tensor, dynamic per_token or dynamic per_group "
        "under profile vllm, got {} {}",
        api::word_of(recipe.scale_source), api::word_of(recipe.granularity)));
  }
  if (is_norm && source.norm.form != NormForm::standard) {
    return refused("norm.form: expected standard under profile vllm, got gemma");
  }
  if (is_norm && source.norm.weight.dtype != source.x.dtype) {
    return refused(fmt::format("norm.weight: expected {}, as x, under profile vllm, got {}",
                               to_string(source.x.dtype), to_string(source.norm.weight.dtype)));
  }
  if (!is_norm && !api::is_absent(source.row_out)) {
    return refused("row_out: expected none under profile vllm, which quantizes products in fp32");
  }
  return {};
}

// Checks of the source, common to both forms of an operator. Gives the columns of the result.
Status check_source(const plan::Source& source, Inputs inputs, int64_t* columns) {
  const Named x{"x", source.x, api::Role::input};
  ROWSCALE_RETURN_IF_ERROR(check_input(x, inputs, columns));
  if (source.kind != plan::SourceKind::rms_norm) return {};
  return check_norm(source.norm, x);
}

// The tensors that only a norm has are absent in the others, and skipped.
Status run_separate(const plan::Source& source, Inputs inputs, const TensorView& y_view,
                    const Exec& exec) {
  const Named x{"x", source.x, api::Role::input};
  const Named y{"y", y_view};
  const Named weight{"norm.weight", source.norm.weight};
  const Named residual{"norm.residual", source.norm.residual};
  int64_t columns = 0;
  ROWSCALE_RETURN_IF_ERROR(check_source(source, inputs, &columns));
  ROWSCALE_RETURN_IF_ERROR(api::check_row(y, x, columns));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({x, y, weight, residual}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({y, residual}, {x, weight}));
  return api::run_store_rows(source, y_view, exec);
}

Status run_fused(const plan::Source& source, Inputs inputs, const Recipe& recipe,
                 const TensorView& codes_view, const TensorView& scales_view, const Exec& exec) {
  const Named x{"x", source.x, api::Role::input};
  const Named codes{"codes", codes_view};
  const Named scales{"scales", scales_view, api::Role::scales};
  const Named row_out{"row_out", source.row_out};
  const Named weight{"norm.weight", source.norm.weight};
  const Named residual{"norm.residual", source.norm.residual};
  int64_t columns = 0;
  ROWSCALE_RETURN_IF_ERROR(check_source(source, inputs, &columns));
  ROWSCALE_RETURN_IF_ERROR(api::check_fused_recipe("recipe", recipe));
  ROWSCALE_RETURN_IF_ERROR(check_profile(source, recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes, x, columns, recipe));
  ROWSCALE_RETURN_IF_ERROR(
      api::check_scales(scales, codes_view, recipe, api::scales_for(source.x, recipe)));
  if (!api::is_absent(source.row_out)) {
    ROWSCALE_RETURN_IF_ERROR(api::check_row(row_out, x, columns));
  }
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({x, codes, scales, row_out, weight, residual}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint_codes(codes, scales, recipe, {x, weight}));
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({row_out, residual}, {x, weight, codes, scales}));
  return api::run_quantize(source, recipe, codes_view, scales_view, exec);
}

plan::Source make_source(plan::SourceKind kind, const TensorView& x,
                         const TensorView& row_out = {}) {
  plan::Source source;
  source.kind = kind;
  source.x = x;
  source.row_out = row_out;
  return source;
}

}  // namespace

Status rms_norm(const TensorView& x, const RmsNorm& norm, const TensorView& y, const Exec& exec) {
  plan::Source source = make_source(plan::SourceKind::rms_norm, x);
  source.norm = norm;
  return run_separate(source, Inputs::one, y, exec);
}

Status rms_norm_quantize(const TensorView& x, const RmsNorm& norm, const Recipe& recipe,
                         const TensorView& codes, const TensorView& scales,
                         const TensorView& row_out, const Exec& exec) {
  plan::Source source = make_source(plan::SourceKind::rms_norm, x, row_out);
  source.norm = norm;
  return run_fused(source, Inputs::one, recipe, codes, scales, exec);
}

Status silu_mul(const TensorView& x, const TensorView& y, const Exec& exec) {
  return run_separate(make_source(plan::SourceKind::silu_mul, x), Inputs::pair, y, exec);
}

Status silu_mul_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                         const TensorView& scales, const TensorView& row_out, const Exec& exec) {
  return run_fused(make_source(plan::SourceKind::silu_mul, x, row_out), Inputs::pair, recipe, codes,
                   scales, exec);
}

Status gelu_tanh_mul(const TensorView& x, const TensorView& y, const Exec& exec) {
  return run_separate(make_source(plan::SourceKind::gelu_tanh_mul, x), Inputs::pair, y, exec);
}

Status gelu_tanh_mul_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                              const TensorView& scales, const TensorView& row_out,
                              const Exec& exec) {
  return run_fused(make_source(plan::SourceKind::gelu_tanh_mul, x, row_out), Inputs::pair, recipe,
                   codes, scales, exec);
}

Status relu2(const TensorView& x, const TensorView& y, const Exec& exec) {
  return run_separate(make_source(plan::SourceKind::relu2, x), Inputs::one, y, exec);
}

Status relu2_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                      const TensorView& scales, const TensorView& row_out, const Exec& exec) {
  return run_fused(make_source(plan::SourceKind::relu2, x, row_out), Inputs::one, recipe, codes,
                   scales, exec);
}

Status swiglu_clamped(const TensorView& x, const SwigluClamped& params, const TensorView& y,
                      const Exec& exec) {
  plan::Source source = make_source(plan::SourceKind::swiglu_clamped, x);
  source.swiglu = params;
  return run_separate(source, Inputs::pair, y, exec);
}

Status swiglu_clamped_quantize(const TensorView& x, const SwigluClamped& params,
                               const Recipe& recipe, const TensorView& codes,
                               const TensorView& scales, const TensorView& row_out,
                               const Exec& exec) {
  plan::Source source = make_source(plan::SourceKind::swiglu_clamped, x, row_out);
  source.swiglu = params;
  return run_fused(source, Inputs::pair, recipe, codes, scales, exec);
}

}  // namespace rowscale
