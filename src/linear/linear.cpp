#include "rowscale/linear.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/check.hpp"
#include "linear/copies.hpp"
#include "linear/product.hpp"
#include "linear/weight.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale {

using api::invalid;
using api::Named;
using linear::Before;
using linear::Product;
using linear::ProductCall;
using linear::round_up;

class __attribute__((visibility("hidden"))) LinearFp8::Data {
 public:
  PackedWeight weight;
  LinearOptions options;
};

namespace {

constexpr size_t kUnit = 256;

// Of one call: where its parts of the workspace lie.
struct Places {
  size_t scales = 0;  // codes lie at 0
  size_t quantize = 0;
  size_t quantize_bytes = 0;
  size_t product = 0;
};

// One call of a layer, without x.
struct Call {
  const LinearFp8::Data* layer = nullptr;
  TensorView out;
  TensorView bias;
  linear::Quantized input;
  Places workspace;

  [[nodiscard]] const PackedWeight& weight() const { return layer->weight; }
  [[nodiscard]] bool has_given_scale() const {
    return layer->options.input.scale_source == ScaleSource::given;
  }
};

Status check_out(const PackedWeight& weight, const TensorView& out, const TensorView& bias) {
  const Named named{"out", out};
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype(named, {DType::f32, DType::f16, DType::bf16}));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout(named));
  if (out.rank != 2 || out.column_rank != 1 || out.shape[1] != weight.spec.n) {
    return invalid(fmt::format("out: expected [m, {}], got {}", weight.spec.n, to_string(out)));
  }
  if (out.shape[0] > 1 && out.strides[0] < weight.spec.n) {
    return invalid(fmt::format("out: expected a row stride of at least {}, got {}", weight.spec.n,
                               to_string(out)));
  }
  if (out.device != weight.device) {
    return invalid("out: expected the device of the weight, got " + to_string(out));
  }
  if (api::is_absent(bias)) return {};
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype({"bias", bias}, {DType::f32, DType::f16, DType::bf16}));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout({"bias", bias}));
  if (bias.rank != 1 || bias.shape[0] != weight.spec.n) {
    return invalid(fmt::format("bias: expected [{}], got {}", weight.spec.n, to_string(bias)));
  }
  if (bias.device != weight.device) {
    return invalid("bias: expected the device of the weight, got " + to_string(bias));
  }
  return {};
}

// memory: of the workspace; null for a call that is not run.
Status make_call(const LinearFp8::Data& layer, const TensorView& out, const TensorView& bias,
                 std::byte* memory, Call* call) {
  const PackedWeight& weight = layer.weight;
  ROWSCALE_RETURN_IF_ERROR(check_out(weight, out, bias));
  call->layer = &layer;
  call->out = out;
  call->bias = bias;
  call->input.recipe = layer.options.input;
  const int64_t m = out.shape[0];
  const DType dtype = call->input.recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2;
  call->input.codes = TensorView::strided(static_cast<void*>(memory), dtype, {m, weight.spec.k},
                                          {weight.spec.padded_k, 1}, weight.device);
  ScaleSpec spec;
  ROWSCALE_RETURN_IF_ERROR(scale_spec(call->input.codes, call->input.recipe, &spec));
  // Rows of a padded product lie behind the last one.
  const int64_t rows = round_up(m, int64_t{4});
  Places& at = call->workspace;
  size_t bytes = round_up(static_cast<size_t>(rows * weight.spec.padded_k), kUnit);
  at.scales = bytes;
  if (call->has_given_scale()) {
    call->input.scales = spec.view(layer.options.input_scale.data, weight.device);
  } else {
    call->input.scales = spec.view(
        static_cast<void*>(memory == nullptr ? nullptr : memory + at.scales), weight.device);
    bytes += round_up(static_cast<size_t>(spec.allocation * element_size(spec.dtype)), kUnit);
  }
  at.quantize = bytes;
  at.quantize_bytes = quantize_workspace_bytes(call->input.codes, call->input.recipe);
  bytes += round_up(at.quantize_bytes, kUnit);
  at.product = bytes;
  return {};
}

ProductCall product_call(const Call& call, const WeightPart& part) {
  ProductCall product;
  product.weight = &call.weight();
  product.part = &part;
  product.options = call.layer->options.matmul;
  product.input = call.input;
  // Of a null pointer too: an address as well aligned as the slice's will be, beside which no other
  // tensor lies.
  const auto slice = [&part](TensorView view, int dimension, uintptr_t in_place_of_null) {
    const auto address =
        view.data == nullptr ? in_place_of_null : reinterpret_cast<uintptr_t>(view.data);
    const auto bytes = static_cast<uintptr_t>(part.first_row * element_size(view.dtype));
    view.data = reinterpret_cast<void*>(address + bytes);  // NOLINT(performance-no-int-to-ptr)
    view.shape[dimension] = part.rows;
    return view;
  };
  product.out = slice(call.out, 1, 0);
  constexpr auto kFarAway = uintptr_t{1} << 55;  // from slices of an out that is null
  product.bias = api::is_absent(call.bias) ? call.bias : slice(call.bias, 0, kFarAway);
  return product;
}

