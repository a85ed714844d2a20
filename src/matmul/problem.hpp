// A product as a value: everything a plan is made from, and nothing that differs between two runs
// of one plan.
#pragma once

#include <cstdint>
#include <string>

#include "rowscale/matmul.hpp"

namespace rowscale::product {

// Which elements share the scales of both operands. vector: one scale a tensor, a token or a
// channel. block: 1x128 of A and 128x128 of B.
enum class Scaling { vector, block };

inline constexpr int64_t kBlock = 128;

// Whose rows multiply which weights.
enum class Grouping {
  none,
  sorted,  // expert_offsets
  masked,  // row_counts
};

// Where the scale of (batch, row, group) lies, in elements from the first; 0 where all share it.
struct ScaleSteps {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t group = 0;
  friend bool operator==(const ScaleSteps&, const ScaleSteps&) = default;
};

struct Operand {
  DType dtype = DType::e4m3;
  int64_t row_stride = 0;    // elements; rows are contiguous
  int64_t batch_stride = 0;  // elements, of experts
  int64_t alignment = 0;     // bytes, a power of two up to 256: of every row's first element
  friend bool operator==(const Operand&, const Operand&) = default;
};

struct Problem {
  int64_t m = 0;  // rows of a; of one expert where they are masked
  int64_t n = 0;
  int64_t k = 0;
  int64_t experts = 1;
  Grouping grouping = Grouping::none;
  Scaling scaling = Scaling::vector;
  Operand a;
  Operand b;
  Operand out;
  Recipe recipe_a;  // resolved; granularity, encoding and layout count
  Recipe recipe_b;
  ScaleSteps scale_a;  // of f32 and ue8m0_f32 scales; other encodings go through plan::ScaleView
  ScaleSteps scale_b;
  int64_t scale_a_alignment = 0;  // bytes
  int64_t scale_b_alignment = 0;
  bool has_bias = false;
  DType bias = DType::f32;
  int64_t bias_alignment = 0;
  Device device;
  friend bool operator==(const Problem&, const Problem&) = default;
};

// The checked tensors as a problem. invalid_argument as include/rowscale/matmul.hpp says.
Status make_problem(const MatmulTensors& tensors, const MatmulOptions& options, Problem* problem);

// "m=16 n=4096 k=7168 e4m3 x e4m3 per_token x per_channel -> bf16, bias bf16 on cuda:0"
std::string to_string(const Problem& problem);

}  // namespace rowscale::product
