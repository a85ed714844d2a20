// How a CUDA call walks its data: a value made from shapes, addresses, the number of
// multiprocessors and the size of their cache, never from the data, and printable. No choice
// changes a bit of the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "numerics/rms_norm.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "plan/source.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::plan {

// Elements that a thread loads, encodes and stores together.
inline constexpr int kChunk = 8;

// A unit is what shares a dynamic scale: a group of a row, a row, a tile of rows, the tensor.
enum class GpuSplit {
  groups,     // a unit for some lanes of a warp: no barrier
  rows,       // a unit for a block of threads
  blocks,     // a tile of rows for a block of threads
  tensor,     // one pass for the amax, one for the codes
  given,      // nothing to reduce: chunks as they come
  norm,       // RMSNorm: a row in the registers of a block of threads
  norm_team,  // RMSNorm: a row in those of some warps, which bulk copies bring the next ones
  norm_any,   // RMSNorm: a row that is read again
};

// What the elements of a normed row share a scale with.
enum class NormUnit {
  row,
  group,  // kNormGroup columns
  given,  // all of them: one scale that is given
  none,   // nothing: no codes
};
enum class NormResidual { none, added };
// How the weights of a norm lie: as aligned words of the dtype of x, or anyhow.
enum class NormWeights { words, any };
// What a call stores.
enum class GpuSink { codes, rows };

// vectors: whole chunks, each one or two aligned loads. runs: the same of columns that lie in runs,
// as those of attention's heads. elements: one by one, at any address and through any strides.
enum class GpuAccess { vectors, runs, elements };

// How dynamic scales are made and stored. floats, powers: the short ways of the common calls, with
// f32 scales and with UE8M0 of any kind: one batch, no masks, x / s without a bound, and a floor
// that keeps s where the fast quotient is valid. general: every rule, encoding, batch and mask.
enum class GpuScales { floats, powers, general };

// cached: as it comes. streaming: lines of the input are the first to leave the second-level cache.
enum class GpuLoads { cached, streaming };

// groups: where a warp's neighbouring units lie. below: in four rows, so that the scales of a
// column are stored together and the pads at its end have threads (plan/unit_walk.hpp).
enum class GpuUnits { beside, below };

struct GpuPlan {
  GpuSplit split = GpuSplit::groups;
  GpuAccess access = GpuAccess::vectors;
  GpuScales scales = GpuScales::general;
  GpuLoads loads = GpuLoads::cached;
  GpuUnits units = GpuUnits::beside;  // groups
  int lanes = 1;                      // groups: threads that share a unit
  int chunks = 1;      // that a thread holds in registers; 0: it reads its part of the unit twice
  int threads = 32;    // of a block
  int64_t blocks = 0;  // of the grid; 0: nothing to launch
  int partials = 0;    // tensor: blocks of the pass that finds the amax
  NormUnit unit = NormUnit::row;               // norm, norm_team
  NormResidual residual = NormResidual::none;  // norm
  int teams = 0;                               // norm_team: of a block
  int depth = 0;                               // norm_team: rows in the ring of a team
  friend bool operator==(const GpuPlan&, const GpuPlan&) = default;
};

const char* to_string(GpuSplit split);
const char* to_string(GpuAccess access);
const char* to_string(GpuScales scales);
const char* to_string(GpuLoads loads);
const char* to_string(GpuUnits units);
const char* to_string(NormUnit unit);
const char* to_string(NormResidual residual);
// "gpu split=groups access=vectors scales=floats loads=cached units=beside lanes=8 chunks=2
// threads=256 blocks=2136 partials=0"
std::string to_string(const GpuPlan& plan);

struct GpuProblem {
  SourceKind source = SourceKind::plain;
  Recipe recipe;  // resolved
  ScaleGrid grid;
  GpuAccess access = GpuAccess::vectors;
  GpuScales scales = GpuScales::general;
  int64_t element_bytes = 2;  // of the input
  int64_t batches = 1;
  int64_t rows = 0;  // of all batches
  int64_t columns = 0;
  GpuSink sink = GpuSink::codes;
  RowMasks masks = RowMasks::none;
  NormWeights weights = NormWeights::any;      // of a norm
  NormResidual residual = NormResidual::none;  // of a norm
  ResidualSum residual_sum = ResidualSum::rounded;
  int multiprocessors = 1;
  int64_t l2_bytes = 0;      // second-level cache of the device
  int64_t shared_bytes = 0;  // of a block that bulk copies fill; 0: no kernels with such copies
};