Status check_x(const Call& call, const TensorView& x, int64_t columns) {
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype({"x", x}, {DType::f32, DType::f16, DType::bf16}));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout({"x", x}));
  if (x.rank - x.column_rank != 1 || x.rows() != call.out.shape[0] || x.columns() != columns) {
    return invalid(
        fmt::format("x: expected [{}, {}], got {}", call.out.shape[0], columns, to_string(x)));
  }
  if (x.row_counts != nullptr) return invalid("x: expected no row_counts");
  if (x.device != call.out.device) {
    return invalid("x: expected the device of the weight, got " + to_string(x));
  }
  return {};
}

Status check_workspace(const Workspace& workspace, size_t needed) {
  if (needed == 0) return {};
  if (workspace.data == nullptr || workspace.bytes < needed) {
    return invalid(fmt::format("exec.workspace: expected {} bytes (LinearFp8::prepare), got {}",
                               needed, workspace.data == nullptr ? 0 : workspace.bytes));
  }
  if (reinterpret_cast<uintptr_t>(workspace.data) % kUnit != 0) {
    return invalid(
        fmt::format("exec.workspace: expected an address that is a multiple of {}, got "
                    "{}",
                    kUnit, workspace.data));
  }
  return {};
}

// The columns between k and the rows' stride, as zeros: they meet the weight's zeros, and 0 * NaN
// is none.
Status zero_pads(const Call& call, const Exec& exec) {
  const PackedWeightSpec& spec = call.weight().spec;
  linear::Rows pads;
  pads.to = static_cast<std::byte*>(call.input.codes.data) + spec.k;
  pads.to_pitch = spec.padded_k;
  pads.width = spec.padded_k - spec.k;
  pads.height = call.input.codes.shape[0];
  return linear::zero_rows(pads, call.weight().device, exec);
}

// The products of a call; those of the first parts are kept, so that they are found once.
class Products {
 public:
  Status find(const Call& call, size_t* workspace_bytes) {
    const std::vector<WeightPart>& parts = call.weight().spec.parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      Product& product = kept_[std::min(i, kKept - 1)];
      ROWSCALE_RETURN_IF_ERROR(linear::find_product(product_call(call, parts[i]), &product));
      *workspace_bytes = std::max(*workspace_bytes, product.workspace_bytes);
    }
    return {};
  }

  // In the order of the parts.
  Status run(const Call& call, Before before, std::byte* workspace, const Exec& exec) {
    const std::vector<WeightPart>& parts = call.weight().spec.parts;
    const bool all_kept = parts.size() <= kKept;
    for (size_t i = 0; i < parts.size(); ++i) {
      const ProductCall at = product_call(call, parts[i]);
      Product& product = kept_[std::min(i, kKept - 1)];
      if (!all_kept && i + 1 >= kKept) ROWSCALE_RETURN_IF_ERROR(linear::find_product(at, &product));
      ROWSCALE_RETURN_IF_ERROR(linear::run_product(product, at, before, workspace, exec));
      before = product.form == linear::Form::direct ? Before::kernel : Before::other;
    }
    return {};
  }

 private:
  static constexpr size_t kKept = 3;
  std::array<Product, kKept> kept_;
};

// What stands in front of the product.
struct Front {
  const TensorView& x;
  int64_t inputs = 1;  // elements of x that make one of the input
  const RmsNorm* norm = nullptr;
};

// Outputs, the workspace among them, lie apart from everything else.
Status check_memory_use(const Front& front, const TensorView& bias, const TensorView& out,
                        const TensorView& workspace) {
  static const RmsNorm kNone;
  const RmsNorm& norm = front.norm == nullptr ? kNone : *front.norm;
  ROWSCALE_RETURN_IF_ERROR(api::check_data({"out", out}));
  if (!api::is_absent(bias)) ROWSCALE_RETURN_IF_ERROR(api::check_data({"bias", bias}));
  if (!api::is_absent(norm.weight)) {
    ROWSCALE_RETURN_IF_ERROR(api::check_layout({"norm.weight", norm.weight}));
  }
  if (!api::is_absent(norm.residual)) {
    ROWSCALE_RETURN_IF_ERROR(api::check_layout({"norm.residual", norm.residual}));
  }
  return api::check_disjoint({{"out", out}, {"exec.workspace", workspace}},
                             {{"x", front.x},
                              {"bias", bias},
                              {"norm.weight", norm.weight},
                              {"norm.residual", norm.residual}});
}

