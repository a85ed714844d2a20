#include "linear/product.hpp"

#include <fmt/format.h>

#include <utility>

#include "api/check.hpp"
#include "linear/copies.hpp"
#include "linear/weight.hpp"
#include "matmul/cache.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::linear {
namespace {

constexpr size_t kUnit = 256;
// Rows of a that cuBLASLt takes 1x128 scales of.
constexpr int64_t kRowUnit = 4;
// From more rows on, a product through cuBLASLt and a copy of its result take less time than a
// product of any shape. To be measured anew: `rowscale bench matmul` with a part's n and the n
// behind it.
constexpr int64_t kFewRows = 64;

// Whether a column of scales has room for a multiple of kRowUnit rows.
bool has_row_pads(const Recipe& input) {
  return input.layout == ScaleLayout::column_major_tma &&
         (input.encoding == ScaleEncoding::f32 || input.encoding == ScaleEncoding::ue8m0_f32);
}

int64_t rows_of(const ProductCall& call, Form form) {
  const int64_t m = call.input.codes.shape[0];
  return form == Form::padded && has_row_pads(call.input.recipe) ? round_up(m, kRowUnit) : m;
}

Status tensors_of(const ProductCall& call, Form form, MatmulTensors* t, MatmulOptions* options) {
  const PackedWeight& weight = *call.weight;
  const WeightPart& part = *call.part;
  const int64_t m = rows_of(call, form);
  const int64_t n = form == Form::padded ? part.padded_rows : part.rows;
  const int64_t k = weight.spec.padded_k;
  *options = call.options;
  options->a = call.input.recipe;
  options->b = weight.spec.recipe;
  // One scale for all rows is the first of them.
  if (weight.spec.has_one_scale && options->a.granularity == Granularity::per_tensor) {
    options->b.granularity = Granularity::per_tensor;
  }
  if (form == Form::padded && has_row_pads(options->a)) {
    options->a.layout = ScaleLayout::column_major;
  }
  t->a = TensorView::strided(call.input.codes.data, call.input.codes.dtype, {m, k}, {k, 1},
                             weight.device);
  t->b = TensorView::contiguous(
      static_cast<std::byte*>(weight.codes) + part.codes_offset,
      call.weight->spec.recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2, {n, k},
      weight.device);
  ScaleSpec spec;
  ROWSCALE_RETURN_IF_ERROR(scale_spec(t->a, options->a, &spec));
  t->scale_a = spec.view(call.input.scales.data, weight.device);
  ROWSCALE_RETURN_IF_ERROR(scale_spec(t->b, options->b, &spec));
  t->scale_b =
      spec.view(static_cast<std::byte*>(weight.scales) + part.scales_offset, weight.device);
  t->bias = call.bias;
  t->out = call.out;
  return {};
}

// Room of its own for out and bias; the addresses come with the workspace.
Status pad_outputs(const ProductCall& call, Product* product) {
  MatmulTensors& t = product->tensors;
  const int64_t m = rows_of(call, Form::padded);
  const int64_t n = call.part->padded_rows;
  const auto size = static_cast<size_t>(element_size(call.out.dtype));
  size_t bytes = round_up(static_cast<size_t>(m * n) * size, kUnit);
  t.out = TensorView::contiguous(static_cast<void*>(nullptr), call.out.dtype, {m, n},
                                 call.weight->device);
  if (!api::is_absent(call.bias)) {
    t.bias = TensorView::contiguous(static_cast<void*>(nullptr), call.bias.dtype, {n},
                                    call.weight->device);
    product->bias_offset = bytes;
    bytes += round_up(static_cast<size_t>(n * element_size(call.bias.dtype)), kUnit);
  }
  product->plan_offset = bytes;
  return {};
}

Status make(const ProductCall& call, Form form, Product* product) {
  Product made;
  MatmulOptions options;
  made.form = form;
  ROWSCALE_RETURN_IF_ERROR(tensors_of(call, form, &made.tensors, &options));
  if (form == Form::padded) ROWSCALE_RETURN_IF_ERROR(pad_outputs(call, &made));
  ROWSCALE_RETURN_IF_ERROR(product::make_problem(made.tensors, options, &made.problem));
  ROWSCALE_RETURN_IF_ERROR(product::cached_plan(made.problem, options, &made.plan));
  made.workspace_bytes = made.plan_offset + round_up(made.plan->way->workspace_bytes(), kUnit);
  *product = std::move(made);
  return {};
}

// What serves many rows at the speed of the machine, and asks for sizes that padding makes.
bool is_for_many_rows(MatmulBackend backend) {
  return backend == MatmulBackend::cublaslt || backend == MatmulBackend::split;
}

}  // namespace

