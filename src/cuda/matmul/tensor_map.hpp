// Tensor maps: what the copy engine of sm_90 knows of a tensor.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "rowscale/status.hpp"

namespace rowscale::cuda {

// Rows of bytes that begin at multiples of 16: [batches, rows, columns].
struct ByteTensor {
  const void* data = nullptr;
  int64_t columns = 0;
  int64_t rows = 0;
  int64_t batches = 1;
  int64_t row_stride = 0;    // bytes
  int64_t batch_stride = 0;  // bytes
};

// Of tiles of tile_rows (at most 256) by 128 bytes, which shared memory gets with a swizzle of 128
// bytes. device_error where the driver refuses.
Status make_tensor_map(const ByteTensor& tensor, int tile_rows, CUtensorMap* map);

}  // namespace rowscale::cuda
