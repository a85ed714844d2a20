// Norms and activations as values: which operator, with which parameters, and the two calls that
// each of them has.
#pragma once

#include <cstdint>
#include <string>

#include "plan/source.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale::test {

enum class Residual { absent, in_place };

struct Producer {
  plan::SourceKind kind = plan::SourceKind::silu_mul;
  DType weight = DType::bf16;  // the rest but swiglu: of rms_norm
  NormForm form = NormForm::standard;
  float eps = 1e-6F;
  Residual residual = Residual::absent;
  SwigluClamped swiglu = {};

  [[nodiscard]] bool is_norm() const { return kind == plan::SourceKind::rms_norm; }
  [[nodiscard]] bool has_residual() const { return is_norm() && residual == Residual::in_place; }
  // Elements of x that make one of the result: gate and up, or one.
  [[nodiscard]] int64_t inputs() const {
    return is_norm() || kind == plan::SourceKind::relu2 ? 1 : 2;
  }
};

// Each once, the norm without and with a residual.
inline constexpr Producer kProducers[] = {
    {plan::SourceKind::rms_norm},
    {plan::SourceKind::rms_norm, DType::bf16, NormForm::standard, 1e-6F, Residual::in_place},
    {plan::SourceKind::silu_mul},
    {plan::SourceKind::gelu_tanh_mul},
    {plan::SourceKind::relu2},
    {plan::SourceKind::swiglu_clamped},
};

// One word, for the name of a test: "rms_norm_residual".
std::string name_of(const Producer& producer);
// With the parameters: "rms_norm weight=f32 form=gemma eps=1e-06 residual".
std::string to_string(const Producer& producer);

// What a producer reads and updates beside x; absent where it has none.
struct ProducerTensors {
  TensorView weight;
  TensorView residual;
};

// The norm's parameters as the library takes them.
RmsNorm norm_of(const Producer& producer, const ProducerTensors& tensors);

Status produce(const Producer& producer, const TensorView& x, const ProducerTensors& tensors,
               const TensorView& y, const Exec& exec);
Status produce_and_quantize(const Producer& producer, const TensorView& x,
                            const ProducerTensors& tensors, const Recipe& recipe,
                            const TensorView& codes, const TensorView& scales,
                            const TensorView& row_out, const Exec& exec);

}  // namespace rowscale::test
