// Whether the FP8 weights of a compressed-tensors model are complete and sound: what readers take
// for granted, and what shows in a served model only as noise.
#pragma once

#include <vector>

#include "checkpoint/check.hpp"
#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

// pairs: each FP8 weight has exactly one scale tensor, of the shape of its strategy, each scale
//        tensor a weight; no weight that `ignore` names is FP8.
// scales: each is finite and positive.
// codes: none is NaN.
// index: no tensor lies in a file that the index does not assign it to, the sizes add up.
// Reads each FP8 tensor once, in strips. Throws Failure(unreadable).
std::vector<Check> verify_weights(Model& model);

}  // namespace rowscale::checkpoint
