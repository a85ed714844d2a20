#include "plan/fused_call.hpp"

namespace rowscale::plan {
namespace {

bool is_vllm_fused(const Source& source, const Recipe& recipe) {
  return recipe.profile == Profile::vllm &&
         (source.kind == SourceKind::rms_norm || source.kind == SourceKind::silu_mul);
}

}  // namespace

bool has_vllm_operator(SourceKind kind, const Recipe& recipe) {
  switch (kind) {
    case SourceKind::plain:
    case SourceKind::dequantized:
      return true;
    case SourceKind::rms_norm:
    case SourceKind::silu_mul:
      if (recipe.scale_source == ScaleSource::given) {
        return recipe.granularity == Granularity::per_tensor;
      }
      return recipe.granularity == Granularity::per_token ||
             recipe.granularity == Granularity::per_group;
    case SourceKind::gelu_tanh_mul:
    case SourceKind::relu2:
    case SourceKind::swiglu_clamped:
      break;
  }
  return false;
}

FusedCall resolve(const Source& source, const Recipe& recipe) {
  FusedCall call = {source, rowscale::resolve(recipe)};
  if (!is_vllm_fused(source, recipe)) return call;
  const bool is_dynamic = recipe.scale_source == ScaleSource::dynamic;
  if (is_dynamic) {
    Recipe of_a_token = recipe;
    of_a_token.granularity = Granularity::per_token;
    of_a_token = rowscale::resolve(of_a_token);
    call.recipe.floor = of_a_token.floor;
    call.recipe.nan = of_a_token.nan;
  }
  if (source.kind == SourceKind::silu_mul) {
    const bool is_grouped = is_dynamic && recipe.granularity == Granularity::per_group;
    call.source.silu = is_grouped ? SiluForm::product : SiluForm::quotient;
  } else if (is_dynamic) {
    call.source.residual_sum = ResidualSum::unrounded;
  }
  return call;
}

}  // namespace rowscale::plan
