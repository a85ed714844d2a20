// Shards of a checkpoint as one weight.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "api/check.hpp"
#include "api/words.hpp"
#include "linear/copies.hpp"
#include "linear/weight.hpp"
#include "rowscale/linear.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale {
namespace {

using api::invalid;
using linear::copy_rows;
using linear::round_up;
using linear::Rows;
using linear::zero_rows;

constexpr int64_t kRowUnit = 16;  // bytes of a row, and rows of a vector-scaled weight
constexpr size_t kPartUnit = 256;

bool is_block(const Recipe& recipe) {
  return recipe.granularity == Granularity::per_block;
}

std::string name_of(size_t shard, const char* field) {
  return fmt::format("shards[{}].{}", shard, field);
}

// Scales as a checkpoint has them: as many as the recipe's, one after the other.
bool is_plain(const TensorView& scales, const ScaleSpec& spec, const Recipe& recipe) {
  if (recipe.encoding != ScaleEncoding::f32 || recipe.layout != ScaleLayout::row_major) {
    return false;
  }
  if (scales.dtype != DType::f32 && scales.dtype != DType::bf16) return false;
  if (scales.rank < 0 || scales.rank > kMaxRank) return false;
  int64_t dense = 1;
  for (int i = scales.rank - 1; i >= 0; --i) {
    if (scales.shape[i] > 1 && scales.strides[i] != dense) return false;
    dense *= scales.shape[i];
  }
  int64_t wanted = 1;
  for (int i = 0; i < spec.rank; ++i) wanted *= spec.shape[i];
  return dense == wanted;
}

Status check_shard(const WeightShard& shard, size_t index, const WeightShard& first) {
  const std::string recipe = name_of(index, "recipe");
  const std::string codes = name_of(index, "codes");
  const std::string scales = name_of(index, "scales");
  if (Status s = check(shard.recipe); !s.ok()) return {s.code(), recipe + ": " + s.message()};
  const Granularity granularity = shard.recipe.granularity;
  const bool is_blocks =
      is_block(shard.recipe) && shard.recipe.block_rows == 128 && shard.recipe.block_columns == 128;
  if (granularity != Granularity::per_tensor && granularity != Granularity::per_channel &&
      !is_blocks) {
    return invalid(fmt::format("{}: expected per_tensor, per_channel or per_block(128,128), got {}",
                               recipe, api::granularity_text(shard.recipe)));
  }
  if (is_block(shard.recipe) != is_block(first.recipe)) {
    return invalid(fmt::format(
        "{}: expected per_block for all shards or for none, got {} beside "
        "{}",
        recipe, api::granularity_text(shard.recipe), api::granularity_text(first.recipe)));
  }
  if (shard.recipe.format != first.recipe.format) {
    return invalid(recipe + ": expected the format of shards[0]");
  }
  const api::Named named{codes.c_str(), shard.codes};
  ROWSCALE_RETURN_IF_ERROR(
      api::check_dtype(named, {shard.recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2}));
  ROWSCALE_RETURN_IF_ERROR(api::check_layout(named));
  if (shard.codes.rank != 2 || shard.codes.column_rank != 1 || shard.codes.row_counts != nullptr) {
    return invalid(fmt::format("{}: expected [n, k], got {}", codes, to_string(shard.codes)));
  }
  const int64_t k = first.codes.shape[1];
  if (shard.codes.shape[1] != k) {
    return invalid(fmt::format("{}: expected {} columns, as shards[0] has, got {}", codes, k,
                               to_string(shard.codes)));
  }
  if (shard.codes.shape[0] > 1 && shard.codes.strides[0] < k) {
    return invalid(fmt::format("{}: expected a row stride of at least {}, got {}", codes, k,
                               to_string(shard.codes)));
  }
  ScaleSpec spec;
  ROWSCALE_RETURN_IF_ERROR(scale_spec(shard.codes, shard.recipe, &spec));
  if (is_plain(shard.scales, spec, shard.recipe)) return {};
  return api::check_scales({scales.c_str(), shard.scales, api::Role::scales}, shard.codes,
                           shard.recipe, api::Elements::unused);
}

// Pads are written by pack_weight, so that the sizes of `part` are final here.
void place(const PackedWeightSpec& spec, WeightPart* part, size_t* codes, size_t* scales) {
  const bool blocks = is_block(spec.recipe);
  part->padded_rows = round_up(part->rows, blocks ? linear::kBlock : kRowUnit);
  part->codes_offset = *codes;
  part->scales_offset = *scales;
  const int64_t scale_count =
      blocks ? part->padded_rows / linear::kBlock * linear::scale_pitch(spec) : part->padded_rows;
  *codes += round_up(static_cast<size_t>(part->padded_rows * spec.padded_k), kPartUnit);
  *scales += round_up(static_cast<size_t>(scale_count) * sizeof(float), kPartUnit);
}

// Where a shard's scales go.
struct Place {
  float* to;
  int64_t pitch;  // elements between rows of scales
};

// bf16 is the upper half of a float: the values without an operation on them.
Status widen(const TensorView& scales, const ScaleSpec& spec, const Place& place, Device device,
             const Exec& exec) {
  const int64_t rows = spec.shape[0];
  const int64_t columns = spec.rank > 1 ? spec.shape[1] : 1;
  const auto* from = static_cast<const std::byte*>(scales.data);
  for (int64_t row = 0; row < rows; ++row) {
    // One column: all rows at once.
    const int64_t height = columns == 1 ? rows : columns;
    const int64_t pitch = columns == 1 ? place.pitch : 1;
    Rows copy;
    copy.to = reinterpret_cast<std::byte*>(place.to + row * place.pitch) + 2;
    copy.to_pitch = pitch * 4;
    copy.from = from + row * columns * 2;
    copy.from_pitch = 2;
    copy.width = 2;
    copy.height = height;
    ROWSCALE_RETURN_IF_ERROR(copy_rows(copy, device, exec));
    if (columns == 1) break;
  }
  return {};
}

// The scales of a shard at `place`, in f32. The memory there is zero.
Status put_scales(const WeightShard& shard, const Place& place, const Exec& exec) {
  const Device device = shard.codes.device;
  ScaleSpec spec;
  ROWSCALE_RETURN_IF_ERROR(scale_spec(shard.codes, shard.recipe, &spec));
  const bool plain = is_plain(shard.scales, spec, shard.recipe);
  if (plain && shard.scales.dtype == DType::bf16) {
    return widen(shard.scales, spec, place, device, exec);
  }
  Recipe recipe = shard.recipe;
  recipe.encoding =
      recipe.encoding == ScaleEncoding::f32 ? ScaleEncoding::f32 : ScaleEncoding::ue8m0_f32;
  recipe.layout = is_block(recipe) ? ScaleLayout::block_k4 : ScaleLayout::row_major;
  ScaleSpec packed;
  ROWSCALE_RETURN_IF_ERROR(scale_spec(shard.codes, recipe, &packed));
  const TensorView from = plain ? spec.view(shard.scales.data, device) : shard.scales;
  return relayout_scales(shard.codes, from, shard.recipe, packed.view(place.to, device), recipe,
                         exec);
}

// The first of `count` floats in all of them; each copy doubles what is there.
Status repeat(float* first, int64_t count, Device device, const Exec& exec) {
  for (int64_t there = 1; there < count; there *= 2) {
    Rows copy;
    copy.to = reinterpret_cast<std::byte*>(first + there);
    copy.from = reinterpret_cast<const std::byte*>(first);
    copy.width = std::min(there, count - there) * int64_t{sizeof(float)};
    copy.height = 1;
    ROWSCALE_RETURN_IF_ERROR(copy_rows(copy, device, exec));
  }
  return {};
}

Status check_memory(const PackedWeight& weight) {
  for (const auto& [name, data, bytes] :
       {std::tuple{"weight.codes", weight.codes, weight.spec.codes_bytes},
        std::tuple{"weight.scales", weight.scales, weight.spec.scales_bytes}}) {
    if (bytes > 0 && data == nullptr) {
      return invalid(fmt::format("{}: expected {} bytes, got a null pointer", name, bytes));
    }
    if (reinterpret_cast<uintptr_t>(data) % kRowUnit != 0) {
      return invalid(fmt::format("{}: expected an address that is a multiple of {}, got {}", name,
                                 kRowUnit, data));
    }
  }
  return {};
}

TensorView bytes_view(void* data, size_t bytes, Device device) {
  return TensorView::contiguous(data, DType::e4m3, {static_cast<int64_t>(bytes)}, device);
}

}  // namespace

