// How a CUDA call walks its data: a value made from shapes, addresses, the number of
// multiprocessors and the size of their cache, never from the data, and printable. No choice
// changes a bit of the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::plan {

// Elements that a thread loads, encodes and stores together.
inline constexpr int kChunk = 8;

// A unit is what shares a dynamic scale: a group of a row, a row, a tile of rows, the tensor.
enum class GpuSplit {
  groups,  // a unit for some lanes of a warp: no barrier
  rows,    // a unit for a block of threads
  blocks,  // a tile of rows for a block of threads
  tensor,  // one pass for the amax, one for the codes
  given,   // nothing to reduce: chunks as they come
};

// vectors: whole chunks, each one or two aligned loads. elements: one by one, at any address and
// through any strides.
enum class GpuAccess { vectors, elements };

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
  friend bool operator==(const GpuPlan&, const GpuPlan&) = default;
};

const char* to_string(GpuSplit split);
const char* to_string(GpuAccess access);
const char* to_string(GpuScales scales);
const char* to_string(GpuLoads loads);
const char* to_string(GpuUnits units);
// "gpu split=groups access=vectors scales=floats loads=cached units=beside lanes=8 chunks=2
// threads=256 blocks=2136 partials=0"
std::string to_string(const GpuPlan& plan);

struct GpuProblem {
  Recipe recipe;  // resolved
  ScaleGrid grid;
  GpuAccess access = GpuAccess::vectors;
  GpuScales scales = GpuScales::general;
  int64_t element_bytes = 2;  // of the input
  int64_t batches = 1;
  int64_t rows = 0;  // of all batches
  int64_t columns = 0;
  int multiprocessors = 1;
  int64_t l2_bytes = 0;  // second-level cache of the device
};

// Vectors where every chunk of both tensors is one aligned stretch of memory and lies in one unit.
GpuAccess access_of(const RowView& from, const RowView& to, const ScaleGrid& grid,
                    const Recipe& recipe);

// What a recipe allows, of one batch without masks. Sources other than a plain tensor are served by
// `general`.
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

// Whether the kernels of a shape are compiled for an access. Element by element speed is not the
// aim: few shapes serve.
constexpr bool serves(GroupsShape shape, GpuAccess access) {
  return access == GpuAccess::vectors || shape.lanes * shape.chunks == 1 ||
         shape.lanes * shape.chunks == 16 || shape.lanes * shape.chunks == 64;
}
constexpr bool serves(RowsShape shape, GpuAccess access) {
  return access == GpuAccess::vectors || shape.chunks == 4 || shape.chunks == 0;
}

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
