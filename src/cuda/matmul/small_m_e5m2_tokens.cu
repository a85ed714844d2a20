#include "cuda/matmul/small_m_instances.cuh"

namespace rowscale::cuda {

const SmallMKernel* small_m_e5m2_tokens(const SmallMKey& key) {
  return small_m_of_formats<E4m3Name, E5m2Name>(key);
}

}  // namespace rowscale::cuda