// quantizer(codes, scales, exec) writes the input.
template <class Quantizer>
Status run_layer(const LinearFp8::Data* layer, const Front& front, const TensorView& bias,
                 const TensorView& out, const Exec& exec, Quantizer&& quantizer) {
  if (layer == nullptr) return invalid("linear: expected one that make() made, got an empty one");
  const PackedWeightSpec& spec = layer->weight.spec;
  Call call;
  auto* memory = static_cast<std::byte*>(exec.workspace.data);
  ROWSCALE_RETURN_IF_ERROR(make_call(*layer, out, bias, memory, &call));
  ROWSCALE_RETURN_IF_ERROR(check_x(call, front.x, front.inputs * spec.k));
  // Failures come before any work.
  Products products;
  size_t product_bytes = 0;
  ROWSCALE_RETURN_IF_ERROR(products.find(call, &product_bytes));
  if (out.shape[0] == 0 || spec.n == 0) return {};
  const size_t needed = call.workspace.product + product_bytes;
  ROWSCALE_RETURN_IF_ERROR(check_workspace(exec.workspace, needed));
  const TensorView used = TensorView::contiguous(exec.workspace.data, DType::e4m3,
                                                 {static_cast<int64_t>(needed)}, out.device);
  ROWSCALE_RETURN_IF_ERROR(check_memory_use(front, bias, out, used));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({{"out", out}, {"bias", bias}}, exec));

  Before before = Before::other;
  if (spec.k > 0) {
    const bool has_pads = spec.padded_k != spec.k;
    if (has_pads) ROWSCALE_RETURN_IF_ERROR(zero_pads(call, exec));
    Exec first = exec;
    if (has_pads) first.dependent_launch = DependentLaunch::off;  // behind a copy
    first.workspace = {memory + call.workspace.quantize, call.workspace.quantize_bytes};
    ROWSCALE_RETURN_IF_ERROR(quantizer(call.input.codes, call.input.scales, first));
    before = Before::kernel;
  }
  return products.run(call, before, memory + call.workspace.product, exec);
}

Status check_input_scale(const LinearOptions& options, const PackedWeight& weight) {
  const TensorView& scale = options.input_scale;
  if (options.input.scale_source == ScaleSource::dynamic) {
    if (api::is_absent(scale)) return {};
    return invalid("options.input_scale: expected none beside a dynamic input, got " +
                   to_string(scale));
  }
  if (options.input.granularity != Granularity::per_tensor) {
    return invalid("options.input: expected per_tensor where its scale is given");
  }
  int64_t count = scale.rank < 0 ? 0 : 1;
  for (int i = 0; i < scale.rank; ++i) count *= scale.shape[i];
  if (api::is_absent(scale) || scale.data == nullptr || scale.dtype != DType::f32 || count != 1 ||
      scale.device != weight.device) {
    return invalid("options.input_scale: expected one f32 on the weight's device, got " +
                   (api::is_absent(scale) ? std::string("none") : to_string(scale)));
  }
  return {};
}

// The layout that backends read where the scales lie: cuBLASLt wants columns, and no other backend
// minds. Columns of a multiple of 4 rows let a product be padded.
Recipe placed(Recipe input, Device device) {
  const bool is_open =
      input.layout == ScaleLayout::row_major && input.encoding != ScaleEncoding::ue8m0_packed;
  if (is_open && device.type == DeviceType::cuda && input.granularity == Granularity::per_group) {
    input.layout = ScaleLayout::column_major_tma;
  }
  return input;
}

}  // namespace

Status LinearFp8::make(const PackedWeight& weight, const LinearOptions& options,
                       LinearFp8* linear) {
  if (linear == nullptr) return invalid("linear: expected a place for the result, got null");
  if (Status s = check(options.input); !s.ok()) {
    return {s.code(), "options.input: " + s.message()};
  }
  for (const auto& [name, data, bytes] :
       {std::tuple{"weight.codes", weight.codes, weight.spec.codes_bytes},
        std::tuple{"weight.scales", weight.scales, weight.spec.scales_bytes}}) {
    if ((bytes > 0 && data == nullptr) || reinterpret_cast<uintptr_t>(data) % 16 != 0) {
      return invalid(
          fmt::format("{}: expected {} bytes at a multiple of 16, got {}", name, bytes, data));
    }
  }
  if (weight.spec.parts.empty()) {
    return invalid("weight.spec: expected one of packed_weight_spec(), got an empty one");
  }
  ROWSCALE_RETURN_IF_ERROR(check_input_scale(options, weight));
  auto data = std::make_shared<Data>();
  data->weight = weight;
  data->options = options;
  data->options.input = placed(options.input, weight.device);
  // A call without rows: whether matmul has such a pair at all.
  Call call;
  const TensorView out = TensorView::contiguous(static_cast<void*>(nullptr), DType::bf16,
                                                {0, weight.spec.n}, weight.device);
  ROWSCALE_RETURN_IF_ERROR(make_call(*data, out, {}, nullptr, &call));
  for (const WeightPart& part : weight.spec.parts) {
    const ProductCall at = product_call(call, part);
    ROWSCALE_RETURN_IF_ERROR(linear::check_product(at));
  }
  linear->data_ = std::move(data);
  return {};
}

