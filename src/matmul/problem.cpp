#include "matmul/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "api/check.hpp"
#include "api/words.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::product {
namespace {

using api::granularity_text;
using api::invalid;
using api::is_absent;
using api::Named;

// Stands for memory that is not there yet.
constexpr int64_t kAssumedAlignment = 256;

template <class Enum>
Status check_choice(const char* name, Enum value, Enum last) {
  if (value >= Enum{} && value <= last) return {};
  return invalid(fmt::format("options.{}: expected 0 to {}, got {}", name, static_cast<int>(last),
                             static_cast<int>(value)));
}

Status check_recipe(const char* name, const Recipe& recipe) {
  const Status status = check(recipe);
  return status.ok() ? status
                     : Status(status.code(), fmt::format("{}: {}", name, status.message()));
}

Status check_options(const MatmulOptions& options) {
  ROWSCALE_RETURN_IF_ERROR(check_recipe("options.a", options.a));
  ROWSCALE_RETURN_IF_ERROR(check_recipe("options.b", options.b));
  ROWSCALE_RETURN_IF_ERROR(check_choice("backend", options.backend, MatmulBackend::dequantize));
  ROWSCALE_RETURN_IF_ERROR(check_choice("accumulation", options.accumulation, Accumulation::fast));
  ROWSCALE_RETURN_IF_ERROR(check_choice("tuning", options.tuning, Tuning::measured));
  ROWSCALE_RETURN_IF_ERROR(
      check_choice("batch_invariance", options.batch_invariance, BatchInvariance::on));
  if (options.a.format == Format::e5m2 && options.b.format == Format::e5m2) {
    return invalid("options.a, options.b: expected e4m3 in one of them, got e5m2 x e5m2");
  }
  // What is fastest for one m is not for another.
  if (options.tuning == Tuning::measured && options.batch_invariance == BatchInvariance::on) {
    return invalid("options.tuning: expected off beside batch_invariance on, got measured");
  }
  return {};
}

Status find_scaling(const Recipe& a, const Recipe& b, Scaling* scaling) {
  const bool a_is_vector =
      a.granularity == Granularity::per_tensor || a.granularity == Granularity::per_token;
  const bool b_is_vector =
      b.granularity == Granularity::per_tensor || b.granularity == Granularity::per_channel;
  const bool is_block = a.granularity == Granularity::per_group && a.group_size == kBlock &&
                        b.granularity == Granularity::per_block && b.block_rows == kBlock &&
                        b.block_columns == kBlock;
  if (!is_block && !(a_is_vector && b_is_vector)) {
    return invalid(
        fmt::format("options.a, options.b: expected per_tensor or per_token x per_tensor or "
                    "per_channel, or per_group(128) x per_block(128,128), got {} x {}",
                    granularity_text(a), granularity_text(b)));
  }
  *scaling = is_block ? Scaling::block : Scaling::vector;
  return {};
}

Status check_rank(Named tensor, int rank, const char* shape) {
  if (tensor.view.rank == rank && tensor.view.column_rank == 1) return {};
  return invalid(
      fmt::format("{}: expected {}, got {}", tensor.name, shape, to_string(tensor.view)));
}

Status check_size(Named tensor, int dimension, int64_t size, const char* meaning) {
  if (tensor.view.shape[dimension] == size) return {};
  return invalid(fmt::format("{}: expected {} {}, got {}", tensor.name, size, meaning,
                             to_string(tensor.view)));
}

Status find_grouping(const MatmulTensors& t, Grouping* grouping) {
  const bool has_offsets = !is_absent(t.expert_offsets);
  const bool has_counts = t.a.row_counts != nullptr;
  if (has_offsets && has_counts) {
    return invalid("expert_offsets: expected none beside row_counts of a, got " +
                   to_string(t.expert_offsets));
  }
  *grouping = has_offsets ? Grouping::sorted : has_counts ? Grouping::masked : Grouping::none;
  if (*grouping == Grouping::none && t.b.rank == 3) {
    return invalid("b: expected [n, k] without expert_offsets or row_counts of a, got " +
                   to_string(t.b));
  }
  return {};
}

// The view with memory where there is none yet: what the checks of layouts may be asked about.
TensorView placed(TensorView view) {
  static std::byte memory;
  if (view.data == nullptr) view.data = &memory;
  return view;
}

Status check_codes(Named tensor, Format format, int rank, const char* shape) {
  ROWSCALE_RETURN_IF_ERROR(
      api::check_dtype(tensor, {format == Format::e4m3 ? DType::e4m3 : DType::e5m2}));
  ROWSCALE_RETURN_IF_ERROR(check_rank(tensor, rank, shape));
  return api::check_layout(tensor);
}

Status check_out(const MatmulTensors& t, Grouping grouping) {
  const Named out{"out", t.out};
  const bool is_masked = grouping == Grouping::masked;
  const int rows = is_masked ? 1 : 0;
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype(out, {DType::f32, DType::f16, DType::bf16}));
  ROWSCALE_RETURN_IF_ERROR(
      check_rank(out, is_masked ? 3 : 2, is_masked ? "[experts, rows, n]" : "[m, n]"));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout(out));
  if (is_masked) ROWSCALE_RETURN_IF_ERROR(check_size(out, 0, t.a.shape[0], "experts, as a has"));
  ROWSCALE_RETURN_IF_ERROR(check_size(out, rows, t.a.shape[rows], "rows, as a has"));
  ROWSCALE_RETURN_IF_ERROR(
      check_size(out, rows + 1, t.b.shape[t.b.rank - 2], "columns, as b has rows"));
  const int64_t n = t.out.shape[rows + 1];
  if (t.out.shape[rows] > 1 && n > 0 && t.out.strides[rows] < n) {
    return invalid(
        fmt::format("out: expected a row stride of at least {}, got {}", n, to_string(t.out)));
  }
  return {};
}

