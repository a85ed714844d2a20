// What a conversion will do with each tensor, decided from headers alone and before any work.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/decision.hpp"
#include "checkpoint/model.hpp"
#include "checkpoint/scale_names.hpp"
#include "checkpoint/scheme.hpp"

namespace rowscale::checkpoint {

enum class Action : uint8_t {
  copy,        // byte for byte
  quantize,    // one weight, or the experts of a stack, to codes and scales
  requantize,  // block FP8 to codes and scales of the scheme
  dequantize,  // block FP8 that is left alone by --ignore: to the config's dtype, BF16 if it has
               // none
  pass,        // block FP8 codes as they are
  pass_scale,  // their scales, under the name that readers of compressed-tensors expect
  consume,     // scales that a requantized or dequantized weight needs: not written
  drop,
};

const char* to_string(Action action);

inline constexpr uint32_t kNoGroup = UINT32_MAX;

struct TensorPlan {
  Place source;
  Action action = Action::copy;
  Reason reason = Reason::linear_weight;
  uint32_t group = kNoGroup;  // fp8-tensor: weights with equal numbers share their scale
};

// One weight matrix [rows, columns] in a source tensor: all of it, or an expert's part of a stack.
// Element (r, c) is element begin + r * row_stride + c * column_stride of the tensor.
struct WeightPart {
  std::string module;  // "model.layers.0.mlp.experts.3.up_proj"
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t begin = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

struct ReasonTotal {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

struct PlanRequest {
  Scheme scheme = Scheme::fp8_dynamic;
  Numerics numerics = Numerics::compressed_tensors;
  std::vector<std::string> ignore;
  std::string base_model;  // what the source is called, "owner/name"; empty: found from its folder
};

struct Plan {
  PlanRequest request;
  ModelTraits traits;
  SourceFormat source_format = SourceFormat::plain;
  int64_t block_rows = kBlock;  // of the output's fp8-block
  int64_t block_columns = kBlock;

  // By shard, then by their place in the file.
  std::vector<TensorPlan> tensors;
  std::vector<uint32_t> shard_begin;          // of each shard its first tensor; one more at the end
  std::vector<std::vector<uint32_t>> groups;  // of TensorPlan::group: indices of tensors

  std::vector<std::string> ignore;  // modules for the output's config, sorted
  std::vector<std::string> warnings;
  bool has_kv_scales = false;  // an input that brings scales of a kv-cache keeps them

  int64_t source_bytes = 0;     // of all tensors
  int64_t quantized_bytes = 0;  // of those that end as FP8, in the source
  int64_t output_bytes = 0;     // of all tensors written
  int64_t side_bytes = 0;       // of the files that are copied
  std::array<ReasonTotal, kReasons> by_reason;
  int64_t unknown_stack_bytes = 0;

  double share_quantized() const {
    return source_bytes == 0
               ? 0.0
               : static_cast<double>(quantized_bytes) / static_cast<double>(source_bytes);
  }
};

// Throws Failure: input (what cannot be converted, or nothing to quantize), usage (a pattern that
// fits nothing or splits a fused group), unreadable (of the heads and embeddings that it compares).
Plan make_plan(Model* model, const PlanRequest& request);

// The weight matrices of a tensor whose action is quantize, requantize or pass.
std::vector<WeightPart> weight_parts(const Plan& plan, const TensorEntry& entry);

// The dtype that the arithmetic of a weight is named after: its own, or the config's for FP8.
StoredType weight_type(const Plan& plan, StoredType stored);
StoredType scale_type(const Plan& plan, StoredType stored);
std::vector<int64_t> scale_shape(const Plan& plan, int64_t rows, int64_t columns);

struct OutputTensor {
  std::string name;
  StoredType type = StoredType::u8;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

// What a tensor becomes: none, itself, or codes and scales in turn, part by part.
std::vector<OutputTensor> outputs_of(const Plan& plan, const Model& model,
                                     const TensorPlan& tensor);

}  // namespace rowscale::checkpoint
