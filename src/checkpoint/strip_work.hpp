// What is done with a strip: its bytes read, its numbers cast. Nothing here knows where the
// arithmetic runs: it goes through the functions of api/, on views.
#pragma once

#include <functional>

#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"
#include "checkpoint/strip.hpp"

namespace rowscale::checkpoint {

class StripWork {
 public:
  StripWork(const Plan& plan, const Model& model) : plan_(plan), model_(model) {}

  // The shards that the strip's task needs are acquired. Throws Failure(unreadable).
  void read(Strip* strip) const;
  // `stopping`: whether to give up waiting for other strips. Throws Failure(data) for numbers that
  // no scale can serve.
  void cast(Strip* strip, const std::function<bool()>& stopping) const;

 private:
  void read_rectangle(Strip* strip) const;
  const void* in_order(Strip* strip) const;
  std::vector<float> scales_of_source(const Task& task) const;
  void decode(const TensorView& codes, const std::vector<float>& scales, const TensorView& out,
              StripDevice* device) const;
  TensorView decoded(const TensorView& codes, const std::vector<float>& scales, DType dtype,
                     Strip* strip) const;

  const Plan& plan_;
  const Model& model_;
};

// `bytes`, those of the entry's UE8M0, BF16 or F32 numbers, as fp32, exactly. Throws Failure(data)
// for a scale that is no finite number.
std::vector<float> widened_scales(const TensorEntry& entry, const std::byte* bytes);
// Of the whole tensor, read from its open file.
std::vector<float> widened_scales(const TensorEntry& entry, const TensorFile& file);

}  // namespace rowscale::checkpoint
