// Norms and activations over a lane: a case as a value, and the same case through three calls: the
// operator alone, fused with quantize, and the chain of the two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/source.hpp"
#include "tests/cuda/support/call_parts.hpp"
#include "tests/cuda/support/data.hpp"
#include "tests/cuda/support/lane.hpp"
#include "tests/cuda/support/producers.hpp"

namespace rowscale::test {

enum class RowOut { absent, stored };

// Bytes by which the memory of an argument lies behind an alignment of 64 or more.
struct FusedShifts {
  int64_t x = 0;
  int64_t weight = 0;
  int64_t residual = 0;
  int64_t codes = 0;
  int64_t scales = 0;
  int64_t row = 0;
};

struct FusedCase {
  Producer producer;
  Recipe recipe;
  const Shared* pool = nullptr;     // of x; a residual's first content comes from its host side
  TensorView x = {};                // rows of a window of the pool, inputs() * hidden columns
  int64_t x_begin = 0;              // bytes from the pool's begin to the lowest address of x
  const Shared* weights = nullptr;  // of a norm
  RowOut row_out = RowOut::absent;  // of the fused operator
  TensorView codes = {};            // these three: rank 0: the rows of x, contiguous
  TensorView row = {};              // of row_out, and of y
  TensorView residual = {};
  std::vector<int32_t> counts = {};  // row counts a batch; none: all rows exist
  FusedShifts shift = {};
  uint64_t seed = 0;  // of windows for weight, residual and given scales
  DependentLaunch dependent_launch = DependentLaunch::off;

  [[nodiscard]] int64_t hidden() const { return x.columns() / producer.inputs(); }
};

// A case on rows of this shape and dtype, the columns those of the result: x lies in the pool of
// this kind at a place that the seed chooses, `room` bytes before its end left for shifts.
FusedCase fused_case(const Producer& producer, const Recipe& recipe, PoolKind kind, DType dtype,
                     const Shape& shape, uint64_t seed, int64_t room = 64);

// The slots of a case in an image. Those that a call does not have are empty.
struct FusedSlots {
  Slot residual, codes, scales, row, counts;
};
enum class FusedCall {
  separate,  // into the row
  fused,     // codes and scales, and the row where row_out says so
  chain,     // the separate operator into the row, then quantize
};
FusedSlots reserve(Lane& lane, const FusedCase& c, FusedCall call);
Status call_on(const Side& side, const FusedCase& c, const FusedSlots& slots, FusedCall call);
// What the library makes of the case: for calls by a plan of one's own.
plan::Source source_on(const Side& side, const FusedCase& c, const FusedSlots& slots);
std::string to_string(const FusedCase& c, FusedCall call);

// Empty: the GPU gives the CPU's bytes.
std::string compare_separate(Lane& lane, const FusedCase& c);
std::string compare_fused(Lane& lane, const FusedCase& c);
// Empty: on the GPU the fused operator gives the bytes of the chain.
std::string compare_with_chain(Lane& lane, const FusedCase& c);

}  // namespace rowscale::test
