// A linear layer in FP8: quantize and matmul behind one object made from a checkpoint's tensors.
//   out[m,n] = matmul(quantize(x[m,k]), W[n,k]) + bias[n]
// What is fused in front of quantize, the recipes and the sums are those of producers.hpp,
// quantize.hpp and matmul.hpp; so are errors, streams and captures. docs/linear.md.
//
// The library owns no memory. Once: packed_weight_spec() says how much a weight takes,
// pack_weight() writes it. Each call: x, bias, out and a workspace, all the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rowscale/exec.hpp"
#include "rowscale/export.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/producers.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale {

// A weight of a checkpoint, or a part of a merged one (q, k and v; gate and up).
struct WeightShard {
  TensorView codes;  // e4m3 or e5m2 [n, k], rows at any stride of at least k
  // As scale_spec(codes, recipe); or, for f32 scales in row_major, as checkpoints have them: as
  // many elements, contiguous, in any shape, f32 or bf16.
  TensorView scales;
  Recipe recipe = per_channel();  // per_tensor, per_channel or per_block(128, 128)
};

// Rows of a packed weight that one product makes: columns first_row to first_row + rows of out.
struct WeightPart {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t padded_rows = 0;  // in memory; those behind `rows` are zeros
  size_t codes_offset = 0;  // bytes
  size_t scales_offset = 0;
};

// How a weight lies in memory: rows of codes at a stride of 16 bytes or a multiple, k and the rows
// of a part filled with zeros to what every backend takes; scales in f32.
//
// Merged weights keep the values of their shards: a per_tensor shard's scale is repeated for each
// of its rows, per_channel scales stand one after the other, and where a border between per_block
// shards is no border of blocks, a new part begins.
struct PackedWeightSpec {
  int64_t n = 0;
  int64_t k = 0;
  int64_t padded_k = 0;  // the row stride of the codes
  // per_block(128, 128) with block_k4 scales, else per_channel; encoding f32.
  Recipe recipe = per_channel();
  bool has_one_scale = false;  // per_channel with the same scale for all rows
  std::vector<WeightPart> parts;
  size_t codes_bytes = 0;
  size_t scales_bytes = 0;
};

// Reads shapes, dtypes and recipes, no data. All shards have the same k and format, and all or none
// are per_block.
ROWSCALE_API Status packed_weight_spec(std::span<const WeightShard> shards, PackedWeightSpec* spec);

struct PackedWeight {
  PackedWeightSpec spec;
  void* codes = nullptr;   // spec.codes_bytes at a multiple of 16; borrowed
  void* scales = nullptr;  // spec.scales_bytes at a multiple of 16; borrowed
  Device device;
};

// Writes weight.codes and weight.scales from the shards that weight.spec was made for, in
// exec.stream on a GPU. Shards and weight are on one device and do not overlap. Codes are copied,
// scales keep their values: nothing is rounded. Meant for loading: a few copies a shard.
ROWSCALE_API Status pack_weight(std::span<const WeightShard> shards, const PackedWeight& weight,
                                const Exec& exec = {});

// none: the weights alone are quantized. given: stored in the checkpoint.
enum class ActivationScales : int32_t { none = 0, dynamic = 1, given = 2 };

// What a checkpoint's configuration says about a layer.
struct LinearScheme {
  Granularity weights = Granularity::per_channel;  // or per_tensor, per_block (128 x 128)
  ActivationScales activations = ActivationScales::dynamic;
  friend bool operator==(const LinearScheme&, const LinearScheme&) = default;
};

struct LinearOptions {
  // How x is quantized: any recipe that matmul pairs with the weight's. Scales are in the
  // workspace, in the layout that the device's backends read where they lie; a layout other than
  // row_major is kept.
  Recipe input = per_token();
  // f32, one element, on the weight's device: the scale of a given per_tensor input. For merged
  // shards, the largest of theirs. Borrowed, and read by every call.
  TensorView input_scale;
  MatmulOptions matmul;  // all but a and b, which the weight and `input` say
};

// The input of a scheme: dynamic per_token beside per_tensor and per_channel weights, dynamic
// per_group(128) beside per_block; given per_tensor (input_scale is left to be set). unsupported:
// activations none, and given scales beside per_block.
ROWSCALE_API Status linear_options(const LinearScheme& scheme, LinearOptions* options);

// Immutable, cheap to copy, usable from any thread, by concurrent calls too.
//
// Tensors of a call: x is f32, f16 or bf16 of m rows, in one dimension of rows (any stride; columns
// as TensorView::as_rows names them); bias f32, f16 or bf16 [n], or a default TensorView; out f32,
// f16 or bf16 [m, n], rows at any stride of at least n. m may be 0. exec.workspace: what
// prepare() says for such an out and bias, on the device, at a multiple of 256, any content.
class ROWSCALE_API LinearFp8 {
 public:
  LinearFp8() = default;  // empty: calls answer invalid_argument

  static Status make(const PackedWeight& weight, const LinearOptions& options, LinearFp8* linear);

  // Makes the plans of calls with such an out and bias (shape, strides, dtype, alignment; a null
  // pointer stands for memory aligned to 256) and says the workspace they need. A call whose plans
  // are not there makes them: do this ahead of a capture. Plans are kept as matmul() keeps its own.
  Status prepare(const TensorView& out, const TensorView& bias, size_t* workspace_bytes) const;

  // quantize(x), then the product: the bits of the two calls. x is [m, k].
  [[nodiscard]] Status run(const TensorView& x, const TensorView& bias, const TensorView& out,
                           const Exec& exec = {}) const;

  // The quantizing producers in front: the bits of, for example, rms_norm_quantize(x), then the
  // product. Gated ones read [m, 2 * k].
  [[nodiscard]] Status run_rms_norm(const TensorView& x, const RmsNorm& norm,
                                    const TensorView& bias, const TensorView& out,
                                    const Exec& exec = {}) const;
  [[nodiscard]] Status run_silu_mul(const TensorView& x, const TensorView& bias,
                                    const TensorView& out, const Exec& exec = {}) const;
  [[nodiscard]] Status run_gelu_tanh_mul(const TensorView& x, const TensorView& bias,
                                         const TensorView& out, const Exec& exec = {}) const;
  [[nodiscard]] Status run_relu2(const TensorView& x, const TensorView& bias, const TensorView& out,
                                 const Exec& exec = {}) const;
  [[nodiscard]] Status run_swiglu_clamped(const TensorView& x, const SwigluClamped& params,
                                          const TensorView& bias, const TensorView& out,
                                          const Exec& exec = {}) const;

  // How calls with such an out and bias run: the input's recipe, then each product and its plan.
  [[nodiscard]] std::string describe(const TensorView& out, const TensorView& bias) const;

  class Data;  // src/linear/linear.cpp

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace rowscale
