#include "cuda/matmul/tensor_map.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "cuda/context.hpp"

namespace rowscale::cuda {
namespace {

// The driver's function, which is not linked: a machine without a driver can load the library.
using Encode = decltype(&cuTensorMapEncodeTiled);

struct Driver {
  Encode encode = nullptr;
  cudaError_t error = cudaSuccess;

  Driver() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                             cudaEnableDefault, &found);
    if (error == cudaSuccess && found == cudaDriverEntryPointSuccess) {
      encode = reinterpret_cast<Encode>(function);
    }
  }
};

}  // namespace

Status make_tensor_map(const ByteTensor& tensor, int tile_rows, CUtensorMap* map) {
  static const Driver driver;
  if (driver.encode == nullptr) {
    Status status = status_of(driver.error, "cuTensorMapEncodeTiled");
    return status.ok() ? Status(StatusCode::no_device, "the driver has no cuTensorMapEncodeTiled")
                       : status;
  }
  constexpr cuuint32_t kRowBytes = 128;
  // Where there is one row, or one batch, a stride means nothing, but has to be a multiple of 16.
  const auto stride_of = [](int64_t count, int64_t stride) {
    return static_cast<cuuint64_t>(count == 1 ? 16 : stride);
  };
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(tensor.columns),
                              static_cast<cuuint64_t>(tensor.rows),
                              static_cast<cuuint64_t>(tensor.batches)};
  const cuuint64_t strides[] = {stride_of(tensor.rows, tensor.row_stride),
                                stride_of(tensor.batches, tensor.batch_stride)};
  const cuuint32_t tile[] = {kRowBytes, static_cast<cuuint32_t>(tile_rows), 1};
  const cuuint32_t every[] = {1, 1, 1};
  const CUresult result =
      driver.encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, const_cast<void*>(tensor.data), sizes,
                    strides, tile, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return {};
  return {StatusCode::device_error,
          fmt::format("cuTensorMapEncodeTiled: error {} for [{}, {}, {}] strides [{}, {}, 1]",
                      static_cast<int>(result), tensor.batches, tensor.rows, tensor.columns,
                      strides[1], strides[0])};
}

}  // namespace rowscale::cuda
