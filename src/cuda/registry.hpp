// The kernels of this build as a table: from a plan to what launches it.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/device/launcher.hpp"
#include "plan/gpu_plan.hpp"
#include "plan/source.hpp"
#include "rowscale/status.hpp"

namespace rowscale::cuda {

struct QuantizeCall;
struct DequantizeCall;
struct MlaCall;
struct RelayoutCall;

enum class Operation : uint8_t { quantize, make_rows, mla, dequantize };

// What distinguishes an instance.
struct KernelKey {
  Operation operation = Operation::quantize;
  plan::SourceKind source = plan::SourceKind::plain;
  DType input = DType::bf16;
  DType output = DType::e4m3;
  plan::GpuSplit split = plan::GpuSplit::groups;
  plan::GpuAccess access = plan::GpuAccess::vectors;
  plan::GpuScales scales = plan::GpuScales::general;
  int lanes = 1;
  int chunks = 1;
  int threads = 0;                                         // norm: of a row
  plan::SiluForm silu = plan::SiluForm::rounded;           // silu_mul: rounded, or not
  int rounds = 0;                                          // norm_team: of the sum's tree
  plan::NormUnit unit = plan::NormUnit::row;               // norm, norm_team
  plan::NormResidual residual = plan::NormResidual::none;  // norm
  friend auto operator<=>(const KernelKey&, const KernelKey&) = default;
};

// "rowscale::cuda::quantize_rows plain bf16 -> e4m3 access=vectors scales=floats lanes=1 chunks=4"
std::string to_string(const KernelKey& key);

struct Kernel {
  KernelKey key;
  cudaError_t (*quantize)(const QuantizeCall&, const Launch&) = nullptr;
  cudaError_t (*mla)(const MlaCall&, const Launch&) = nullptr;
  cudaError_t (*dequantize)(const DequantizeCall&, const Launch&) = nullptr;
};

// The instances of each file of instance/.
std::span<const Kernel> plain_f32_kernels();
std::span<const Kernel> plain_f16_kernels();
std::span<const Kernel> plain_bf16_kernels();
std::span<const Kernel> dequantized_kernels();
std::span<const Kernel> silu_mul_kernels();
std::span<const Kernel> silu_mul_vllm_kernels();
std::span<const Kernel> gelu_tanh_mul_kernels();
std::span<const Kernel> relu2_kernels();
std::span<const Kernel> swiglu_clamped_kernels();
std::span<const Kernel> rms_norm_bf16_kernels();
std::span<const Kernel> rms_norm_f16_kernels();
std::span<const Kernel> rms_norm_teams_bf16_kernels();
std::span<const Kernel> rms_norm_teams_f16_kernels();
std::span<const Kernel> rms_norm_any_kernels();
std::span<const Kernel> mla_kernels();
std::span<const Kernel> dequantize_kernels();

// All of them.
std::vector<std::span<const Kernel>> kernel_lists();

// The architecture of the code that the current device runs: 90 for compute_90.
cudaError_t query_code(int* version);

// Its grid follows from the call.
cudaError_t launch_relayout(const RelayoutCall& call, Launch how);

// unsupported, naming the nearest kernel, where the build has none.
Status find_kernel(const KernelKey& key, const Kernel** kernel);

// For `rowscale list-kernels`: every kernel with the architectures it is compiled for.
struct KernelInfo {
  std::string name;
  std::string plan;
  std::string architectures;  // "sm_90", or "sm_80 ... sm_120 compute_120"
};
std::vector<KernelInfo> list_kernels();

}  // namespace rowscale::cuda
