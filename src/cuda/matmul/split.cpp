// cuBLASLt's product with neither scales nor a cast, in fp32, and one small kernel that multiplies
// by both scales, adds the bias and casts. At few rows the scalar product and this kernel together
// take less time than cuBLASLt's product with vectors of scales, and the kernel takes every
// encoding of scales, every dtype and every stride of the output.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "cuda/call_parts.hpp"
#include "cuda/context.hpp"
#include "cuda/matmul/cublaslt_product.hpp"
#include "cuda/matmul/dense.hpp"
#include "cuda/matmul/scale_epilogue.hpp"
#include "cuda/matmul/workspace.hpp"
#include "matmul/backend.hpp"

namespace rowscale::product {
namespace {

constexpr int kFirstArchitecture = 89;

std::string refuse_scaling(const Problem& p) {
  if (p.scaling == Scaling::block) return "scales: expected one a row or one a tensor, got blocks";
  const int architecture = cuda::architecture_of(p.device);
  if (architecture >= kFirstArchitecture) return {};
  return fmt::format("device: expected compute capability 8.9 or more, got {}.{}",
                     architecture / 10, architecture % 10);
}

class SplitWay final : public Way {
 public:
  SplitWay(const Problem& problem, const cuda::DeviceFacts& facts, const cuda::LtProduct& product)
      : problem_(problem), facts_(facts), product_(product) {
    cuda::WorkspaceParts parts;
    sums_offset_ =
        parts.add(static_cast<size_t>(problem.m * cuda::sum_stride_for(problem.n)) * sizeof(float));
    product_offset_ = parts.add(product_.workspace_bytes());
    bytes_ = parts.bytes();
  }

  [[nodiscard]] std::string text() const override {
    return product_.text() + " to fp32, then scales and cast";
  }
  [[nodiscard]] size_t workspace_bytes() const override { return bytes_; }

  [[nodiscard]] Status run(const MatmulTensors& t, const Exec& exec) const override {
    const cuda::ScopedDevice device(problem_.device.index);
    if (!device.status().ok()) return device.status();
    auto* workspace = static_cast<std::byte*>(exec.workspace.data);
    auto* sums = reinterpret_cast<float*>(workspace + sums_offset_);
    cuda::LtPointers pointers;
    pointers.a = t.a.data;
    pointers.b = t.b.data;
    pointers.out = sums;
    if (Status s = product_.run(pointers, workspace + product_offset_,
                                static_cast<cudaStream_t>(exec.stream));
        !s.ok()) {
      return s;
    }
    cuda::Launch launch = cuda::launch_of(exec, facts_, 0, 0);
    launch.dependent = launch.inner;  // on the product, not on what is before the call
    return cuda::status_of(
        cuda::launch_scale_epilogue(
            cuda::scale_epilogue_call(problem_, t, sums, cuda::EpilogueScales::both), launch),
        "rowscale::cuda::scale_epilogue");
  }

 private:
  Problem problem_;
  cuda::DeviceFacts facts_;
  cuda::LtProduct product_;
  size_t sums_offset_ = 0;
  size_t product_offset_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

Answer ask_split(const Problem& p, const MatmulOptions& options) {
  for (auto* refuse : {&cuda::refuse_shape, &cuda::refuse_codes, &refuse_scaling}) {
    if (std::string wrong = refuse(p); !wrong.empty()) return Answer::refused(std::move(wrong));
  }
  cuda::DeviceFacts facts;
  if (Status s = cuda::find_device(p.device.index, &facts); !s.ok()) {
    return Answer::refused(s.message());
  }
  cuda::LtProblem lt = cuda::lt_problem(p, options);
  lt.out = {DType::f32, cuda::sum_stride_for(p.n), 256};
  cuda::LtAnswer found = cuda::find_products(lt, cuda::candidates_of(options));
  Answer answer;
  answer.refusal = std::move(found.refusal);
  answer.ways.reserve(found.products.size());
  for (const cuda::LtProduct& product : found.products) {
    answer.ways.push_back(std::make_shared<SplitWay>(p, facts, product));
  }
  return answer;
}

}  // namespace rowscale::product
