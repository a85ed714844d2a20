#include "checkpoint/strip_schedule.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "checkpoint/fused_group.hpp"

namespace rowscale::checkpoint {
namespace {

// Bytes of the widest element, so that a buffer of them holds a strip of any.
constexpr int64_t kWidest = 4;
// Strips are at least this many times wider than high, so that scales stay small beside codes.
constexpr int64_t kLeastColumns = 8;

int64_t down_to_multiple(int64_t size, int64_t multiple) {
  return size / multiple * multiple;
}

bool is_transposed(const WeightPart& part) {
  return part.column_stride != 1;
}

}  // namespace

void SharedAmax::raise(float amax) {
  const std::lock_guard<std::mutex> lock(mutex_);
  amax_ = std::max(amax_, amax);
  if (--pending_ == 0) complete_.notify_all();
}

StripSchedule::StripSchedule(const Plan& plan, const Model& model, const ShardLayout& layout,
                             uint32_t shard, uint32_t first_tensor, int64_t elements,
                             GroupAmaxes* groups, ReadScales read_scales)
    : plan_(plan),
      model_(model),
      layout_(layout),
      shard_(shard),
      next_tensor_(first_tensor),
      elements_(elements),
      groups_(groups),
      read_scales_(std::move(read_scales)) {}

bool StripSchedule::next(Task* task) {
  const uint32_t tensors = plan_.shard_begin[shard_ + 1] - plan_.shard_begin[shard_];
  while (tasks_.empty() && next_tensor_ < tensors) {
    add_tensor(next_tensor_++);
    if (!tasks_.empty()) tasks_.back().ends_tensor = true;
  }
  if (tasks_.empty()) return false;
  *task = std::move(tasks_.front());
  tasks_.pop_front();
  return true;
}

void StripSchedule::add_tensor(uint32_t tensor) {
  const TensorPlan& plan = plan_.tensors[plan_.shard_begin[shard_] + tensor];
  switch (plan.action) {
    case Action::consume:
    case Action::drop:
      return;
    case Action::copy:
    case Action::pass:
      return add_copy(tensor, *layout_.slots_of(tensor), TaskKind::copy);
    case Action::pass_scale: {
      const Slot slot = *layout_.slots_of(tensor);
      const bool same = slot.bytes == model_.entry(plan.source).bytes();
      return add_copy(tensor, slot, same ? TaskKind::copy : TaskKind::widen_scales);
    }
    case Action::dequantize:
      return add_dequantized(tensor);
    case Action::quantize:
    case Action::requantize:
      return add_weights(tensor);
  }
}

void StripSchedule::add_copy(uint32_t tensor, Slot to, TaskKind kind) {
  const TensorPlan& plan = plan_.tensors[plan_.shard_begin[shard_] + tensor];
  const int64_t bytes = model_.entry(plan.source).bytes();
  // A byte becomes a float of four.
  const int64_t growth = kind == TaskKind::widen_scales ? kWidest : 1;
  const int64_t step = elements_ * kWidest / growth;
  for (int64_t at = 0; at < bytes || at == 0; at += step) {
    Task task;
    task.kind = kind;
    task.tensor = tensor;
    task.source = plan.source;
    task.begin = at;
    task.bytes = std::min(step, bytes - at);
    task.source_bytes = task.bytes;
    task.to = to.begin + at * growth;
    tasks_.push_back(std::move(task));
  }
}

std::shared_ptr<Weight> StripSchedule::weight_of(const TensorPlan& tensor, WeightPart part) {
  auto weight = std::make_shared<Weight>();
  weight->source = tensor.source;
  weight->part = std::move(part);
  weight->stored = model_.entry(tensor.source).type;
  weight->type = weight_type(plan_, weight->stored);
  if (weight->stored == StoredType::f8_e4m3) weight->source_scales = read_scales_(tensor);
  return weight;
}

// In the order of the file: whole rows, or pieces of one.
void StripSchedule::add_dequantized(uint32_t tensor) {
  const TensorPlan& plan = plan_.tensors[plan_.shard_begin[shard_] + tensor];
  const auto weight =
      weight_of(plan, std::move(weight_parts(plan_, model_.entry(plan.source)).front()));
  const int64_t element = bits_per_element(weight->type) / 8;
  const int64_t rows = weight->part.rows;
  const int64_t columns = weight->part.columns;
  const int64_t step = std::max<int64_t>(rows_a_strip(*weight), 1);
  const int64_t width = rows_a_strip(*weight) > 0 ? columns : columns_a_strip(*weight, 1, 1);
  for (int64_t r = 0; r < rows; r += step) {
    for (int64_t c = 0; c < columns; c += width) {
      Task task;
      task.kind = TaskKind::dequantize;
      task.tensor = tensor;
      task.weight = weight;
      task.row = r;
      task.rows = std::min(step, rows - r);
      task.column = c;
      task.columns = std::min(width, columns - c);
      task.source_bytes = task.rows * task.columns;
      task.begin = (r * columns + c) * element;
      task.bytes = task.rows * task.columns * element;
      task.to = layout_.slots_of(tensor)->begin + task.begin;
      tasks_.push_back(std::move(task));
    }
  }
}

void StripSchedule::measure_group(uint32_t group) {
  const auto amax = std::make_shared<SharedAmax>();
  (*groups_)[group] = amax;
  for (const uint32_t i : plan_.groups[group]) {
    const TensorPlan& tensor = plan_.tensors[i];
    for (WeightPart& part : weight_parts(plan_, model_.entry(tensor.source))) {
      const int64_t rows = part.rows;
      add_measures(weight_of(tensor, std::move(part)), amax, 0, rows);
    }
  }
}

void StripSchedule::add_weights(uint32_t tensor) {
  const TensorPlan& plan = plan_.tensors[plan_.shard_begin[shard_] + tensor];
  std::vector<WeightPart> parts = weight_parts(plan_, model_.entry(plan.source));
  const Slot* slot = layout_.slots_of(tensor);
  if (plan_.request.scheme == Scheme::fp8_tensor && plan.group != kNoGroup &&
      groups_->count(plan.group) == 0) {
    measure_group(plan.group);
  }
  std::vector<std::shared_ptr<Weight>> fused;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string key = scale_group(parts[i].module);
    const bool more =
        i + 1 < parts.size() && !key.empty() && scale_group(parts[i + 1].module) == key;
    fused.push_back(weight_of(plan, std::move(parts[i])));
    fused.back()->codes = *slot++;
    fused.back()->scales = *slot++;
    if (more && plan_.request.scheme == Scheme::fp8_tensor) continue;
    if (plan_.request.scheme == Scheme::fp8_tensor) {
      const auto amax =
          plan.group == kNoGroup ? std::make_shared<SharedAmax>() : groups_->at(plan.group);
      for (const auto& weight : fused) {
        if (plan.group == kNoGroup) add_measures(weight, amax, 0, weight->part.rows);
        weight->amax = amax;
      }
    }
    for (const auto& weight : fused) add_casts(tensor, weight);
    fused.clear();
  }
}