Status find_product(const ProductCall& call, Product* product) {
  Status direct = make(call, Form::direct, product);
  const bool has_pads = call.part->padded_rows != call.part->rows ||
                        rows_of(call, Form::padded) != rows_of(call, Form::direct);
  if (!has_pads || (!direct.ok() && direct.code() != StatusCode::unsupported)) return direct;
  if (direct.ok()) {
    // A row's bits depend on m where the form does.
    if (call.options.batch_invariance == BatchInvariance::on ||
        call.options.backend != MatmulBackend::best || product->problem.m <= kFewRows ||
        is_for_many_rows(product->plan->backend)) {
      return direct;
    }
  }
  Product padded;
  const Status status = make(call, Form::padded, &padded);
  if (!direct.ok()) {
    if (status.ok()) *product = std::move(padded);
    return status.ok() ? status : direct;
  }
  if (status.ok() && is_for_many_rows(padded.plan->backend)) *product = std::move(padded);
  return {};
}

Status check_product(const ProductCall& call) {
  MatmulTensors tensors;
  MatmulOptions options;
  product::Problem problem;
  ROWSCALE_RETURN_IF_ERROR(tensors_of(call, Form::direct, &tensors, &options));
  return product::make_problem(tensors, options, &problem);
}

std::string to_string(const Product& product) {
  const MatmulPlan::Data& plan = *product.plan;
  return fmt::format("{}{}: {}: {}, workspace {} bytes",
                     product.form == Form::padded ? "padded and copied, " : "",
                     product::to_string(product.problem), rowscale::to_string(plan.backend),
                     plan.way->text(), product.workspace_bytes);
}

Status run_product(const Product& product, const ProductCall& call, Before before,
                   std::byte* workspace, const Exec& exec) {
  const Device device = call.weight->device;
  MatmulTensors t = product.tensors;
  Exec own = exec;
  if (before == Before::kernel) own.dependent_launch = DependentLaunch::on;
  own.workspace = {workspace + product.plan_offset, product.workspace_bytes - product.plan_offset};
  if (product.form == Form::direct) return product.plan->run(product.problem, t, own);

  t.out.data = workspace;
  if (!api::is_absent(call.bias)) {
    t.bias.data = workspace + product.bias_offset;
    Rows bias;
    bias.to = static_cast<std::byte*>(t.bias.data);
    bias.from = static_cast<const std::byte*>(call.bias.data);
    bias.width = call.part->rows * element_size(call.bias.dtype);
    bias.height = 1;
    ROWSCALE_RETURN_IF_ERROR(copy_rows(bias, device, exec));
    own.dependent_launch = DependentLaunch::off;  // behind a copy
  }
  ROWSCALE_RETURN_IF_ERROR(product.plan->run(product.problem, t, own));
  const int64_t size = element_size(call.out.dtype);
  Rows out;
  out.to = static_cast<std::byte*>(call.out.data);
  out.to_pitch = call.out.strides[0] * size;
  out.from = workspace;
  out.from_pitch = call.part->padded_rows * size;
  out.width = call.part->rows * size;
  out.height = call.out.shape[0];
  return copy_rows(out, device, exec);
}

}  // namespace rowscale::linear
