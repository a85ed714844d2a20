// One linear layer as a test: shards of any sizes, packed and run on any device, held to fp64. What
// the input's codes must be is worked out here by the formulas of docs/numerics.md, not asked of
// the library.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "rowscale/linear.hpp"
#include "tests/support/matmul_cases.hpp"

namespace rowscale::test {

struct LinearCase {
  int64_t m = 3;
  std::vector<int64_t> shards = {64};  // rows of each
  int64_t k = 256;
  Granularity weights = Granularity::per_channel;
  ActivationScales activations = ActivationScales::dynamic;
  DType stored_scales = DType::f32;  // or bf16
  DType x = DType::bf16;
  DType out = DType::f32;
  bool has_bias = false;
  int64_t gap_out = 0;  // elements between rows of out
  MatmulOptions matmul;
  uint64_t seed = 1;
};

// The tensors of a case in a device's memory, around them NaN.
class LinearCall {
 public:
  // exec: the stream that packs and runs.
  LinearCall(const LinearCase& c, MatmulMemory* memory, const Exec& exec = {});

  // Of the library, packed and made. `first` to `last`: those shards alone.
  Status make(size_t first, size_t last);
  Status make() { return make(0, case_.shards.size()); }

  [[nodiscard]] const LinearFp8& layer() const { return layer_; }
  [[nodiscard]] const PackedWeightSpec& spec() const { return weight_.spec; }
  [[nodiscard]] const LinearOptions& options() const { return options_; }
  [[nodiscard]] const TensorView& x() const { return x_; }
  [[nodiscard]] const TensorView& out() const { return out_; }
  [[nodiscard]] const TensorView& bias() const { return bias_; }
  [[nodiscard]] const std::vector<WeightShard>& shards() const { return shards_; }

  // exec with a workspace of what prepare() says, full of NaN.
  Status workspace(Exec* exec);
  // Poisons out, then the layer.
  Status run() { return run(exec_); }
  Status run(const Exec& exec);
  // The rows of out, without gaps; fails the test where a gap was written.
  [[nodiscard]] std::vector<std::byte> result() const;
  // Every element of the last run within the bound.
  [[nodiscard]] testing::AssertionResult check() const;

 private:
  void make_shards();
  void make_input();
  void make_outputs();

  LinearCase case_;
  MatmulMemory* memory_;
  Exec exec_;
  std::vector<WeightShard> shards_;
  std::vector<std::vector<uint8_t>> shard_codes_;
  std::vector<std::vector<double>> shard_scales_;  // [scale rows][groups]
  std::vector<float> x_values_;
  std::vector<float> bias_values_;
  float input_scale_ = 0.0F;
  TensorView x_;
  TensorView bias_;
  TensorView out_;
  int64_t out_bytes_ = 0;
  PackedWeight weight_;
  LinearOptions options_;
  LinearFp8 layer_;
  int64_t first_row_ = 0;  // of the shards that were made
  int64_t rows_ = 0;
};

testing::AssertionResult linear_is_right(const LinearCase& c, MatmulMemory* memory,
                                         const Exec& exec = {});

// Every kind of weight and input with shards on and off block borders, sizes that are no multiples,
// bias, outputs, and m from 0.
std::vector<LinearCase> linear_cases();

}  // namespace rowscale::test
