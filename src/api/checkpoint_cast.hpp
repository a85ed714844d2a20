// The casts of checkpoint conversion that the public recipes do not have: scales rounded to the
// weight's dtype. No part of the library's interface; the converter calls it like the public
// functions, with views on the device that does the work. CUDA tensors: work is put into
// exec.stream. unsupported: a device that this build has no kernels for; device_error: what a
// launch returned.
#pragma once

#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::api {

// numerics/checkpoint_cast.hpp. All views are contiguous.
// x       f32, f16 or bf16 [rows, columns]
// recipe  per_channel, or per_block, with dynamic scales; or per_tensor with a given one. Its other
//         fields are not looked at
// codes   e4m3 [rows, columns]
// scales  the dtype of x; the shape that scale_spec gives
// An element that is no number has code 0x7F; an infinite one makes its scale infinite.
Status checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                           const TensorView& scales, const Exec& exec);

// The scale that a given amax has, as the dtype stores it; `scale` is of that dtype.
void checkpoint_scale(DType dtype, float amax, void* scale);

// max |x| of all elements, NaN left out; `x` as above. amax: f32 [1].
Status checkpoint_absmax(const TensorView& x, const TensorView& amax, const Exec& exec);

}  // namespace rowscale::api
