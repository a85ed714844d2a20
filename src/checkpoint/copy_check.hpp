// FP8 weights of a source that are passed through are not decoded, but their numbers are looked at:
// what no verification of the result would accept is refused when it is read.
#pragma once

#include <cstddef>

#include "checkpoint/model.hpp"
#include "checkpoint/strip.hpp"

namespace rowscale::checkpoint {

// `bytes`: what was read for `task`, whose kind is copy or widen_scales. Throws Failure(data) for a
// NaN among FP8 codes, and for a scale of FP8 codes that is no finite positive number.
void require_sound_copy(const Model& model, const Task& task, const std::byte* bytes);

}  // namespace rowscale::checkpoint
