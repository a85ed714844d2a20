// What the tensors of a plan become.
#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <utility>

#include "checkpoint/expert_stack.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t elements_of(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<WeightPart> weight_parts(const Plan& plan, const TensorEntry& entry) {
  const auto stack = expert_stack(plan.traits.model_type, entry.name, entry.shape);
  if (!stack) {
    return {
        {std::string(module_of(entry.name)), entry.shape[0], entry.shape[1], 0, entry.shape[1]}};
  }
  std::vector<WeightPart> out;
  const int64_t projections = stack->part == StackPart::gate_up ? 2 : 1;
  const int64_t all_out = projections * stack->out;
  for (int64_t expert = 0; expert < stack->count; ++expert) {
    for (int64_t p = 0; p < projections; ++p) {
      WeightPart part;
      part.module = fmt::format("{}.{}.{}", stack->experts, expert,
                                projections == 1 ? "down_proj"
                                : p == 0         ? "gate_proj"
                                                 : "up_proj");
      part.rows = stack->out;
      part.columns = stack->in;
      const bool out_first = stack->family.orientation == Orientation::out_in;
      const int64_t step = out_first ? stack->in : 1;  // from one output to the next
      part.column_stride = out_first ? 1 : all_out;
      part.row_stride = step;
      part.begin = expert * all_out * stack->in + p * stack->out * step;
      out.push_back(std::move(part));
    }
  }
  return out;
}

StoredType weight_type(const Plan& plan, StoredType stored) {
  if (stored != StoredType::f8_e4m3) return stored;
  if (plan.traits.dtype == "float16") return StoredType::f16;
  return plan.traits.dtype == "float32" ? StoredType::f32 : StoredType::bf16;
}

StoredType scale_type(const Plan& plan, StoredType stored) {
  return plan.request.numerics == Numerics::precise ? StoredType::f32 : weight_type(plan, stored);
}

std::vector<int64_t> scale_shape(const Plan& plan, int64_t rows, int64_t columns) {
  switch (plan.request.scheme) {
    case Scheme::fp8_dynamic:
      return {rows, 1};
    case Scheme::fp8_block:
      return {ceil_div(rows, plan.block_rows), ceil_div(columns, plan.block_columns)};
    case Scheme::fp8_tensor:
      break;
  }
  return {1};
}

std::vector<OutputTensor> outputs_of(const Plan& plan, const Model& model,
                                     const TensorPlan& tensor) {
  const TensorEntry& e = model.entry(tensor.source);
  std::vector<OutputTensor> out;
  const auto add = [&](std::string name, StoredType type, std::vector<int64_t> shape) {
    const int64_t bytes = elements_of(shape) * bits_per_element(type) / 8;
    out.push_back({std::move(name), type, std::move(shape), bytes});
  };
  switch (tensor.action) {
    case Action::consume:
    case Action::drop:
      break;
    case Action::copy:
    case Action::pass:
      add(std::string(e.name), e.type, {e.shape.begin(), e.shape.end()});
      break;
    case Action::dequantize:
      add(std::string(e.name), weight_type(plan, e.type), {e.shape.begin(), e.shape.end()});
      break;
    case Action::pass_scale: {
      const bool is_float = e.type == StoredType::f32 || e.type == StoredType::bf16;
      add(weight_of_scale(e.name) + "_scale", is_float ? e.type : StoredType::f32,
          {e.shape.begin(), e.shape.end()});
      break;
    }
    case Action::quantize:
    case Action::requantize: {
      for (const WeightPart& part : weight_parts(plan, e)) {
        add(part.module + ".weight", StoredType::f8_e4m3, {part.rows, part.columns});
        add(part.module + ".weight_scale", scale_type(plan, e.type),
            scale_shape(plan, part.rows, part.columns));
      }
      break;
    }
  }
  return out;
}

}  // namespace rowscale::checkpoint
