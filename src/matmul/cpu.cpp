// Any product of CPU tensors.
#include <string>

#include "api/dispatch.hpp"
#include "cpu/matmul.hpp"
#include "matmul/backend.hpp"

namespace rowscale::product {
namespace {

class CpuWay final : public Way {
 public:
  explicit CpuWay(const Problem& problem) : problem_(problem) {}

  [[nodiscard]] std::string text() const override { return "fp32 in tiles of 96 x 96 x 128"; }

  [[nodiscard]] Status run(const MatmulTensors& tensors, const Exec& exec) const override {
    if (Status status = api::check_target(exec.target); !status.ok()) return status;
    cpu::matmul(problem_, tensors, exec);
    return {};
  }

 private:
  Problem problem_;
};

}  // namespace

Answer ask_cpu(const Problem& problem, const MatmulOptions& /*options*/) {
  if (problem.device.type != DeviceType::cpu) {
    return Answer::refused("tensors: on the cpu, got cuda:" + std::to_string(problem.device.index));
  }
  return Answer::one(std::make_shared<CpuWay>(problem));
}

}  // namespace rowscale::product
