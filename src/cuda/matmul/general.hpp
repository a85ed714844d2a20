// A product as the general kernel takes it, and the tiles it comes in.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device/launcher.hpp"
#include "cuda/matmul/expert_tiles.cuh"
#include "matmul/problem.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::cuda {

// Rows of bytes: the first of a batch begins at data + batch * batch_stride.
struct ByteRows {
  std::byte* data = nullptr;
  int64_t row_stride = 0;
  int64_t batch_stride = 0;
};

// Of any encoding and layout. row_step is 0 where one scale serves all rows.
struct ScaleRows {
  plan::ScaleView view;
  int64_t row_step = 1;
};

// How elements of out are stored: two neighbours at once where every row begins at a multiple of
// two elements.
enum class OutStores { pairs, elements };

struct GeneralCall {
  int64_t m = 0;  // of one expert where rows are masked
  int64_t n = 0;
  int64_t k = 0;
  product::Grouping grouping = product::Grouping::none;
  ExpertRows experts;
  ByteRows a;
  ByteRows b;
  ByteRows out;
  ScaleRows scale_a;
  ScaleRows scale_b;
  const std::byte* bias = nullptr;  // none where null
  DType bias_dtype = DType::f32;
  DType out_dtype = DType::f32;
  OutStores stores = OutStores::elements;
};

// Heights of a tile of out. All give a row the same bits: the sums are made of the same parts in
// the same order.
enum class GeneralTile {
  few,   // 8 rows of 32 columns; the warps divide k, for few rows and long ones
  some,  // 64 x 64
  many,  // 128 x 64
};

// Whether rows of codes begin at multiples of 16 bytes.
enum class CodeLoads { aligned, any };

// What selects a kernel: all have the same argument.
struct GeneralKey {
  GeneralTile tile = GeneralTile::some;
  CodeLoads loads = CodeLoads::any;
  product::Scaling scaling = product::Scaling::vector;
  DType a = DType::e4m3;
  DType b = DType::e4m3;
};

struct GeneralKernel {
  void (*function)(GeneralCall call) = nullptr;  // null: no such kernel
  int rows = 0;                                  // of a tile
  int columns = 0;
  int threads = 0;
  int resident = 0;  // blocks of a multiprocessor that run at once
};

// GeneralTile::many is there for aligned codes alone.
GeneralKernel general_kernel(const GeneralKey& key);

}  // namespace rowscale::cuda