Status LinearFp8::prepare(const TensorView& out, const TensorView& bias,
                          size_t* workspace_bytes) const {
  if (data_ == nullptr) return invalid("linear: expected one that make() made, got an empty one");
  if (workspace_bytes == nullptr) {
    return invalid("workspace_bytes: expected a place for the result, got null");
  }
  Call call;
  ROWSCALE_RETURN_IF_ERROR(make_call(*data_, out, bias, nullptr, &call));
  Products products;
  size_t bytes = 0;
  ROWSCALE_RETURN_IF_ERROR(products.find(call, &bytes));
  bytes += call.workspace.product;
  *workspace_bytes = out.shape[0] == 0 ? 0 : bytes;
  return {};
}

std::string LinearFp8::describe(const TensorView& out, const TensorView& bias) const {
  if (data_ == nullptr) return "an empty layer";
  Call call;
  if (Status s = make_call(*data_, out, bias, nullptr, &call); !s.ok()) return s.message();
  std::string text = "input: " + to_string(call.input.recipe);
  for (const WeightPart& part : data_->weight.spec.parts) {
    Product product;
    const Status status = linear::find_product(product_call(call, part), &product);
    text += fmt::format("\ncolumns {} to {}: ", part.first_row, part.first_row + part.rows);
    text += status.ok() ? linear::to_string(product) : status.message();
  }
  return text;
}

Status LinearFp8::run(const TensorView& x, const TensorView& bias, const TensorView& out,
                      const Exec& exec) const {
  return run_layer(data_.get(), {x, 1, nullptr}, bias, out, exec,
                   [&](const TensorView& codes, const TensorView& scales, const Exec& own) {
                     return quantize(x, data_->options.input, codes, scales, own);
                   });
}

Status LinearFp8::run_rms_norm(const TensorView& x, const RmsNorm& norm, const TensorView& bias,
                               const TensorView& out, const Exec& exec) const {
  return run_layer(data_.get(), {x, 1, &norm}, bias, out, exec,
                   [&](const TensorView& codes, const TensorView& scales, const Exec& own) {
                     return rms_norm_quantize(x, norm, data_->options.input, codes, scales, {},
                                              own);
                   });
}

Status LinearFp8::run_silu_mul(const TensorView& x, const TensorView& bias, const TensorView& out,
                               const Exec& exec) const {
  return run_layer(data_.get(), {x, 2, nullptr}, bias, out, exec,
                   [&](const TensorView& codes, const TensorView& scales, const Exec& own) {
                     return silu_mul_quantize(x, data_->options.input, codes, scales, {}, own);
                   });
}

Status LinearFp8::run_gelu_tanh_mul(const TensorView& x, const TensorView& bias,
                                    const TensorView& out, const Exec& exec) const {
  return run_layer(data_.get(), {x, 2, nullptr}, bias, out, exec,
                   [&](const TensorView& codes, const TensorView& scales, const Exec& own) {
                     return gelu_tanh_mul_quantize(x, data_->options.input, codes, scales, {}, own);
                   });
}

Status LinearFp8::run_relu2(const TensorView& x, const TensorView& bias, const TensorView& out,
                            const Exec& exec) const {
  return run_layer(data_.get(), {x, 1, nullptr}, bias, out, exec,
                   [&](const TensorView& codes, const TensorView& scales, const Exec& own) {
                     return relu2_quantize(x, data_->options.input, codes, scales, {}, own);
                   });
}

Status LinearFp8::run_swiglu_clamped(const TensorView& x, const SwigluClamped& params,
                                     const TensorView& bias, const TensorView& out,
                                     const Exec& exec) const {
  return run_layer(data_.get(), {x, 2, nullptr}, bias, out, exec,
                   [&](const TensorView& codes, const TensorView& scales, const Exec& own) {
                     return swiglu_clamped_quantize(x, params, data_->options.input, codes, scales,
                                                    {}, own);
                   });
}

}  // namespace rowscale
