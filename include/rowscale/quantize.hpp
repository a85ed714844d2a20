// Quantize, dequantize, requantize, and scales from one layout to another.
//
// Common to all: tensors are views of the caller's memory on one device. Rows may have any stride
// and any alignment; columns are contiguous, or span several dimensions (TensorView::as_rows).
// Calls are asynchronous in exec.stream for CUDA tensors and finished on return for CPU tensors;
// they may be made from any thread. Nothing is allocated or synchronised, except that CPU calls
// with exec.threads != 1 start the worker threads that are missing (Exec::threads), and that the
// message of a failure is allocated. A failure is returned before any work is done, but for a
// device_error: see below. Strides and sizes reach less than 2^56 bytes.
//
// Outputs overlap no input and not themselves, with the one exception that requantize names.
// Tensors may lie between each other's rows. Of two with the same strides, such as parts of the
// rows of a cache in padded blocks, every byte is looked at; of two with different strides, it is
// enough that they lie side by side in their smallest common row pitch, and others are refused.
// Scales take all that lies between their first and their last element.
//
// Without rows no data are needed: every pointer may be null, but for that of a dynamic per_tensor
// scale, which is written, and for scales of relayout_scales that are there without rows.
//
// CUDA tensors: the work goes into exec.stream, on the device of the tensors whatever the current
// one is; calls may be captured into a graph. Results are those of the CPU, bit for bit.
//
// Errors of every call: invalid_argument (the message names the parameter, what was expected and
// what came; for CUDA tensors also a pointer to memory that is not their device's), unsupported (no
// kernel in this build: a device, an architecture or a forced target that is not there), no_device
// (no such device, or a driver older than 580), device_error (what the CUDA runtime said of a
// launch; the message has its name and the kernel's; of the two launches of a dynamic per_tensor
// scale the first may then have been made: it writes the workspace alone).
#pragma once

#include <cstddef>

#include "rowscale/exec.hpp"
#include "rowscale/export.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale {

// x       f32, f16 or bf16 [..., hidden]; columns that lie apart are named by the view, as for the
//         output of attention: x.as_rows({1}, {0, 2}) of [heads, tokens, dim] has tokens rows of
//         heads * dim columns, [batch, heads, tokens, dim] as_rows({0, 2}, {1, 3}) has them a batch
// codes   e4m3 or e5m2 as the recipe says, the shape of x; any row stride
// scales  as scale_spec(x, recipe): written when dynamic (pads too), read when given
// code = encode(x / scale), formulas in docs/numerics.md sections 2 and 3. Zero rows: nothing is
// read; a dynamic per_tensor scale is what an all-zero tensor would give.
ROWSCALE_API Status quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                             const TensorView& scales, const Exec& exec = {});

// codes   e4m3 or e5m2 [..., hidden]
// scales  as scale_spec(codes, recipe)
// y       f32, f16 or bf16, the shape of codes
// y = round(decode(code) * scale): one fp32 multiplication, one rounding to the dtype of y.
ROWSCALE_API Status dequantize(const TensorView& codes, const TensorView& scales,
                               const Recipe& recipe, const TensorView& y, const Exec& exec = {});

// From the codes and scales of one recipe to those of another, through fp32 (no 16-bit step).
// codes_out may be codes_in (same address, shape, strides and element size); scales_out overlaps
// nothing. The recipe of the output may be dynamic or given. This is the way from f32 scales to
// UE8M0: the codes change with the scale.
ROWSCALE_API Status requantize(const TensorView& codes_in, const TensorView& scales_in,
                               const Recipe& recipe_in, const TensorView& codes_out,
                               const TensorView& scales_out, const Recipe& recipe_out,
                               const Exec& exec = {});

// Scales of `recipe_in` written in the encoding and layout of `recipe_out`; values stay. `codes`
// gives the shape of the data (its data pointer is not used; its row_counts are). Both recipes have
// the same granularity. From f32 to a UE8M0 encoding is refused (use requantize); so are ue8m0_f32
// scales that are not powers of two, on the CPU: a GPU, which cannot look at them without being
// waited for, writes byte 255 instead. Byte 255 becomes NaN as a float, and NaN or infinity byte
// 255. One thread does the work on a CPU, whatever exec.threads says.
ROWSCALE_API Status relayout_scales(const TensorView& codes, const TensorView& scales_in,
                                    const Recipe& recipe_in, const TensorView& scales_out,
                                    const Recipe& recipe_out, const Exec& exec = {});

// Bytes of exec.workspace that the call with the same arguments needs: some thousand for a dynamic
// per_tensor scale of a CUDA tensor, otherwise 0. The workspace is memory of the tensors' device at
// an address that is a multiple of 4.
ROWSCALE_API size_t quantize_workspace_bytes(const TensorView& x, const Recipe& recipe);
ROWSCALE_API size_t requantize_workspace_bytes(const TensorView& codes_in,
                                               const Recipe& recipe_out);

}  // namespace rowscale
