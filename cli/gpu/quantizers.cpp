#include "gpu/quantizers.hpp"

#include <algorithm>
#include <cstring>

#include "failure.hpp"

namespace rowscale::cli::gpu {
namespace {

ScaleSpec spec_of(const TensorView& codes, const Recipe& recipe) {
  ScaleSpec spec;
  require(scale_spec(codes, recipe, &spec));
  return spec;
}

// Given scales of normal data, whatever their encoding: about 2^-6.
Buffer given_scales(const ScaleSpec& spec) {
  constexpr float kScale = 0x1p-6F;
  constexpr int kScaleByte = 127 - 6;
  const auto size = element_size(spec.dtype);
  Buffer host(spec.allocation * size);
  if (spec.dtype == DType::f32) {
    for (int64_t i = 0; i < spec.allocation; ++i) {
      std::memcpy(host.data() + i * size, &kScale, sizeof kScale);
    }
  } else {  // bytes, or words of four of them
    std::memset(host.data(), kScaleByte, static_cast<size_t>(host.bytes()));
  }
  return host;
}

}  // namespace

ScaledRecipe::ScaledRecipe(const NamedRecipe& named, const Gpu& gpu, DType dtype,
                           const Shape& shape, int sets)
    : named_(named),
      device_{DeviceType::cuda, gpu.index},
      dtype_(dtype),
      shape_(shape),
      l2_bytes_(gpu.l2_bytes),
      spec_(spec_of(codes(nullptr), named_.recipe)),
      scales_(sets, spec_.allocation * element_size(spec_.dtype)) {
  if (named_.recipe.scale_source == ScaleSource::given) {
    const Buffer host = given_scales(spec_);
    for (int set = 0; set < sets; ++set) {
      check(cudaMemcpy(scales_.data(set), host.data(), static_cast<size_t>(host.bytes()),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
    }
    // A copy from pageable memory may still be on its way, and other streams do not wait for it.
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }
  const size_t bytes = quantize_workspace_bytes(floats(nullptr), named_.recipe);
  if (bytes > 0) workspace_.emplace(static_cast<int64_t>(bytes));
}

TensorView ScaledRecipe::floats(const void* data) const {
  return TensorView::contiguous(data, dtype_, {shape_.tokens, shape_.hidden}, device_);
}

TensorView ScaledRecipe::codes(const void* data) const {
  const DType dtype = named_.recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2;
  return TensorView::contiguous(data, dtype, {shape_.tokens, shape_.hidden}, device_);
}

Status ScaledRecipe::quantize(const void* x, void* codes_data, int set, cudaStream_t stream) const {
  Exec exec;
  exec.stream = stream;
  if (workspace_) {
    exec.workspace = {workspace_->data(), static_cast<size_t>(workspace_->bytes())};
  }
  return rowscale::quantize(floats(x), named_.recipe, codes(codes_data),
                            spec_.view(static_cast<void*>(scales_.data(set)), device_), exec);
}

Status ScaledRecipe::fused(const BenchSource& source, const SourceTensors& tensors,
                           const void* codes_data, int set, cudaStream_t stream) const {
  Exec exec;
  exec.stream = stream;
  return run_fused(source, tensors, named_.recipe, codes(codes_data),
                   spec_.view(scales_.data(set), device_), exec);
}

Status ScaledRecipe::dequantize(const void* codes_data, void* y, int set,
                                cudaStream_t stream) const {
  Exec exec;
  exec.stream = stream;
  return rowscale::dequantize(codes(codes_data),
                              spec_.view(static_cast<const void*>(scales_.data(set)), device_),
                              named_.recipe, floats(y), exec);
}

double ScaledRecipe::once() const {
  const int64_t elements = shape_.tokens * shape_.hidden;
  return static_cast<double>(elements * (element_size(dtype_) + 1) +
                             spec_.storage * element_size(spec_.dtype));
}

double ScaledRecipe::quantize_traffic() const {
  const int64_t input = shape_.tokens * shape_.hidden * element_size(dtype_);
  // First the amax of all, then the codes; the second reading of a small tensor is from the cache.
  const bool twice = named_.recipe.granularity == Granularity::per_tensor &&
                     named_.recipe.scale_source == ScaleSource::dynamic && input > l2_bytes_;
  return once() + (twice ? static_cast<double>(input) : 0.0);
}

double ScaledRecipe::fused_traffic(const BenchSource& source) const {
  return static_cast<double>(shape_.tokens * shape_.hidden * source.element_traffic(dtype_) +
                             spec_.storage * element_size(spec_.dtype));
}

double ScaledRecipe::dequantize_traffic() const {
  return once();
}

}  // namespace rowscale::cli::gpu
