// Calls of the library on device memory, ready to be timed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "bench_source.hpp"
#include "gpu/device.hpp"
#include "gpu/options.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale::cli::gpu {

// The scales and the workspace of a recipe for one shape, and what it moves.
class ScaledRecipe {
 public:
  ScaledRecipe(const NamedRecipe& named, const Gpu& gpu, DType dtype, const Shape& shape, int sets);

  // Of the tensors of set `set`; the views are of device memory with the shape of the constructor.
  Status quantize(const void* x, void* codes, int set, cudaStream_t stream) const;
  // The source's tensors as they are, quantized into codes of the shape.
  Status fused(const BenchSource& source, const SourceTensors& tensors, const void* codes, int set,
               cudaStream_t stream) const;
  Status dequantize(const void* codes, void* y, int set, cudaStream_t stream) const;

  [[nodiscard]] const std::string& name() const { return named_.name; }
  [[nodiscard]] const Recipe& recipe() const { return named_.recipe; }
  [[nodiscard]] double quantize_traffic() const;
  [[nodiscard]] double fused_traffic(const BenchSource& source) const;
  [[nodiscard]] double dequantize_traffic() const;

 private:
  [[nodiscard]] TensorView floats(const void* data) const;
  [[nodiscard]] TensorView codes(const void* data) const;
  [[nodiscard]] double once() const;  // every byte of the floats, codes and scales

  NamedRecipe named_;
  Device device_;
  DType dtype_;
  Shape shape_;
  int64_t l2_bytes_;
  ScaleSpec spec_;
  TensorSet scales_;
  std::optional<DeviceBuffer> workspace_;
};

}  // namespace rowscale::cli::gpu
