#include "tests/cuda/support/producers.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace rowscale::test {

using plan::SourceKind;

std::string name_of(const Producer& producer) {
  return std::string(plan::to_string(producer.kind)) + (producer.has_residual() ? "_residual" : "");
}

std::string to_string(const Producer& producer) {
  std::string text = plan::to_string(producer.kind);
  if (producer.is_norm()) {
    text += fmt::format(" weight={} form={} eps={}{}", rowscale::to_string(producer.weight),
                        producer.form == NormForm::gemma ? "gemma" : "standard", producer.eps,
                        producer.has_residual() ? " residual" : "");
  }
  if (producer.kind == SourceKind::swiglu_clamped) {
    text += fmt::format(" alpha={} limit={}", producer.swiglu.alpha, producer.swiglu.limit);
  }
  return text;
}

RmsNorm norm_of(const Producer& producer, const ProducerTensors& tensors) {
  return {tensors.weight, producer.eps, producer.form, tensors.residual};
}

Status produce(const Producer& producer, const TensorView& x, const ProducerTensors& tensors,
               const TensorView& y, const Exec& exec) {
  switch (producer.kind) {
    case SourceKind::rms_norm:
      return rms_norm(x, norm_of(producer, tensors), y, exec);
    case SourceKind::silu_mul:
      return silu_mul(x, y, exec);
    case SourceKind::gelu_tanh_mul:
      return gelu_tanh_mul(x, y, exec);
    case SourceKind::relu2:
      return relu2(x, y, exec);
    case SourceKind::swiglu_clamped:
      return swiglu_clamped(x, producer.swiglu, y, exec);
    case SourceKind::plain:
    case SourceKind::dequantized:
      break;
  }
  throw std::logic_error("a producer is a norm or an activation");
}

Status produce_and_quantize(const Producer& producer, const TensorView& x,
                            const ProducerTensors& tensors, const Recipe& recipe,
                            const TensorView& codes, const TensorView& scales,
                            const TensorView& row_out, const Exec& exec) {
  switch (producer.kind) {
    case SourceKind::rms_norm:
      return rms_norm_quantize(x, norm_of(producer, tensors), recipe, codes, scales, row_out, exec);
    case SourceKind::silu_mul:
      return silu_mul_quantize(x, recipe, codes, scales, row_out, exec);
    case SourceKind::gelu_tanh_mul:
      return gelu_tanh_mul_quantize(x, recipe, codes, scales, row_out, exec);
    case SourceKind::relu2:
      return relu2_quantize(x, recipe, codes, scales, row_out, exec);
    case SourceKind::swiglu_clamped:
      return swiglu_clamped_quantize(x, producer.swiglu, recipe, codes, scales, row_out, exec);
    case SourceKind::plain:
    case SourceKind::dequantized:
      break;
  }
  throw std::logic_error("a producer is a norm or an activation");
}

}  // namespace rowscale::test
