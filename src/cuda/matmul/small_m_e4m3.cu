#include "cuda/matmul/small_m_instances.cuh"

namespace rowscale::cuda {

const SmallMKernel* small_m_e4m3(const SmallMKey& key) {
  return small_m_of_formats<E4m3Name, E4m3Name>(key);
}

const SmallMKernel& small_m_kernel_of(const SmallMKey& key) {
  if (key.weights == DType::e5m2) return *small_m_e5m2_weights(key);
  if (key.a == DType::e5m2) return *small_m_e5m2_tokens(key);
  return *small_m_e4m3(key);
}

}  // namespace rowscale::cuda