// Whether every chunk of a tensor whose columns are whole chunks is one aligned stretch of memory.
bool lies_in_chunks(const RowView& view);

// The same of columns that lie in runs, each of whole chunks.
bool lies_in_runs_of_chunks(const RowView& view);

// Vectors where that holds for the input and the codes, and every chunk lies in one unit. A source
// may make a row of codes from a longer row.
GpuAccess access_of(const RowView& from, const RowView& to, const ScaleGrid& grid,
                    const Recipe& recipe);

// What a recipe allows, of one batch without masks.
GpuScales scales_of(const Recipe& recipe);

GpuPlan plan_gpu(const GpuProblem& problem);

// Every plan that serves the problem, the chosen one among them.
std::vector<GpuPlan> candidate_plans(const GpuProblem& problem);

// The register shapes that kernels are compiled for, and the largest block of each.
struct GroupsShape {
  int lanes;
  int chunks;
};
inline constexpr GroupsShape kGroupsShapes[] = {
    {1, 1}, {1, 2}, {2, 2}, {4, 2}, {8, 2}, {16, 2}, {32, 2},
};
inline constexpr int kGroupsThreads = 256;

// chunks of a thread; 0 reads twice.
struct RowsShape {
  int chunks;
  int most_threads;
};
inline constexpr RowsShape kRowsShapes[] = {{1, 1024}, {2, 1024}, {4, 512}, {0, 1024}};

// Sources that an operator makes take few shapes: of all of them there would be a thousand kernels.
constexpr bool is_made(SourceKind source) {
  return source != SourceKind::plain && source != SourceKind::dequantized;
}

// Whether `floats` and `powers` serve a source, from inputs of a size to a format.
constexpr bool has_short_ways(SourceKind source, int64_t element_bytes, Format format) {
  switch (source) {
    case SourceKind::plain:
      return true;
    case SourceKind::rms_norm:
    case SourceKind::silu_mul:
    case SourceKind::gelu_tanh_mul:
      return element_bytes == 2 && format == Format::e4m3;
    default:
      return false;
  }
}

// Whether the kernels of columns in runs serve a call: of the short ways' units, which are no more
// than a row.
constexpr bool has_runs(SourceKind source, int64_t element_bytes, Format format) {
  return source == SourceKind::plain && element_bytes == 2 && format == Format::e4m3;
}

// Whether the kernels of a shape are compiled for an access. Element by element speed is not the
// aim: few shapes serve.
constexpr bool serves(GroupsShape shape, GpuAccess access, SourceKind source) {
  if (is_made(source) || access == GpuAccess::runs) {
    return shape.chunks == 2 &&
           (shape.lanes == 32 || (shape.lanes == 8 && access != GpuAccess::elements));
  }
  return access == GpuAccess::vectors || shape.lanes * shape.chunks == 1 ||
         shape.lanes * shape.chunks == 16 || shape.lanes * shape.chunks == 64;
}
constexpr bool serves(RowsShape shape, GpuAccess access, SourceKind source) {
  if (is_made(source) || access == GpuAccess::runs) {
    return shape.chunks == 0 || (shape.chunks == 4 && access != GpuAccess::elements);
  }
  return access == GpuAccess::vectors || shape.chunks == 4 || shape.chunks == 0;
}

// Of norms: threads of a row and the chunks of each. Narrow ones for many rows: a block takes one
// after the other and fetches the next while it works; the fewest threads that hold a row, with
// fewer chunks where a residual needs registers too. Wide ones for few rows, and for long ones.
struct NormShape {
  int threads;
  int chunks;
};
inline constexpr NormShape kNormShapes[] = {{32, 4},  {64, 4},  {128, 4}, {160, 4},  {256, 2},
                                            {320, 2}, {256, 4}, {512, 1}, {1024, 1}, {1024, 2}};
