// A recipe names every choice of a quantization. Equal recipes give equal bits, on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rowscale/export.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"
#include "rowscale/types.hpp"

namespace rowscale {

// The smallest scale or amax that is allowed; `value` counts for amax, scale and if_zero.
struct Floor {
  FloorKind kind = FloorKind::standard;
  float value = 0.0F;
  friend bool operator==(const Floor&, const Floor&) = default;
};

// The largest scale or amax that is allowed. A NaN value is ignored; a value <= 0 leaves what the
// floor gives.
struct Bound {
  BoundKind kind = BoundKind::none;
  float value = 0.0F;
  friend bool operator==(const Bound&, const Bound&) = default;
};

// A scale is the decoding factor: x ~ code * scale. Its formula, in this order: amax (NaN does not
// raise it); amax bound; amax floor; s = amax / MAX; scale bound; scale floor; UE8M0. Source:
// docs/numerics.md section 3.
struct Recipe {
  Granularity granularity = Granularity::per_tensor;
  int64_t group_size = 0;     // per_group: elements along the row
  int64_t block_rows = 0;     // per_block
  int64_t block_columns = 0;  // per_block
  Format format = Format::e4m3;
  ScaleSource scale_source = ScaleSource::dynamic;
  ScaleEncoding encoding = ScaleEncoding::f32;
  ScaleLayout layout = ScaleLayout::row_major;
  Floor floor;
  Bound bound;
  Quotient quotient = Quotient::standard;
  NanRule nan = NanRule::standard;
  Profile profile = Profile::rowscale;
  friend bool operator==(const Recipe&, const Recipe&) = default;
};

ROWSCALE_API Recipe per_tensor();
ROWSCALE_API Recipe per_token();
ROWSCALE_API Recipe per_channel();
ROWSCALE_API Recipe per_column();  // given scales
ROWSCALE_API Recipe per_group(int64_t size);
ROWSCALE_API Recipe per_block(int64_t rows, int64_t columns);

// Replaces every `standard` by what the profile and the granularity prescribe:
//   profile  granularity              floor                        quotient    nan
//   rowscale per_tensor, per_token    scale >= 1 / (MAX * 512)     divide      propagate
//   rowscale per_channel              a zero scale becomes 1       divide      propagate
//   rowscale per_group, per_block     amax >= 1e-10                divide      propagate
//   vllm     per_tensor               zero becomes 1 / (MAX * 512) reciprocal  clamp_high
//   vllm     per_token, per_channel   scale >= 1 / (MAX * 512)     divide      clamp_high
//   vllm     per_group, per_block     amax >= 1e-10                divide      clamp_low
// With given scales floor and bound are none (they act on scales that are computed), and profile
// vllm means reciprocal and clamp_high for every granularity, as its static operator does. Behind a
// norm or silu_mul (producers.hpp) profile vllm gives dynamic per_group the floor and the NaN rule
// of per_token: what those operators take instead of this function. They do so only for fields that
// are still `standard`: a vllm per_group recipe that was resolved, or came through its text, has
// lost that, and gives the scales of the operator that quantizes alone.
ROWSCALE_API Recipe resolve(const Recipe& recipe);

// invalid_argument, naming the field, for a recipe that no input could satisfy.
ROWSCALE_API Status check(const Recipe& recipe);

// The resolved recipe as text, floats as the hexadecimal digits of their bits:
//   granularity=per_group(128) format=e4m3 source=dynamic encoding=f32 layout=row_major
//   floor=amax(0x2edbe6ff) bound=none quotient=divide nan=propagate profile=rowscale
// parse_recipe reads it back; keys may be left out, values may be `standard`. Text names its keys:
// granularity=per_token, not per_token.
ROWSCALE_API std::string to_string(const Recipe& recipe);
ROWSCALE_API Status parse_recipe(std::string_view text, Recipe* recipe);

// The scale tensor that a recipe needs for data of a given shape.
struct ROWSCALE_API ScaleSpec {
  DType dtype = DType::f32;
  int rank = 0;
  int64_t shape[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};  // elements
  int64_t storage = 0;             // elements an operator may touch: the least that must be there
  int64_t allocation = 0;  // elements to allocate: whole padded columns; zero what operators leave

  // A view of `data`, which holds at least `storage` elements.
  [[nodiscard]] TensorView view(void* data, Device device = {}) const;
  [[nodiscard]] TensorView view(const void* data, Device device = {}) const;
};

// `codes`: a view with the shape of the codes, [..., hidden]; only its shape is read. Errors:
// invalid_argument for a recipe that check() refuses, for a rank of 0 and for sizes that overflow.
ROWSCALE_API Status scale_spec(const TensorView& codes, const Recipe& recipe, ScaleSpec* spec);

}  // namespace rowscale
