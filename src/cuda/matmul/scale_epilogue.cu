#include "cuda/matmul/scale_epilogue.cuh"

namespace rowscale::cuda {
namespace {

__device__ const float kOne = 1.0F;

plan::ScaleView scales_of(const TensorView& codes, const TensorView& scales, const Recipe& recipe) {
  const plan::ScaleGrid grid(recipe, codes.shape[0], codes.shape[1]);
  return {recipe, grid, scales.data};
}

int64_t step_of(const Recipe& recipe) {
  return recipe.granularity == Granularity::per_tensor ? 0 : 1;
}

template <class T>
cudaError_t launch(const ScaleEpilogueArguments& arguments, const Launch& how) {
  return launch_kernel(&scale_epilogue<T>, how, arguments);
}

}  // namespace

ScaleEpilogueCall scale_epilogue_call(const product::Problem& problem, const MatmulTensors& tensors,
                                      const float* sums, EpilogueScales scales) {
  ScaleEpilogueCall call;
  call.sums = sums;
  call.sum_stride = sum_stride_for(problem.n);
  call.m = problem.m;
  call.n = problem.n;
  call.scales = scales;
  if (scales == EpilogueScales::both) {
    call.scale_a = scales_of(tensors.a, tensors.scale_a, problem.recipe_a);
    call.scale_b = scales_of(tensors.b, tensors.scale_b, problem.recipe_b);
    call.step_a = step_of(problem.recipe_a);
    call.step_b = step_of(problem.recipe_b);
  }
  if (problem.has_bias) call.bias = tensors.bias.data;
  call.bias_dtype = problem.bias;
  call.out = tensors.out.data;
  call.out_stride = problem.out.row_stride;
  call.out_dtype = problem.out.dtype;
  return call;
}

cudaError_t launch_scale_epilogue(const ScaleEpilogueCall& call, Launch how) {
  const auto tiles = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
  const ScaleEpilogueArguments arguments{call, tiles(call.n, kEpilogueTileColumns)};
  how.threads = kEpilogueThreads;
  how.blocks = arguments.column_tiles * tiles(call.m, kEpilogueTileRows);
  switch (call.out_dtype) {
    case DType::bf16:
      return launch<numerics::Bf16>(arguments, how);
    case DType::f16:
      return launch<numerics::Fp16>(arguments, how);
    default:
      return launch<float>(arguments, how);
  }
}

cudaError_t find_one(const float** one) {
  void* address = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&address, kOne);
  *one = static_cast<const float*>(address);
  return error;
}

}  // namespace rowscale::cuda