// Whole rows; 0: not even one fits. With FP8 sources a strip stays inside a row of blocks or holds
// whole ones, so that the scales of its elements are a rectangle too.
int64_t StripSchedule::rows_a_strip(const Weight& weight) const {
  const WeightPart& part = weight.part;
  const int64_t spread = is_transposed(part) ? part.row_stride : 1;  // elements read for one kept
  int64_t rows = elements_ / std::max(part.columns, kLeastColumns) / spread;
  if (weight.source_scales.empty()) return rows;
  const int64_t block = model_.quantization().block_rows;
  if (rows >= block) return down_to_multiple(rows, block);
  while (rows > 1 && block % rows != 0) --rows;
  return rows;
}

int64_t StripSchedule::columns_a_strip(const Weight& weight, int64_t rows, int64_t multiple) const {
  if (!weight.source_scales.empty()) multiple = model_.quantization().block_columns;
  const int64_t spread = is_transposed(weight.part) ? weight.part.row_stride : 1;
  return std::max(multiple, down_to_multiple(elements_ / rows / spread, multiple));
}

void StripSchedule::add_measures(const std::shared_ptr<const Weight>& weight,
                                 const std::shared_ptr<SharedAmax>& amax, int64_t row,
                                 int64_t rows) {
  const int64_t step = std::max<int64_t>(rows_a_strip(*weight), 1);
  const int64_t width =
      rows_a_strip(*weight) > 0 ? weight->part.columns : columns_a_strip(*weight, 1, 1);
  int strips = 0;
  for (int64_t r = row; r < row + rows; r += step) {
    for (int64_t c = 0; c < weight->part.columns; c += width) {
      Task task;
      task.kind = TaskKind::measure;
      task.weight = weight;
      task.amax = amax;
      task.row = r;
      task.rows = std::min(step, row + rows - r);
      task.column = c;
      task.columns = std::min(width, weight->part.columns - c);
      tasks_.push_back(std::move(task));
      ++strips;
    }
  }
  amax->expect(strips);
}

void StripSchedule::add_casts(uint32_t tensor, const std::shared_ptr<Weight>& weight) {
  const WeightPart& part = weight->part;
  int64_t step = rows_a_strip(*weight);
  int64_t width = part.columns;
  if (plan_.request.scheme == Scheme::fp8_block) {
    step = down_to_multiple(step, plan_.block_rows);
    if (step == 0) {
      step = plan_.block_rows;
      width = columns_a_strip(*weight, step, plan_.block_columns);
    }
  }
  const bool long_rows = step == 0;
  if (long_rows) {
    step = 1;
    width = columns_a_strip(*weight, 1, 1);
  }
  const int64_t element = bits_per_element(weight->stored) / 8;
  for (int64_t r = 0; r < part.rows; r += step) {
    std::shared_ptr<SharedAmax> amax = weight->amax;
    if (long_rows && !amax) {
      amax = std::make_shared<SharedAmax>();
      add_measures(weight, amax, r, 1);
    }
    for (int64_t c = 0; c < part.columns; c += width) {
      Task task;
      task.kind = TaskKind::cast;
      task.tensor = tensor;
      task.weight = weight;
      task.amax = amax;
      task.row = r;
      task.rows = std::min(step, part.rows - r);
      task.column = c;
      task.columns = std::min(width, part.columns - c);
      task.source_bytes = task.rows * task.columns * element;
      tasks_.push_back(std::move(task));
    }
  }
}

}  // namespace rowscale::checkpoint