Status packed_weight_spec(std::span<const WeightShard> shards, PackedWeightSpec* spec) {
  if (spec == nullptr) return invalid("spec: expected a place for the result, got null");
  if (shards.empty()) return invalid("shards: expected at least one, got none");
  for (size_t i = 0; i < shards.size(); ++i) {
    ROWSCALE_RETURN_IF_ERROR(check_shard(shards[i], i, shards[0]));
  }
  PackedWeightSpec made;
  const bool blocks = is_block(shards[0].recipe);
  made.k = shards[0].codes.shape[1];
  made.padded_k = round_up(made.k, kRowUnit);
  made.recipe = blocks ? per_block(linear::kBlock, linear::kBlock) : per_channel();
  if (blocks) made.recipe.layout = ScaleLayout::block_k4;
  made.recipe.format = shards[0].recipe.format;
  made.has_one_scale =
      shards.size() == 1 && shards[0].recipe.granularity == Granularity::per_tensor;
  WeightPart part;
  for (const WeightShard& shard : shards) {
    // Blocks begin at a part's first row.
    if (blocks && part.rows % linear::kBlock != 0) {
      place(made, &part, &made.codes_bytes, &made.scales_bytes);
      made.parts.push_back(part);
      part = {};
      part.first_row = made.n;
    }
    part.rows += shard.codes.shape[0];
    made.n += shard.codes.shape[0];
  }
  place(made, &part, &made.codes_bytes, &made.scales_bytes);
  made.parts.push_back(part);
  *spec = std::move(made);
  return {};
}

