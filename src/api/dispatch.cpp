#include "api/dispatch.hpp"

#include <fmt/format.h>

#include "cpu/operators.hpp"
#include "cpu/target.hpp"
#include "cuda/operators.hpp"
#include "plan/fused_call.hpp"

namespace rowscale::api {
namespace {

// The operator of the tensor's device.
template <class Cpu, class Cuda>
Status on_device(const TensorView& tensor, const Exec& exec, Cpu&& on_cpu, Cuda&& on_cuda) {
  if (tensor.device.type == DeviceType::cuda) return on_cuda();
  if (Status status = check_target(exec.target); !status.ok()) return status;
  return on_cpu();
}

}  // namespace

Status check_target(Target target) {
  if (cpu::is_supported(target)) return {};
  std::string names;
  for (Target supported : supported_targets()) {
    names += std::string(names.empty() ? "" : ", ") + to_string(supported);
  }
  return {
      StatusCode::unsupported,
      fmt::format("exec.target: this build and machine have {}, got {}", names, to_string(target))};
}

Status run_quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                    const TensorView& scales, const Exec& exec) {
  const plan::FusedCall call = plan::resolve(source, recipe);
  return on_device(
      source.x, exec, [&] { return cpu::quantize(call.source, call.recipe, codes, scales, exec); },
      [&] { return cuda::quantize(call.source, call.recipe, codes, scales, exec); });
}

Status run_store_rows(const plan::Source& source, const TensorView& y, const Exec& exec) {
  return on_device(
      source.x, exec, [&] { return cpu::store_rows(source, y, exec); },
      [&] { return cuda::store_rows(source, y, exec); });
}

Status run_mla(const plan::Mla& mla, const Exec& exec) {
  plan::Mla resolved = mla;
  resolved.q_recipe = resolve(mla.q_recipe);
  resolved.kv_recipe = resolve(mla.kv_recipe);
  return on_device(
      mla.x, exec, [&] { return cpu::mla_norm_quantize(resolved, exec); },
      [&] { return cuda::mla_norm_quantize(resolved, exec); });
}

Status run_dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                      const TensorView& y, const Exec& exec) {
  const Recipe resolved = resolve(recipe);
  return on_device(
      codes, exec, [&] { return cpu::dequantize(codes, scales, resolved, y, exec); },
      [&] { return cuda::dequantize(codes, scales, resolved, y, exec); });
}

Status run_relayout(const TensorView& codes, const TensorView& scales_in, const Recipe& recipe_in,
                    const TensorView& scales_out, const Recipe& recipe_out, const Exec& exec) {
  const Recipe in = resolve(recipe_in);
  const Recipe out = resolve(recipe_out);
  return on_device(
      scales_in, exec,
      [&] { return cpu::relayout_scales(codes, scales_in, in, scales_out, out, exec); },
      [&] { return cuda::relayout_scales(codes, scales_in, in, scales_out, out, exec); });
}

size_t workspace_bytes(const TensorView& x, const Recipe& recipe) {
  return x.device.type == DeviceType::cuda ? cuda::workspace_bytes(recipe) : 0;
}

}  // namespace rowscale::api