Status check_bias(Named bias, int64_t n, Grouping grouping) {
  if (is_absent(bias.view)) return {};
  if (grouping != Grouping::none) {
    return invalid("bias: expected none with experts, got " + to_string(bias.view));
  }
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype(bias, {DType::f32, DType::f16, DType::bf16}));
  ROWSCALE_RETURN_IF_ERROR(check_rank(bias, 1, "[n]"));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout(bias));
  return check_size(bias, 0, n, "elements, as b has rows");
}

Status check_offsets(Named offsets, int64_t experts) {
  ROWSCALE_RETURN_IF_ERROR(api::check_dtype(offsets, {DType::i32}));
  ROWSCALE_RETURN_IF_ERROR(check_rank(offsets, 1, "[experts + 1]"));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout(offsets));
  ROWSCALE_RETURN_IF_ERROR(
      check_size(offsets, 0, experts + 1, "elements, one more than b has experts"));
  if (reinterpret_cast<uintptr_t>(offsets.view.data) % alignof(int32_t) != 0) {
    return invalid(
        fmt::format("expert_offsets: expected an address that is a multiple of {}, got {}",
                    alignof(int32_t), offsets.view.data));
  }
  return {};
}

int64_t lowest_bit(int64_t value) {
  return value & -value;
}

int64_t address_alignment(const void* data) {
  if (data == nullptr) return kAssumedAlignment;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
  return std::min(lowest_bit(address), kAssumedAlignment);
}

