#include "cuda/matmul/small_m_instances.cuh"

namespace rowscale::cuda {

const SmallMKernel* small_m_e5m2_weights(const SmallMKey& key) {
  return small_m_of_formats<E5m2Name, E4m3Name>(key);
}

}  // namespace rowscale::cuda
