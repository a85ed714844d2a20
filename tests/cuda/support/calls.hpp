// The operators over a lane: a case as a value, the call on both sides, what differs as a text with
// recipe, shape, plan, coordinate and both values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/gpu_plan.hpp"
#include "rowscale/rowscale.hpp"
#include "tests/cuda/support/call_parts.hpp"
#include "tests/cuda/support/data.hpp"
#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

// Bytes by which the memory of an argument lies behind an alignment of 256.
struct Shifts {
  int64_t x = 0;
  int64_t codes = 0;
  int64_t scales = 0;
};

struct QuantizeCase {
  Recipe recipe;
  const Shared* pool = nullptr;
  TensorView x;                      // rows of a window of the pool
  int64_t x_begin = 0;               // bytes from the pool's begin to the lowest address of x
  TensorView codes = {};             // rank 0: as x, contiguous
  std::vector<int32_t> counts = {};  // row counts a batch; none: all rows exist
  Shifts shift = {};
  uint64_t seed = 0;  // of given scales
  DependentLaunch dependent_launch = DependentLaunch::off;
};

// The slots of a case in an image, and the call on a side.
struct QuantizeSlots {
  Slot codes, scales, counts;
};
// The view of the codes, without data.
TensorView codes_of(const QuantizeCase& c);
QuantizeSlots reserve(Lane& lane, const QuantizeCase& c);
TensorView x_on(const Side& side, const QuantizeCase& c, const QuantizeSlots& slots);
Status quantize_on(const Side& side, const QuantizeCase& c, const QuantizeSlots& slots);
size_t workspace_bytes(const QuantizeCase& c);
std::string to_string(const QuantizeCase& c);
// The difference with the element of x at its place.
std::string to_string(const Difference& difference, const QuantizeCase& c);

// Empty: equal.
std::string compare_quantize(Lane& lane, const QuantizeCase& c);
// The GPU by this plan.
std::string compare_forced(Lane& lane, const QuantizeCase& c, const plan::GpuPlan& plan);

struct DequantizeCase {
  Recipe recipe;
  TensorView codes;  // rows of a window of the pool of codes
  int64_t codes_begin = 0;
  TensorView y = {};  // the rows of the codes in another dtype
  std::vector<int32_t> counts = {};
  Shifts shift = {};  // x: of y
  uint64_t seed = 0;
};
std::string compare_dequantize(Lane& lane, const DequantizeCase& c);

enum class Place { apart, in_place };

struct RequantizeCase {
  Recipe in;
  Recipe out;
  TensorView codes;
  int64_t codes_begin = 0;
  Place place = Place::apart;
  std::vector<int32_t> counts = {};
  Shifts shift = {};  // scales, and codes in place
  uint64_t seed = 0;
};
std::string compare_requantize(Lane& lane, const RequantizeCase& c);
std::string compare_forced(Lane& lane, const RequantizeCase& c, const plan::GpuPlan& plan);

struct RelayoutCase {
  Recipe in;
  Recipe out;
  Shape shape;  // of the codes
  std::vector<int32_t> counts = {};
  Shifts shift = {};
  uint64_t seed = 0;
};
std::string compare_relayout(Lane& lane, const RelayoutCase& c);

}  // namespace rowscale::test
