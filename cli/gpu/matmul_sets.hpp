// The operands of a product in device memory, cold.
#pragma once

#include <cstdint>
#include <optional>

#include "gpu/device.hpp"
#include "gpu/graph_timer.hpp"
#include "matmul_cases.hpp"

namespace rowscale::cli::gpu {

// What operands are filled with, over and over.
struct MatmulSample {
  MatmulSample();
  Buffer codes;
  Buffer scales;
  Buffer floats;  // bf16
};

// Several sets of operands, each with its own memory: see repetition(). A graph of at least 20
// products.
class MatmulSets {
 public:
  // `bytes`: that one product moves. `routing`: of a case with experts, else nullptr.
  MatmulSets(const Gpu& gpu, const MatmulCase& c, const MatmulSample& sample,
             const Routing* routing, double bytes);

  [[nodiscard]] const Repetition& repeated() const { return repetition_; }
  [[nodiscard]] MatmulTensors tensors(int set) const;

 private:
  MatmulCase case_;
  MatmulTensors shapes_;
  Repetition repetition_;
  TensorSet a_;
  TensorSet b_;
  TensorSet scale_a_;
  TensorSet scale_b_;
  TensorSet out_;
  DeviceBuffer rows_;  // offsets or counts of experts
};

// A plan and the workspace it runs with.
class RunnableMatmul {
 public:
  RunnableMatmul(PlannedMatmul planned, DependentLaunch dependent);
  [[nodiscard]] const PlannedMatmul& planned() const { return planned_; }
  [[nodiscard]] Exec exec(cudaStream_t stream) const;
  [[nodiscard]] Status run(const MatmulTensors& tensors, cudaStream_t stream) const;

 private:
  PlannedMatmul planned_;
  DependentLaunch dependent_;
  std::optional<DeviceBuffer> workspace_;
};

}  // namespace rowscale::cli::gpu
