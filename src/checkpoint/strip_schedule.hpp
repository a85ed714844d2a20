// Cuts the tensors of one shard into strips, in the order of the source.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "checkpoint/strip.hpp"

namespace rowscale::checkpoint {

// fp8-tensor: the amax of each fused group that was begun, over all shards.
using GroupAmaxes = std::map<uint32_t, std::shared_ptr<SharedAmax>>;

class StripSchedule {
 public:
  // `elements`: how many a strip may hold. `first_tensor`: of the shard; those before are done.
  // `read_scales`: the widened scales of a block FP8 weight.
  using ReadScales = std::function<std::vector<float>(const TensorPlan&)>;
  StripSchedule(const Plan& plan, const Model& model, const ShardLayout& layout, uint32_t shard,
                uint32_t first_tensor, int64_t elements, GroupAmaxes* groups,
                ReadScales read_scales);

  // False: all strips were given out.
  bool next(Task* task);

 private:
  void add_tensor(uint32_t tensor);
  void add_copy(uint32_t tensor, Slot to, TaskKind kind);
  void add_dequantized(uint32_t tensor);
  void add_weights(uint32_t tensor);
  void add_casts(uint32_t tensor, const std::shared_ptr<Weight>& weight);
  void add_measures(const std::shared_ptr<const Weight>& weight,
                    const std::shared_ptr<SharedAmax>& amax, int64_t row, int64_t rows);
  void measure_group(uint32_t group);
  std::shared_ptr<Weight> weight_of(const TensorPlan& tensor, WeightPart part);
  int64_t rows_a_strip(const Weight& weight) const;
  int64_t columns_a_strip(const Weight& weight, int64_t rows, int64_t multiple) const;

  const Plan& plan_;
  const Model& model_;
  const ShardLayout& layout_;
  uint32_t shard_;
  uint32_t next_tensor_;
  int64_t elements_;
  GroupAmaxes* groups_;
  ReadScales read_scales_;
  std::deque<Task> tasks_;
};

}  // namespace rowscale::checkpoint
