// What a checkpoint's configuration says, as options.
#include "api/check.hpp"
#include "rowscale/linear.hpp"

namespace rowscale {

Status linear_options(const LinearScheme& scheme, LinearOptions* options) {
  if (options == nullptr) return api::invalid("options: expected a place for the result, got null");
  const bool is_block = scheme.weights == Granularity::per_block;
  if (!is_block && scheme.weights != Granularity::per_tensor &&
      scheme.weights != Granularity::per_channel) {
    return api::invalid("scheme.weights: expected per_tensor, per_channel or per_block");
  }
  switch (scheme.activations) {
    case ActivationScales::none:
      return {
          StatusCode::unsupported,
          "scheme.activations: expected dynamic or given, got none: a layer whose weights alone "
          "are quantized is no FP8 product"};
    case ActivationScales::dynamic:
      options->input = is_block ? per_group(128) : per_token();
      return {};
    case ActivationScales::given:
      if (is_block) {
        return {StatusCode::unsupported,
                "scheme.activations: expected dynamic beside per_block weights, got given"};
      }
      options->input = per_tensor();
      options->input.scale_source = ScaleSource::given;
      return {};
  }
  return api::invalid("scheme.activations: expected none, dynamic or given");
}

}  // namespace rowscale
