// Codes as bf16 in the workspace, cuBLASLt's bf16 product of those in fp32, and the small kernel of
// split.cpp. Takes every dense problem; its price is 2 (m + n) k + 4 m n bytes of workspace and the
// traffic of those. Every code is a bf16 number, so that vector scales lose nothing; with block
// scales an element is code * scale rounded to bf16, relative error 2^-9 an operand.
#include <memory>
#include <string>
#include <utility>

#include "cuda/call_parts.hpp"
#include "cuda/context.hpp"
#include "cuda/matmul/cublaslt_product.hpp"
#include "cuda/matmul/dense.hpp"
#include "cuda/matmul/scale_epilogue.hpp"
#include "cuda/matmul/workspace.hpp"
#include "cuda/operators.hpp"
#include "matmul/backend.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::product {
namespace {

// Rows of bf16 at a multiple of 16 bytes.
int64_t padded(int64_t columns) {
  return (columns + 7) / 8 * 8;
}

size_t bf16_bytes(int64_t rows, int64_t columns) {
  return static_cast<size_t>(rows * padded(columns)) * 2;
}

class DequantizeWay final : public Way {
 public:
  DequantizeWay(const Problem& problem, const cuda::DeviceFacts& facts, const float* one,
                const cuda::LtProduct& product)
      : problem_(problem), facts_(facts), one_(one), product_(product) {
    cuda::WorkspaceParts parts;
    a_offset_ = parts.add(bf16_bytes(problem.m, problem.k));
    b_offset_ = parts.add(bf16_bytes(problem.n, problem.k));
    sums_offset_ =
        parts.add(static_cast<size_t>(problem.m * cuda::sum_stride_for(problem.n)) * sizeof(float));
    product_offset_ = parts.add(product_.workspace_bytes());
    bytes_ = parts.bytes();
  }

  [[nodiscard]] std::string text() const override {
    const bool is_block = problem_.scaling == Scaling::block;
    return std::string(is_block ? "codes times scales, rounded to bf16, " : "codes as bf16, ") +
           product_.text() + (is_block ? " to fp32, then cast" : " to fp32, then scales and cast");
  }
  [[nodiscard]] size_t workspace_bytes() const override { return bytes_; }

  [[nodiscard]] Status run(const MatmulTensors& t, const Exec& exec) const override {
    const cuda::ScopedDevice device(problem_.device.index);
    if (!device.status().ok()) return device.status();
    auto* workspace = static_cast<std::byte*>(exec.workspace.data);
    auto* sums = reinterpret_cast<float*>(workspace + sums_offset_);
    cuda::LtPointers pointers;
    pointers.a = workspace + a_offset_;
    pointers.b = workspace + b_offset_;
    pointers.out = sums;
    Exec second = exec;
    // The first launch has waited for what is before the call, and the second waits for it.
    second.dependent_launch = DependentLaunch::on;
    if (Status s = decode(t.a, t.scale_a, problem_.recipe_a, workspace + a_offset_, exec);
        !s.ok()) {
      return s;
    }
    if (Status s = decode(t.b, t.scale_b, problem_.recipe_b, workspace + b_offset_, second);
        !s.ok()) {
      return s;
    }
    if (Status s = product_.run(pointers, workspace + product_offset_,
                                static_cast<cudaStream_t>(exec.stream));
        !s.ok()) {
      return s;
    }
    cuda::Launch launch = cuda::launch_of(exec, facts_, 0, 0);
    launch.dependent = launch.inner;  // on the product, not on what is before the call
    const auto scales = problem_.scaling == Scaling::block ? cuda::EpilogueScales::none
                                                           : cuda::EpilogueScales::both;
    return cuda::status_of(
        cuda::launch_scale_epilogue(cuda::scale_epilogue_call(problem_, t, sums, scales), launch),
        "rowscale::cuda::scale_epilogue");
  }

 private:
  [[nodiscard]] Status decode(const TensorView& codes, const TensorView& scales,
                              const Recipe& recipe, void* to, const Exec& exec) const {
    const int64_t columns = codes.shape[1];
    const TensorView rows = TensorView::strided(to, DType::bf16, {codes.shape[0], columns},
                                                {padded(columns), 1}, codes.device);
    if (problem_.scaling == Scaling::block) {
      return cuda::dequantize(codes, scales, recipe, rows, exec);
    }
    // Times one.
    Recipe unscaled = resolve(per_tensor());
    unscaled.format = recipe.format;
    const TensorView one = TensorView::contiguous(one_, DType::f32, {1}, codes.device);
    return cuda::dequantize(codes, one, unscaled, rows, exec);
  }

  Problem problem_;
  cuda::DeviceFacts facts_;
  const float* one_;
  cuda::LtProduct product_;
  size_t a_offset_ = 0;
  size_t b_offset_ = 0;
  size_t sums_offset_ = 0;
  size_t product_offset_ = 0;
  size_t bytes_ = 0;
};

Status find_one(Device device, const float** one) {
  const cuda::ScopedDevice current(device.index);
  if (!current.status().ok()) return current.status();
  return cuda::status_of(cuda::find_one(one), "cudaGetSymbolAddress");
}

}  // namespace

Answer ask_dequantize(const Problem& p, const MatmulOptions& options) {
  if (std::string wrong = cuda::refuse_shape(p); !wrong.empty()) {
    return Answer::refused(std::move(wrong));
  }
  cuda::DeviceFacts facts;
  const float* one = nullptr;
  if (Status s = cuda::find_device(p.device.index, &facts); !s.ok()) {
    return Answer::refused(s.message());
  }
  if (Status s = find_one(p.device, &one); !s.ok()) return Answer::refused(s.message());
  cuda::LtProblem lt = cuda::lt_problem(p, options);
  lt.a = {DType::bf16, padded(p.k), 16};
  lt.b = lt.a;
  lt.out = {DType::f32, cuda::sum_stride_for(p.n), 16};
  cuda::LtAnswer found = cuda::find_products(lt, cuda::candidates_of(options));
  Answer answer;
  answer.refusal = std::move(found.refusal);
  answer.ways.reserve(found.products.size());
  for (const cuda::LtProduct& product : found.products) {
    answer.ways.push_back(std::make_shared<DequantizeWay>(p, facts, one, product));
  }
  return answer;
}

}  // namespace rowscale::product