inline constexpr int kWideNormThreads = 512;
constexpr bool serves(NormShape shape, NormResidual residual) {
  const bool is_for_plain = shape.threads == 128 || shape.threads == 160;
  const bool is_for_residual = shape.chunks == 2 && shape.threads < kWideNormThreads;
  return residual == NormResidual::none ? !is_for_residual : !is_for_plain;
}
// Blocks that a multiprocessor should have room for: what a thread holds of its row, of the next
// one and of the weights leaves registers for so many.
constexpr int resident_blocks(NormShape shape, NormResidual residual) {
  const int held = shape.chunks * (residual == NormResidual::none ? 3 : 4);
  const int threads = held <= 4 ? 1024 : (held <= 8 ? 896 : (held <= 12 ? 768 : 640));
  const int blocks = threads / shape.threads;
  return blocks < 1 ? 1 : (blocks > 32 ? 32 : blocks);
}

// Norms of many rows without a residual: a team of columns / 32 threads for a row, whole warps, and
// a ring of rows for each. `resident` blocks of a multiprocessor.
struct NormTeamShape {
  int teams;
  int depth;
  int resident;
};
inline constexpr NormTeamShape kNormTeamShapes[] = {
    {2, 2, 1}, {3, 2, 1}, {3, 2, 2}, {3, 3, 1}, {4, 3, 1}};
inline constexpr int kNormTeamChunks = 4;         // of a thread
inline constexpr int kMostNormTeamThreads = 768;  // of a block: 80 registers each
inline constexpr int kMostNormTeamRows = 12;      // in the rings of a block
inline constexpr int kMostNormTeamRounds = 4;
inline constexpr int kNormTeamStaticBytes = 512;  // of shared memory, at most
// Columns of one warp, and of one round of the sum's tree.
inline constexpr int64_t kNormTeamColumns = int64_t{32} * kNormTeamChunks * kChunk;
inline constexpr int64_t kTreeColumns = int64_t{numerics::kTreeLanes} * numerics::kTreeChunk;
// Rounds of the tree for a row: kernels are compiled for each number of them.
constexpr int norm_team_rounds(int64_t columns) {
  return static_cast<int>((columns + kTreeColumns - 1) / kTreeColumns);
}
constexpr int norm_team_threads(int64_t columns) {
  return static_cast<int>(columns / (int64_t{kNormTeamChunks} * kChunk));
}
// Shared memory of a block, but for the static part: the rings, the weights, and twice the sums of
// the chunks of each team's row.
constexpr int64_t norm_team_shared_bytes(int teams, int depth, int64_t columns) {
  const int64_t sums = int64_t{norm_team_rounds(columns)} * numerics::kTreeLanes;
  return (int64_t{teams} * depth + 1) * columns * 2 +
         int64_t{teams} * 2 * sums * int64_t{sizeof(float)};
}

// Of latent attention's parts, each up to 2048 columns.
inline constexpr NormShape kMlaShape = {64, 4};
inline constexpr int kNormGroup = 128;
// Columns of a row that positions of 32 bits reach.
inline constexpr int64_t kMostColumns = int64_t{1} << 30;

inline constexpr int kNormAnyThreads = 256;

inline constexpr int kBlocksShapes[] = {8, 0};  // chunks of a thread
inline constexpr int kBlocksThreads = 256;

// Elementwise kernels: chunks of a thread, threads of a block.
inline constexpr int kGivenChunks = 2;
inline constexpr int kGivenThreads = 256;

// The pass that finds a tensor's amax: its most blocks, each of which leaves a float in the
// workspace, and the chunks that a thread loads at once.
inline constexpr int kMostPartials = 1024;
inline constexpr int kAbsmaxChunks = 4;

// Kernels of whole chunks count in 32 bits and go on beyond the last position by up to one round of
// the widest grid that walks, before they look whether it is there.
inline constexpr int64_t kMostPositions =
    0x7FFFFFFF - int64_t{kAbsmaxChunks} * kMostPartials * kGivenThreads;

}  // namespace rowscale::plan
