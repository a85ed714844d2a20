#include "cuda/matmul/general.cuh"

namespace rowscale::cuda {
namespace {

using numerics::E4m3;
using numerics::E5m2;
using product::Scaling;

template <class Shape, CodeLoads kLoads, Scaling kScaling, class FormatA, class FormatB>
GeneralKernel kernel_of() {
  return {&general_product<Shape, kLoads, kScaling, FormatA, FormatB>, Shape::kRows,
          Shape::kColumns, Shape::kThreads, Shape::kResident};
}

template <class Shape, CodeLoads kLoads, Scaling kScaling>
GeneralKernel of_formats(const GeneralKey& key) {
  if (key.a == DType::e4m3 && key.b == DType::e4m3) {
    return kernel_of<Shape, kLoads, kScaling, E4m3, E4m3>();
  }
  if (key.a == DType::e4m3 && key.b == DType::e5m2) {
    return kernel_of<Shape, kLoads, kScaling, E4m3, E5m2>();
  }
  if (key.a == DType::e5m2 && key.b == DType::e4m3) {
    return kernel_of<Shape, kLoads, kScaling, E5m2, E4m3>();
  }
  return {};
}

template <class Shape, CodeLoads kLoads>
GeneralKernel of_scaling(const GeneralKey& key) {
  return key.scaling == Scaling::block ? of_formats<Shape, kLoads, Scaling::block>(key)
                                       : of_formats<Shape, kLoads, Scaling::vector>(key);
}

template <class Shape>
GeneralKernel of_loads(const GeneralKey& key) {
  return key.loads == CodeLoads::aligned ? of_scaling<Shape, CodeLoads::aligned>(key)
                                         : of_scaling<Shape, CodeLoads::any>(key);
}

}  // namespace

GeneralKernel general_kernel(const GeneralKey& key) {
  switch (key.tile) {
    case GeneralTile::few:
      return of_loads<FewRows>(key);
    case GeneralTile::some:
      return of_loads<SomeRows>(key);
    case GeneralTile::many:
      if (key.loads == CodeLoads::aligned) return of_scaling<ManyRows, CodeLoads::aligned>(key);
      break;
  }
  return {};
}

}  // namespace rowscale::cuda