// Of a view of rank 2, or 3 with the experts first. Strides that no address uses are those of dense
// rows, so that equal problems compare equal; but where one row has to be as good as many, the
// stride of one counts as it would for more.
Operand operand_of(const TensorView& view, BatchInvariance batch_invariance) {
  const int rows = view.rank - 2;
  const int64_t size = element_size(view.dtype);
  const int64_t columns = view.shape[view.rank - 1];
  Operand operand;
  operand.dtype = view.dtype;
  operand.alignment = address_alignment(view.data);
  operand.row_stride = columns;
  const auto align = [&](int64_t stride) {
    if (stride != 0) operand.alignment = std::min(operand.alignment, lowest_bit(stride * size));
  };
  if (view.shape[rows] > 1 || batch_invariance == BatchInvariance::on) {
    operand.row_stride = view.strides[rows];
    align(operand.row_stride);
  }
  if (rows > 0) {
    operand.batch_stride = view.shape[rows] * operand.row_stride;
    if (view.shape[0] > 1) {
      operand.batch_stride = view.strides[0];
      align(operand.batch_stride);
    }
  }
  return operand;
}

// What of a recipe the scales' meaning depends on; every other field at its default.
Recipe meaning_of(const Recipe& recipe) {
  Recipe kept;
  kept.granularity = recipe.granularity;
  if (recipe.granularity == Granularity::per_group) kept.group_size = recipe.group_size;
  if (recipe.granularity == Granularity::per_block) {
    kept.block_rows = recipe.block_rows;
    kept.block_columns = recipe.block_columns;
  }
  kept.format = recipe.format;
  kept.encoding = recipe.encoding;
  // Packed scales have a layout of their own.
  if (recipe.encoding != ScaleEncoding::ue8m0_packed) kept.layout = recipe.layout;
  return resolve(kept);
}

ScaleSteps steps_of(const Recipe& recipe, const TensorView& codes) {
  if (recipe.encoding == ScaleEncoding::ue8m0_packed) return {};
  const plan::ScaleGrid grid(recipe, codes.shape[codes.rank - 2], codes.columns());
  const plan::ScaleStrides strides = plan::scale_strides(recipe, grid);
  ScaleSteps steps;
  if (grid.one_for_all) return steps;
  if (codes.rank == 3) steps.batch = strides.batch;
  steps.row = strides.row;
  if (recipe.granularity == Granularity::per_group ||
      recipe.granularity == Granularity::per_block) {
    steps.group = strides.column;
  }
  return steps;
}

Status check_devices(const MatmulTensors& t) {
  const Named others[] = {
      {"b", t.b},       {"scale_a", t.scale_a}, {"scale_b", t.scale_b},
      {"bias", t.bias}, {"out", t.out},         {"expert_offsets", t.expert_offsets}};
  for (const Named& other : others) {
    if (is_absent(other.view) || other.view.device == t.a.device) continue;
    return invalid(
        fmt::format("{}: expected the device of a, got {}", other.name, to_string(other.view)));
  }
  return {};
}

Status check_memory_use(const MatmulTensors& t) {
  constexpr api::Role kScales = api::Role::scales;
  return api::check_disjoint({{"out", t.out}}, {{"a", t.a, api::Role::input},
                                                {"b", t.b},
                                                {"scale_a", t.scale_a, kScales},
                                                {"scale_b", t.scale_b, kScales},
                                                {"bias", t.bias},
                                                {"expert_offsets", t.expert_offsets}});
}

const char* word(Grouping grouping) {
  return grouping == Grouping::sorted ? "sorted" : "masked";
}

std::string scaling_text(const Recipe& recipe) {
  std::string text = granularity_text(recipe);
  if (recipe.encoding != ScaleEncoding::f32) {
    text += std::string(" ") + api::word_of(recipe.encoding);
  }
  if (recipe.layout != ScaleLayout::row_major) {
    text += std::string(" ") + api::word_of(recipe.layout);
  }
  return text;
}

}  // namespace