Status pack_weight(std::span<const WeightShard> shards, const PackedWeight& weight,
                   const Exec& exec) {
  PackedWeightSpec spec;
  ROWSCALE_RETURN_IF_ERROR(packed_weight_spec(shards, &spec));
  if (!linear::is_same(spec, weight.spec)) {
    return invalid("weight.spec: expected packed_weight_spec() of these shards, got another one");
  }
  ROWSCALE_RETURN_IF_ERROR(check_memory(weight));
  const TensorView codes = bytes_view(weight.codes, spec.codes_bytes, weight.device);
  const TensorView scales = bytes_view(weight.scales, spec.scales_bytes, weight.device);
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string codes_name = name_of(i, "codes");
    const std::string scales_name = name_of(i, "scales");
    const api::Named in{codes_name.c_str(), shards[i].codes};
    const api::Named in_scales{scales_name.c_str(), shards[i].scales, api::Role::scales};
    if (shards[i].codes.rows() > 0) {
      if (shards[i].codes.columns() > 0) ROWSCALE_RETURN_IF_ERROR(api::check_data(in));
      if (shards[i].scales.data == nullptr && spec.k > 0) {
        return invalid(scales_name + ": expected data, got a null pointer");
      }
    }
    const api::Named out{"weight.codes", codes};
    const api::Named out_scales{"weight.scales", scales};
    ROWSCALE_RETURN_IF_ERROR(api::check_exec({out, out_scales, in, in_scales}, exec));
    ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({out, out_scales}, {in, in_scales}));
  }

  auto* all_scales = static_cast<std::byte*>(weight.scales);
  auto* all_codes = static_cast<std::byte*>(weight.codes);
  Rows zeros;
  zeros.to = all_scales;
  zeros.width = static_cast<int64_t>(spec.scales_bytes);
  zeros.height = 1;
  ROWSCALE_RETURN_IF_ERROR(zero_rows(zeros, weight.device, exec));
  // Whatever is no code is zero: the columns behind k, the rows behind a part, the gaps of parts.
  zeros.to = all_codes;
  zeros.width = static_cast<int64_t>(spec.codes_bytes);
  ROWSCALE_RETURN_IF_ERROR(zero_rows(zeros, weight.device, exec));

  size_t part = 0;
  int64_t row = 0;  // of the merged weight
  for (const WeightShard& shard : shards) {
    const int64_t n = shard.codes.shape[0];
    if (n == 0) continue;
    while (row >= spec.parts[part].first_row + spec.parts[part].rows) ++part;
    const WeightPart& at = spec.parts[part];
    const int64_t row_in_part = row - at.first_row;
    Rows copy;
    copy.to = all_codes + at.codes_offset + row_in_part * spec.padded_k;
    copy.to_pitch = spec.padded_k;
    copy.from = static_cast<const std::byte*>(shard.codes.data);
    copy.from_pitch = shard.codes.strides[0];
    copy.width = spec.k;
    copy.height = n;
    ROWSCALE_RETURN_IF_ERROR(copy_rows(copy, weight.device, exec));

    Place place;
    place.pitch = linear::scale_pitch(spec);
    place.to = reinterpret_cast<float*>(all_scales + at.scales_offset);
    place.to += is_block(spec.recipe) ? row_in_part / linear::kBlock * place.pitch : row_in_part;
    ROWSCALE_RETURN_IF_ERROR(put_scales(shard, place, exec));
    if (shard.recipe.granularity == Granularity::per_tensor) {
      ROWSCALE_RETURN_IF_ERROR(repeat(place.to, n, weight.device, exec));
    }
    row += n;
  }
  return {};
}

}  // namespace rowscale
