// Latent attention's rows over a lane: a case as a value, and the call on a side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/cuda/support/call_parts.hpp"
#include "tests/cuda/support/data.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

// Columns of the parts of a row; rope may be 0.
struct MlaWidths {
  int64_t q = 0, kv = 0, rope = 0;
  [[nodiscard]] int64_t all() const { return q + kv + rope; }
};

enum class KvOut { rows, codes, both };

// Where kv's outputs and rope lie: each in memory of its own, or side by side in the rows of one
// buffer, each part of which begins where the one before it ends or at the next multiple of 16
// bytes.
enum class MlaPlaces { apart, side_by_side, side_by_side_aligned };

// Bytes by which the memory of an argument lies behind an alignment of 64 or more.
struct MlaShifts {
  int64_t x = 0;
  int64_t q_weight = 0;
  int64_t kv_weight = 0;
  int64_t cache = 0;  // of kv's outputs and rope, where they lie side by side
};

struct MlaCase {
  MlaWidths widths;
  Recipe q;
  Recipe kv = {};
  const Shared* pool = nullptr;  // of x
  TensorView x = {};             // rows of a window of the pool, widths.all() columns
  int64_t x_begin = 0;           // bytes from the pool's begin to the lowest address of x
  PoolKind weights = PoolKind::finite;
  DType q_weight = DType::bf16;
  DType kv_weight = DType::bf16;
  RowOut q_row = RowOut::absent;
  KvOut kv_out = KvOut::rows;
  RowOut rope = RowOut::stored;  // where there is a rope part
  MlaPlaces places = MlaPlaces::apart;
  std::vector<int32_t> counts = {};  // row counts a batch; none: all rows exist
  MlaShifts shift = {};
  uint64_t seed = 0;  // of windows for weights and given scales
  DependentLaunch dependent_launch = DependentLaunch::off;

  [[nodiscard]] bool has_kv_rows() const { return kv_out != KvOut::codes; }
  [[nodiscard]] bool has_kv_codes() const { return kv_out != KvOut::rows; }
  [[nodiscard]] bool has_rope() const { return widths.rope > 0 && rope == RowOut::stored; }
};

// Contiguous rows of a pool at a place that the seed chooses; the weights have the dtype of x.
MlaCase mla_case(const MlaWidths& widths, const Recipe& q, const Recipe& kv, const Shared& pool,
                 DType dtype, const Shape& rows, uint64_t seed);

// The slots of a case in an image. Those that a call does not have are empty; those of one buffer
// are parts of it.
struct MlaSlots {
  Slot q_codes, q_scales, q_row, kv, kv_codes, kv_scales, rope, counts;
};
MlaSlots reserve(Lane& lane, const MlaCase& c);

// A call's arguments as the library takes them.
struct MlaArguments {
  TensorView x;
  MlaNorm norm;
  MlaOutputs outputs;
};
MlaArguments arguments_on(const Side& side, const MlaCase& c, const MlaSlots& slots);
Status call_on(const Side& side, const MlaCase& c, const MlaSlots& slots);
std::string to_string(const MlaCase& c);

// Empty: the GPU gives the CPU's bytes.
std::string compare_mla(Lane& lane, const MlaCase& c);

}  // namespace rowscale::test
