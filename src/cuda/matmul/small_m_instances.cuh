// One compiled shape of the kernel for few rows of A, and its launch.
#pragma once

#include "cuda/matmul/small_m.cuh"

namespace rowscale::cuda {

template <class Shape, class WeightFormat, class TokenFormat>
struct SmallMInstance {
  static constexpr auto kKernel = small_m_kernel<Shape, WeightFormat, TokenFormat>;

  static int shared_bytes(int stages) { return Shape::shared_bytes(stages); }
  static cudaError_t prepare() {
    return cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                kSmallMMostShared);
  }
  static cudaError_t launch(const CUtensorMap& weights, const CUtensorMap& tokens,
                            const SmallMCall& call, const SmallMLaunch& launch) {
    cudaLaunchAttribute attributes[2] = {};
    int count = 0;
    if (call.split > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count].val.clusterDim = {static_cast<unsigned>(call.split), 1, 1};
      ++count;
    }
    if (launch.dependent == DependentLaunch::on) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count].val.programmaticStreamSerializationAllowed = 1;
      ++count;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(launch.row_tiles * call.split),
                          static_cast<unsigned>(launch.column_tiles));
    config.blockDim = dim3(Shape::kThreads);
    config.dynamicSmemBytes = static_cast<size_t>(Shape::shared_bytes(call.stages));
    config.stream = launch.stream;
    config.attrs = attributes;
    config.numAttrs = static_cast<unsigned>(count);
    return cudaLaunchKernelEx(&config, kKernel, weights, tokens, call);
  }
  static constexpr SmallMKernel kEntry{Shape::kDepthGroups, shared_bytes, prepare, launch};
};

// Tiles of 64 rows are multiplied by two warpgroups in turn, those of 128 by one for each half.
template <int kRows, product::Scaling kScaling, class WeightFormat, class TokenFormat>
const SmallMKernel* small_m_of_tokens(int tokens) {
  constexpr int kDepthGroups = 128 / kRows;
  switch (tokens) {
    case 8:
      return &SmallMInstance<SmallMShape<kRows, kDepthGroups, 8, kScaling>, WeightFormat,
                             TokenFormat>::kEntry;
    case 16:
      return &SmallMInstance<SmallMShape<kRows, kDepthGroups, 16, kScaling>, WeightFormat,
                             TokenFormat>::kEntry;
    case 32:
      return &SmallMInstance<SmallMShape<kRows, kDepthGroups, 32, kScaling>, WeightFormat,
                             TokenFormat>::kEntry;
    default:
      return &SmallMInstance<SmallMShape<kRows, kDepthGroups, 64, kScaling>, WeightFormat,
                             TokenFormat>::kEntry;
  }
}

template <class WeightFormat, class TokenFormat>
const SmallMKernel* small_m_of_formats(const SmallMKey& key) {
  using enum product::Scaling;
  if (key.scaling == block) {
    return key.rows == 64 ? small_m_of_tokens<64, block, WeightFormat, TokenFormat>(key.tokens)
                          : small_m_of_tokens<128, block, WeightFormat, TokenFormat>(key.tokens);
  }
  return key.rows == 64 ? small_m_of_tokens<64, vector, WeightFormat, TokenFormat>(key.tokens)
                        : small_m_of_tokens<128, vector, WeightFormat, TokenFormat>(key.tokens);
}

// One file of kernels each.
const SmallMKernel* small_m_e4m3(const SmallMKey& key);  // both e4m3
const SmallMKernel* small_m_e5m2_weights(const SmallMKey& key);
const SmallMKernel* small_m_e5m2_tokens(const SmallMKey& key);

}  // namespace rowscale::cuda
