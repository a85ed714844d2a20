// The casts of checkpoints on a GPU: numerics/checkpoint_cast.hpp. Weights come through the bus of
// the machine, so these kernels are as simple as their arithmetic.
#include <algorithm>

#include "cuda/context.hpp"
#include "cuda/device/reduce.cuh"
#include "cuda/operators.hpp"
#include "numerics/checkpoint_cast.hpp"

namespace rowscale::cuda {
namespace {

constexpr int kThreads = 256;

// What shares a scale: a row, or a block of rows and columns.
struct Units {
  int64_t rows = 0;  // of the matrix
  int64_t columns = 0;
  int64_t unit_rows = 1;
  int64_t unit_columns = 1;

  [[nodiscard]] __host__ __device__ int64_t across() const {
    return (columns + unit_columns - 1) / unit_columns;
  }
  [[nodiscard]] __host__ __device__ int64_t down() const {
    return (rows + unit_rows - 1) / unit_rows;
  }
};

// Visits the elements of a unit: neighbours in x are neighbours in memory.
template <class Visit>
__device__ void for_each_in(const Units& units, int64_t unit, Visit&& visit) {
  const int64_t row = unit / units.across() * units.unit_rows;
  const int64_t column = unit % units.across() * units.unit_columns;
  const int64_t last_row = min(row + units.unit_rows, units.rows);
  const int64_t last_column = min(column + units.unit_columns, units.columns);
  for (int64_t r = row + threadIdx.y; r < last_row; r += blockDim.y) {
    for (int64_t c = column + threadIdx.x; c < last_column; c += blockDim.x) {
      visit(r * units.columns + c);
    }
  }
}

// Of all kThreads threads, whatever the shape of the block; every thread gets it.
__device__ float max_of_all(float amax) {
  __shared__ float scratch[kThreads / 32];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  amax = max_of_lanes<32>(amax);
  if (thread % 32 == 0) scratch[thread / 32] = amax;
  __syncthreads();
  amax = 0.0F;
  for (const float warp : scratch) amax = fmaxf(amax, warp);
  return amax;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    checkpoint_quantize_units(const T* x, Units units, uint8_t* codes, T* scales) {
  float amax = 0.0F;
  for_each_in(units, blockIdx.x,
              [&](int64_t i) { amax = fmaxf(amax, fabsf(numerics::to_f32(x[i]))); });
  const float scale = numerics::checkpoint_scale<T>(max_of_all(amax));
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    scales[blockIdx.x] = numerics::round_to<T>(scale);
  }
  for_each_in(units, blockIdx.x, [&](int64_t i) {
    codes[i] = numerics::checkpoint_code<T>(numerics::to_f32(x[i]), scale);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    checkpoint_quantize_given(const T* x, int64_t elements, uint8_t* codes, const T* scale) {
  const float s = numerics::to_f32(*scale);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    codes[i] = numerics::checkpoint_code<T>(numerics::to_f32(x[i]), s);
  }
}

// amax is zero before. Floats that are neither negative nor NaN are ordered as their bits are.
template <class T>
__global__ void __launch_bounds__(kThreads)
    checkpoint_absmax(const T* x, int64_t elements, unsigned* amax) {
  float largest = 0.0F;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    largest = fmaxf(largest, fabsf(numerics::to_f32(x[i])));
  }
  largest = max_of_all(largest);
  if (threadIdx.x == 0) atomicMax(amax, numerics::to_bits(largest));
}

// Enough blocks to fill any GPU; they walk over the rest.
int64_t walking_blocks(int64_t elements) {
  return std::min<int64_t>((elements + kThreads - 1) / kThreads, 4096);
}

template <class T>
cudaError_t launch_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                            const TensorView& scales, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x.data);
  auto* to = static_cast<uint8_t*>(codes.data);
  auto* scale = static_cast<T*>(scales.data);
  Units units{x.shape[0], x.shape[1], 1, std::max<int64_t>(x.shape[1], 1)};
  const int64_t elements = units.rows * units.columns;
  if (recipe.scale_source == ScaleSource::given) {
    if (elements == 0) return cudaSuccess;
    checkpoint_quantize_given<T>
        <<<static_cast<unsigned>(walking_blocks(elements)), kThreads, 0, stream>>>(from, elements,
                                                                                   to, scale);
    return cudaGetLastError();
  }
  if (recipe.granularity == Granularity::per_block) {
    units.unit_rows = recipe.block_rows;
    units.unit_columns = recipe.block_columns;
  }
  const int64_t count = units.down() * units.across();
  if (count == 0) return cudaSuccess;
  unsigned width = 32;
  while (width < kThreads && width < units.unit_columns) width *= 2;
  checkpoint_quantize_units<T>
      <<<static_cast<unsigned>(count), dim3(width, kThreads / width), 0, stream>>>(from, units, to,
                                                                                   scale);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_absmax(const TensorView& x, const TensorView& amax, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(amax.data, 0, sizeof(float), stream);
  const int64_t elements = x.shape[0] * x.shape[1];
  if (error != cudaSuccess || elements == 0) return error;
  checkpoint_absmax<T><<<static_cast<unsigned>(walking_blocks(elements)), kThreads, 0, stream>>>(
      static_cast<const T*>(x.data), elements, static_cast<unsigned*>(amax.data));
  return cudaGetLastError();
}

// call(T{}) for the type of the elements, with the device of x current.
template <class Call>
Status on_device_of(const TensorView& x, const char* what, Call&& call) {
  const ScopedDevice device(x.device.index);
  if (!device.status().ok()) return device.status();
  switch (x.dtype) {
    case DType::bf16:
      return status_of(call(numerics::Bf16{}), what);
    case DType::f16:
      return status_of(call(numerics::Fp16{}), what);
    default:
      return status_of(call(float{}), what);
  }
}

}  // namespace

Status checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                           const TensorView& scales, const Exec& exec) {
  return on_device_of(x, "rowscale::cuda::checkpoint_quantize", [&](auto type) {
    return launch_quantize<decltype(type)>(x, recipe, codes, scales,
                                           static_cast<cudaStream_t>(exec.stream));
  });
}

Status checkpoint_absmax(const TensorView& x, const TensorView& amax, const Exec& exec) {
  return on_device_of(x, "rowscale::cuda::checkpoint_absmax", [&](auto type) {
    return launch_absmax<decltype(type)>(x, amax, static_cast<cudaStream_t>(exec.stream));
  });
}

}  // namespace rowscale::cuda
