// cuBLASLt with the scales inside: one product, and where the scales lie otherwise than cuBLASLt
// reads them, a launch before it that lays them out in the workspace.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cuda/context.hpp"
#include "cuda/matmul/cublaslt_product.hpp"
#include "cuda/matmul/dense.hpp"
#include "cuda/matmul/workspace.hpp"
#include "cuda/operators.hpp"
#include "matmul/backend.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::product {
namespace {

using cuda::LtScales;

// Bytes that cuBLASLt wants a vector of scales or of biases aligned to.
constexpr int64_t kVectorAlignment = 16;
constexpr int64_t kScalarAlignment = 4;
// cuBLASLt reads a column of 1x128 scales by 16 bytes.
constexpr int64_t kBlockRows = 4;

std::string refuse_scaling(const Problem& p) {
  const int architecture = cuda::architecture_of(p.device);
  const bool is_tensor_a = p.recipe_a.granularity == Granularity::per_tensor;
  const bool is_tensor_b = p.recipe_b.granularity == Granularity::per_tensor;
  if (p.scaling == Scaling::vector && is_tensor_a != is_tensor_b) {
    return "scales: expected per_tensor in both operands or in none";
  }
  const bool is_scalar = p.scaling == Scaling::vector && is_tensor_a;
  if (is_scalar && architecture < 89) {
    return fmt::format("device: expected compute capability 8.9 or more, got {}.{}",
                       architecture / 10, architecture % 10);
  }
  if (!is_scalar && architecture != 90) {
    return fmt::format("device: expected compute capability 9.0 for these scales, got {}.{}",
                       architecture / 10, architecture % 10);
  }
  if (p.scaling != Scaling::block) return {};
  if (p.n % kBlock != 0) {
    return fmt::format("n: expected a multiple of {} beside block scales, got {}", kBlock, p.n);
  }
  if (p.m % kBlockRows != 0) {
    return fmt::format("m: expected a multiple of {} beside block scales, got {}", kBlockRows, p.m);
  }
  return {};
}

std::string refuse_out(const Problem& p) {
  if (p.out.alignment < kVectorAlignment) {
    return fmt::format("out: expected rows aligned to {} bytes, got rows aligned to {}",
                       kVectorAlignment, p.out.alignment);
  }
  if (!p.has_bias) return {};
  const DType expected = p.out.dtype == DType::f16 ? DType::f16 : DType::bf16;
  if (p.bias != expected) {
    return fmt::format("bias: expected {} beside {}, got {}", rowscale::to_string(expected),
                       rowscale::to_string(p.out.dtype), rowscale::to_string(p.bias));
  }
  if (p.bias_alignment < kVectorAlignment) {
    return fmt::format("bias: expected an address that is a multiple of {}, got one of {}",
                       kVectorAlignment, p.bias_alignment);
  }
  return {};
}

LtScales scales_of(const Problem& p) {
  if (p.scaling == Scaling::block) return LtScales::blocks;
  return p.recipe_a.granularity == Granularity::per_tensor ? LtScales::scalar : LtScales::vectors;
}

bool is_float(const Recipe& recipe) {
  return recipe.encoding == ScaleEncoding::f32 || recipe.encoding == ScaleEncoding::ue8m0_f32;
}

// The recipe with its scales as cuBLASLt reads them.
Recipe readable(Recipe recipe) {
  if (!is_float(recipe)) recipe.encoding = ScaleEncoding::ue8m0_f32;
  recipe.layout = ScaleLayout::row_major;
  if (recipe.granularity == Granularity::per_group) recipe.layout = ScaleLayout::column_major;
  if (recipe.granularity == Granularity::per_block) recipe.layout = ScaleLayout::block_k4;
  return recipe;
}

// Whether the scales lie at every place where those of readable(recipe) do.
bool lies_well(const Recipe& recipe, const ScaleSpec& wanted, const ScaleSteps& steps,
               int64_t alignment) {
  if (!is_float(recipe)) return false;
  if (recipe.granularity == Granularity::per_tensor) return alignment >= kScalarAlignment;
  if (alignment < kVectorAlignment) return false;
  const int64_t rows = wanted.shape[0];
  const int64_t groups = wanted.shape[1];
  return (rows <= 1 || steps.row == wanted.strides[0]) &&
         (groups <= 1 || steps.group == wanted.strides[1]);
}

// One operand's scales: where they lie, or how they get to where cuBLASLt reads them.
struct Scales {
  Recipe from;
  Recipe to;
  ScaleSpec spec;                // of `to`
  std::optional<size_t> offset;  // into the workspace; none: read where they lie