Status make_problem(const MatmulTensors& t, const MatmulOptions& options, Problem* problem) {
  Problem p;
  ROWSCALE_RETURN_IF_ERROR(check_options(options));
  ROWSCALE_RETURN_IF_ERROR(find_scaling(options.a, options.b, &p.scaling));
  ROWSCALE_RETURN_IF_ERROR(find_grouping(t, &p.grouping));
  const bool is_grouped = p.grouping != Grouping::none;
  const bool is_masked = p.grouping == Grouping::masked;

  const Named a{"a", t.a};
  const Named b{"b", t.b};
  ROWSCALE_RETURN_IF_ERROR(check_codes(a, options.a.format, is_masked ? 3 : 2,
                                       is_masked ? "[experts, rows, k]" : "[m, k]"));
  ROWSCALE_RETURN_IF_ERROR(check_codes(b, options.b.format, is_grouped ? 3 : 2,
                                       is_grouped ? "[experts, n, k]" : "[n, k]"));
  p.m = t.a.shape[t.a.rank - 2];
  p.n = t.b.shape[t.b.rank - 2];
  p.k = t.a.shape[t.a.rank - 1];
  if (is_grouped) p.experts = t.b.shape[0];
  ROWSCALE_RETURN_IF_ERROR(check_size(b, t.b.rank - 1, p.k, "columns, as a has"));
  if (is_masked) ROWSCALE_RETURN_IF_ERROR(check_size(b, 0, t.a.shape[0], "experts, as a has"));
  p.recipe_a = meaning_of(options.a);
  p.recipe_b = meaning_of(options.b);
  ROWSCALE_RETURN_IF_ERROR(
      api::check_scales({"scale_a", placed(t.scale_a), api::Role::scales}, t.a, p.recipe_a));
  ROWSCALE_RETURN_IF_ERROR(
      api::check_scales({"scale_b", placed(t.scale_b), api::Role::scales}, t.b, p.recipe_b));
  ROWSCALE_RETURN_IF_ERROR(check_out(t, p.grouping));
  ROWSCALE_RETURN_IF_ERROR(check_bias({"bias", t.bias}, p.n, p.grouping));
  if (p.grouping == Grouping::sorted) {
    ROWSCALE_RETURN_IF_ERROR(check_offsets({"expert_offsets", t.expert_offsets}, p.experts));
  }
  ROWSCALE_RETURN_IF_ERROR(check_devices(t));
  ROWSCALE_RETURN_IF_ERROR(check_memory_use(t));

  p.a = operand_of(t.a, options.batch_invariance);
  p.b = operand_of(t.b, options.batch_invariance);
  p.out = operand_of(t.out, options.batch_invariance);
  p.scale_a = steps_of(p.recipe_a, t.a);
  p.scale_b = steps_of(p.recipe_b, t.b);
  p.scale_a_alignment = address_alignment(t.scale_a.data);
  p.scale_b_alignment = address_alignment(t.scale_b.data);
  p.has_bias = !is_absent(t.bias);
  if (p.has_bias) {
    p.bias = t.bias.dtype;
    p.bias_alignment = address_alignment(t.bias.data);
  }
  p.device = t.a.device;
  *problem = p;
  return {};
}

std::string to_string(const Problem& p) {
  std::string text = fmt::format("m={} n={} k={}", p.m, p.n, p.k);
  if (p.grouping != Grouping::none) {
    text += fmt::format(" experts={} {}", p.experts, word(p.grouping));
  }
  text += fmt::format(" {} x {} {} x {} -> {}", rowscale::to_string(p.a.dtype),
                      rowscale::to_string(p.b.dtype), scaling_text(p.recipe_a),
                      scaling_text(p.recipe_b), rowscale::to_string(p.out.dtype));
  if (p.has_bias) text += fmt::format(", bias {}", rowscale::to_string(p.bias));
  // Rows that do not lie one after the other.
  if (p.a.row_stride != p.k) text += fmt::format(", row stride of a {}", p.a.row_stride);
  if (p.b.row_stride != p.k) text += fmt::format(", row stride of b {}", p.b.row_stride);
  if (p.out.row_stride != p.n) text += fmt::format(", row stride of out {}", p.out.row_stride);
  return text + (p.device.type == DeviceType::cpu ? std::string(" on cpu")
                                                  : fmt::format(" on cuda:{}", p.device.index));
}

}  // namespace rowscale::product
