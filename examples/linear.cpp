// A linear layer of two merged weights (gate and up, as a checkpoint has them) behind one object:
// quantizes activations, multiplies, and prints how far that is from the unquantized product.
#include <rowscale/rowscale.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using rowscale::DType;
using rowscale::Status;
using rowscale::TensorView;

int fail(const Status& status) {
  std::fprintf(stderr, "%s: %s\n", to_string(status.code()), status.message().c_str());
  return 1;
}

struct Free {
  void operator()(void* data) const { std::free(data); }
};
using Memory = std::unique_ptr<void, Free>;

// Of a size that aligned_alloc takes.
Memory allocate(size_t bytes) {
  constexpr size_t kAlignment = 256;
  return Memory(std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment));
}

// A weight [n, k] in FP8 with a scale a channel, as a checkpoint holds it.
struct Shard {
  std::vector<float> values;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  Status fill(int64_t n, int64_t k, float step) {
    values.resize(static_cast<size_t>(n * k));
    codes.resize(values.size());
    scales.resize(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::cos(static_cast<float>(i) * step);
    return rowscale::quantize(TensorView::contiguous(values.data(), DType::f32, {n, k}),
                              rowscale::per_channel(),
                              TensorView::contiguous(codes.data(), DType::e4m3, {n, k}),
                              TensorView::contiguous(scales.data(), DType::f32, {n, 1}));
  }
  [[nodiscard]] rowscale::WeightShard view(int64_t n, int64_t k) const {
    return {TensorView::contiguous(codes.data(), DType::e4m3, {n, k}),
            TensorView::contiguous(scales.data(), DType::f32, {n, 1}), rowscale::per_channel()};
  }
};

}  // namespace

int main() {
  const int64_t tokens = 3;
  const int64_t n = 48;  // of each shard
  const int64_t k = 300;
  Shard gate;
  Shard up;
  for (Status status : {gate.fill(n, k, 0.11F), up.fill(n, k, 0.23F)}) {
    if (!status.ok()) return fail(status);
  }
  std::vector<float> x(static_cast<size_t>(tokens * k));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37F);
  std::vector<float> out(static_cast<size_t>(tokens * 2 * n));

  // [linear]
  // Once: the weight is packed, in memory of yours.
  const std::vector<rowscale::WeightShard> shards = {gate.view(n, k), up.view(n, k)};
  rowscale::PackedWeight weight;
  Status status = rowscale::packed_weight_spec(shards, &weight.spec);
  if (!status.ok()) return fail(status);
  const Memory codes = allocate(weight.spec.codes_bytes);
  const Memory scales = allocate(weight.spec.scales_bytes);
  weight.codes = codes.get();
  weight.scales = scales.get();
  status = rowscale::pack_weight(shards, weight);
  if (!status.ok()) return fail(status);

  rowscale::LinearFp8 layer;  // the input is quantized per token
  status = rowscale::LinearFp8::make(weight, {}, &layer);
  if (!status.ok()) return fail(status);

  // For a number of rows: the plan, and how much workspace a call needs.
  const TensorView y = TensorView::contiguous(out.data(), DType::f32, {tokens, 2 * n});
  size_t bytes = 0;
  status = layer.prepare(y, {}, &bytes);
  if (!status.ok()) return fail(status);
  const Memory workspace = allocate(bytes);

  // Each call.
  rowscale::Exec exec;
  exec.workspace = {workspace.get(), bytes};
  status = layer.run(TensorView::contiguous(x.data(), DType::f32, {tokens, k}), {}, y, exec);
  if (!status.ok()) return fail(status);
  // [/linear]

  double largest = 0.0;
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j < 2 * n; ++j) {
      const Shard& shard = j < n ? gate : up;
      double sum = 0.0;
      double magnitude = 0.0;
      for (int64_t l = 0; l < k; ++l) {
        const double product = double{x[static_cast<size_t>(i * k + l)]} *
                               double{shard.values[static_cast<size_t>(j % n * k + l)]};
        sum += product;
        magnitude += std::abs(product);
      }
      const double got = out[static_cast<size_t>(i * 2 * n + j)];
      largest = std::max(largest, std::abs(got - sum) / magnitude);
    }
  }
  std::printf("%s\n", layer.describe(y, {}).c_str());
  std::printf("largest error of a value: %.4f of its absolute products\n", largest);
  // e4m3 keeps four bits of each factor.
  return largest < 1.0 / 16 ? 0 : 1;
}