  Status find(const Operand& operand, int64_t rows, int64_t columns, const Recipe& recipe,
              const ScaleSteps& steps, int64_t alignment, cuda::WorkspaceParts* parts) {
    from = recipe;
    to = readable(recipe);
    const TensorView codes =
        TensorView::contiguous(static_cast<void*>(nullptr), operand.dtype, {rows, columns});
    if (Status status = scale_spec(codes, to, &spec); !status.ok()) return status;
    if (!lies_well(recipe, spec, steps, alignment)) {
      offset = parts->add(static_cast<size_t>(spec.allocation) * sizeof(float));
    }
    return {};
  }

  // The scales' address, after a launch where they are laid out anew.
  Status place(const TensorView& codes, const TensorView& scales, const Exec& exec,
               const void** at) const {
    *at = scales.data;
    if (!offset) return {};
    void* data = static_cast<std::byte*>(exec.workspace.data) + *offset;
    *at = data;
    return cuda::relayout_scales(codes, scales, from, spec.view(data, codes.device), to, exec);
  }
};

class CublasLtWay final : public Way {
 public:
  CublasLtWay(const Problem& problem, const cuda::LtProduct& product, const Scales& a,
              const Scales& b, cuda::WorkspaceParts parts)
      : device_(problem.device.index),
        product_(product),
        a_(a),
        b_(b),
        product_offset_(parts.add(product_.workspace_bytes())),
        bytes_(parts.bytes()) {}

  [[nodiscard]] std::string text() const override {
    std::string text;
    for (const auto& [name, scales] : {std::pair{"scale_a", &a_}, std::pair{"scale_b", &b_}}) {
      if (scales->offset) text += fmt::format("{} laid out anew, then ", name);
    }
    return text + product_.text();
  }
  [[nodiscard]] size_t workspace_bytes() const override { return bytes_; }

  [[nodiscard]] Status run(const MatmulTensors& t, const Exec& exec) const override {
    const cuda::ScopedDevice device(device_);
    if (!device.status().ok()) return device.status();
    cuda::LtPointers pointers;
    if (Status s = a_.place(t.a, t.scale_a, exec, &pointers.scale_a); !s.ok()) return s;
    Exec second = exec;
    // The first launch has waited for what is before the call, and the second waits for it.
    if (a_.offset) second.dependent_launch = DependentLaunch::on;
    if (Status s = b_.place(t.b, t.scale_b, second, &pointers.scale_b); !s.ok()) return s;
    pointers.a = t.a.data;
    pointers.b = t.b.data;
    pointers.bias = t.bias.data;
    pointers.out = t.out.data;
    return product_.run(pointers, static_cast<std::byte*>(exec.workspace.data) + product_offset_,
                        static_cast<cudaStream_t>(exec.stream));
  }

 private:
  int device_;
  cuda::LtProduct product_;
  Scales a_;
  Scales b_;
  size_t product_offset_;
  size_t bytes_;
};

}  // namespace

Answer ask_cublaslt(const Problem& p, const MatmulOptions& options) {
  for (auto* refuse : {&cuda::refuse_shape, &cuda::refuse_codes, &refuse_scaling, &refuse_out}) {
    if (std::string wrong = refuse(p); !wrong.empty()) return Answer::refused(std::move(wrong));
  }
  cuda::LtProblem lt = cuda::lt_problem(p, options);
  lt.scales = scales_of(p);
  if (p.has_bias) lt.bias = p.bias;
  Scales a;
  Scales b;
  cuda::WorkspaceParts parts;
  for (const Status& status :
       {a.find(p.a, p.m, p.k, p.recipe_a, p.scale_a, p.scale_a_alignment, &parts),
        b.find(p.b, p.n, p.k, p.recipe_b, p.scale_b, p.scale_b_alignment, &parts)}) {
    if (!status.ok()) return Answer::refused(status.message());
  }
  cuda::LtAnswer found = cuda::find_products(lt, cuda::candidates_of(options));
  Answer answer;
  answer.refusal = std::move(found.refusal);
  answer.ways.reserve(found.products.size());
  for (const cuda::LtProduct& product : found.products) {
    answer.ways.push_back(std::make_shared<CublasLtWay>(p, product, a, b, parts));
  }
  return answer;
}

}  // namespace rowscale::product
