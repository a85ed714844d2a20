#include "cuda/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "build_info.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::cuda {
namespace {

bool is_norm(plan::GpuSplit split) {
  return split == plan::GpuSplit::norm || split == plan::GpuSplit::norm_team ||
         split == plan::GpuSplit::norm_any;
}

const char* kernel_name(const KernelKey& key) {
  if (key.operation == Operation::dequantize) return "dequantize_chunks";
  if (key.operation == Operation::mla) {
    return key.split == plan::GpuSplit::norm ? "mla_rows" : "mla_any";
  }
  if (key.operation == Operation::make_rows && !is_norm(key.split)) return "make_rows";
  switch (key.split) {
    case plan::GpuSplit::groups:
      return "quantize_groups";
    case plan::GpuSplit::rows:
      return "quantize_rows";
    case plan::GpuSplit::blocks:
      return "quantize_blocks";
    case plan::GpuSplit::tensor:
      return "quantize_tensor";
    case plan::GpuSplit::given:
      return "quantize_given";
    case plan::GpuSplit::norm:
      return "norm_rows";
    case plan::GpuSplit::norm_team:
      return "norm_teams";
    case plan::GpuSplit::norm_any:
      return "norm_any";
  }
  return "unknown";
}

std::string plan_text(const KernelKey& key) {
  std::string text =
      fmt::format("{} {} -> {} access={} scales={} lanes={} chunks={}", plan::to_string(key.source),
                  to_string(key.input), to_string(key.output), plan::to_string(key.access),
                  plan::to_string(key.scales), key.lanes, key.chunks);
  if (key.silu != plan::SiluForm::rounded) text += " products=fp32";
  if (key.split == plan::GpuSplit::norm) {
    text += fmt::format(" threads={} unit={} residual={}", key.threads, plan::to_string(key.unit),
                        plan::to_string(key.residual));
  } else if (key.split == plan::GpuSplit::norm_team) {
    text += fmt::format(" rounds={} unit={}", key.rounds, plan::to_string(key.unit));
  }
  return text;
}

// How alike two keys are, most of all in what a caller chose: lexicographic, larger is nearer.
auto likeness(const KernelKey& a, const KernelKey& b) {
  return std::tuple(a.operation == b.operation, a.source == b.source, a.input == b.input,
                    a.output == b.output, a.silu == b.silu, a.split == b.split,
                    a.access == b.access, a.scales == b.scales, -std::abs(a.lanes - b.lanes),
                    -std::abs(a.chunks - b.chunks), a.unit == b.unit, a.residual == b.residual,
                    -std::abs(a.threads - b.threads), -std::abs(a.rounds - b.rounds));
}

// Sorted by key, once.
const std::vector<Kernel>& all_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all;
    for (const auto& list : kernel_lists()) {
      all.insert(all.end(), list.begin(), list.end());
    }
    std::sort(all.begin(), all.end(),
              [](const Kernel& a, const Kernel& b) { return a.key < b.key; });
    return all;
  }();
  return kernels;
}

}  // namespace

std::vector<std::span<const Kernel>> kernel_lists() {
  return {plain_f32_kernels(),          plain_f16_kernels(),    plain_bf16_kernels(),
          dequantized_kernels(),        silu_mul_kernels(),     silu_mul_vllm_kernels(),
          gelu_tanh_mul_kernels(),      relu2_kernels(),        swiglu_clamped_kernels(),
          rms_norm_bf16_kernels(),      rms_norm_f16_kernels(), rms_norm_teams_bf16_kernels(),
          rms_norm_teams_f16_kernels(), rms_norm_any_kernels(), mla_kernels(),
          dequantize_kernels()};
}

std::string to_string(const KernelKey& key) {
  return fmt::format("rowscale::cuda::{} {}", kernel_name(key), plan_text(key));
}

Status find_kernel(const KernelKey& key, const Kernel** kernel) {
  const std::vector<Kernel>& all = all_kernels();
  const auto at =
      std::lower_bound(all.begin(), all.end(), key,
                       [](const Kernel& entry, const KernelKey& k) { return entry.key < k; });
  if (at != all.end() && at->key == key) {
    *kernel = &*at;
    return {};
  }
  const Kernel& nearest =
      *std::max_element(all.begin(), all.end(), [&key](const Kernel& a, const Kernel& b) {
        return likeness(a.key, key) < likeness(b.key, key);
      });
  return {StatusCode::unsupported,
          fmt::format("no kernel {}; the nearest is {}", to_string(key), to_string(nearest.key))};
}

std::vector<KernelInfo> list_kernels() {
  std::vector<KernelInfo> list;
  list.reserve(all_kernels().size() + 1);
  const auto append = [&list](const KernelKey& key) {
    list.push_back({kernel_name(key), plan_text(key), ROWSCALE_CUDA_ARCHITECTURES_TEXT});
  };
  for (const Kernel& kernel : all_kernels()) append(kernel.key);
  list.push_back({"relayout_scales", "any layout and encoding", ROWSCALE_CUDA_ARCHITECTURES_TEXT});
  return list;
}

}  // namespace rowscale::cuda
