// One product of a layer: the quantized input and a part of the weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "matmul/plan.hpp"
#include "matmul/problem.hpp"
#include "rowscale/linear.hpp"
#include "rowscale/matmul.hpp"

namespace rowscale::linear {

// The input of a call as the operator in front of the product writes it.
struct Quantized {
  TensorView codes;   // [m, k], rows at the weight's stride
  TensorView scales;  // as scale_spec(codes, recipe)
  Recipe recipe;
};

// Of one part: the columns of out it makes.
struct ProductCall {
  const PackedWeight* weight = nullptr;
  const WeightPart* part = nullptr;
  MatmulOptions options;  // all but a and b
  Quantized input;
  TensorView bias;
  TensorView out;
};

// padded: into the workspace, with the zero rows of the weight and room for rows of a, then copied:
// for backends that want multiples.
enum class Form { direct, padded };

struct Product {
  Form form = Form::direct;
  product::Problem problem;
  MatmulTensors tensors;
  std::shared_ptr<const MatmulPlan::Data> plan;
  // Into the workspace of the product.
  size_t out_offset = 0;
  size_t bias_offset = 0;
  size_t plan_offset = 0;
  size_t workspace_bytes = 0;
};

// The faster form that is served. unsupported: neither is.
Status find_product(const ProductCall& call, Product* product);

// Whether matmul has such a product, without a plan.
Status check_product(const ProductCall& call);

std::string to_string(const Product& product);

// The last of what this call put into the stream before: the product may be launched dependent on
// a kernel.
enum class Before { kernel, other };

// workspace: product.workspace_bytes at a multiple of 256.
Status run_product(const Product& product, const ProductCall& call, Before before,
                   std::byte* workspace, const Exec& exec);

}  // namespace rowscale::linear
