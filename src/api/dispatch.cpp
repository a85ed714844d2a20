#include "api/dispatch.hpp"

#include <fmt/format.h>

#include "cpu/operators.hpp"
#include "cpu/target.hpp"

namespace rowscale::api {
namespace {

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

// call(): the CPU's operator.
template <class Call>
Status on_device(const TensorView& tensor, const Exec& exec, Call&& call) {
  if (tensor.device.type != DeviceType::cpu) {
    return {StatusCode::unsupported,
            fmt::format("this build has kernels for the cpu, got {}", to_string(tensor))};
  }
  if (Status status = check_target(exec.target); !status.ok()) return status;
  return call();
}

}  // namespace

Status run_quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                    const TensorView& scales, const Exec& exec) {
  return on_device(source.x, exec,
                   [&] { return cpu::quantize(source, resolve(recipe), codes, scales, exec); });
}

Status run_store_rows(const plan::Source& source, const TensorView& y, const Exec& exec) {
  return on_device(source.x, exec, [&] { return cpu::store_rows(source, y, exec); });
}

Status run_dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                      const TensorView& y, const Exec& exec) {
  return on_device(codes, exec,
                   [&] { return cpu::dequantize(codes, scales, resolve(recipe), y, exec); });
}

Status run_relayout(const TensorView& codes, const TensorView& scales_in, const Recipe& recipe_in,
                    const TensorView& scales_out, const Recipe& recipe_out, const Exec& exec) {
  return on_device(scales_in, exec, [&] {
    return cpu::relayout_scales(codes, scales_in, resolve(recipe_in), scales_out,
                                resolve(recipe_out), exec);
  });
}

}  // namespace rowscale::api
