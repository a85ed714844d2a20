#include "cuda/copies.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/context.hpp"

namespace rowscale::cuda {
namespace {

// The runtime wants pitches that hold a row even where there is one row.
size_t pitch_of(int64_t pitch, const linear::Rows& rows) {
  return static_cast<size_t>(rows.height == 1 ? std::max(pitch, rows.width) : pitch);
}

}  // namespace

Status copy_rows(const linear::Rows& rows, int device, const Exec& exec) {
  const ScopedDevice scoped(device);
  if (!scoped.status().ok()) return scoped.status();
  return status_of(
      cudaMemcpy2DAsync(rows.to, pitch_of(rows.to_pitch, rows), rows.from,
                        pitch_of(rows.from_pitch, rows), static_cast<size_t>(rows.width),
                        static_cast<size_t>(rows.height), cudaMemcpyDeviceToDevice,
                        static_cast<cudaStream_t>(exec.stream)),
      "cudaMemcpy2DAsync");
}

Status zero_rows(const linear::Rows& rows, int device, const Exec& exec) {
  const ScopedDevice scoped(device);
  if (!scoped.status().ok()) return scoped.status();
  return status_of(
      cudaMemset2DAsync(rows.to, pitch_of(rows.to_pitch, rows), 0, static_cast<size_t>(rows.width),
                        static_cast<size_t>(rows.height), static_cast<cudaStream_t>(exec.stream)),
      "cudaMemset2DAsync");
}

}  // namespace rowscale::cuda
