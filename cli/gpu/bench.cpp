// rowscale bench quantize and dequantize with --device cuda
#include <list>
#include <utility>
#include <vector>

#include "failure.hpp"
#include "gpu/ceiling_kernels.hpp"
#include "gpu/commands.hpp"
#include "gpu/host_calls.hpp"
#include "gpu/measure.hpp"
#include "gpu/quantizers.hpp"

namespace rowscale::cli::gpu {
namespace {

enum class Operation { quantize, dequantize };

// The tensors of one shape and dtype, several sets of each.
struct Tensors {
  Repetition repetition;
  int64_t elements;
  int64_t float_bytes;            // of one tensor
  std::vector<TensorSet> floats;  // one for each pattern
  TensorSet codes;
};

constexpr int64_t kSampleBytes = int64_t{16} << 20;

Tensors make_tensors(const Gpu& gpu, DType dtype, const Shape& shape,
                     const std::vector<Pattern>& patterns) {
  const int64_t elements = shape.tokens * shape.hidden;
  const int64_t float_bytes = elements * element_size(dtype);
  const Repetition repeated = repetition(gpu, float_bytes + elements);
  Tensors out{repeated, elements, float_bytes, {}, TensorSet(repeated.sets, elements)};
  for (const Pattern pattern : patterns) {
    const Buffer sample(kSampleBytes);
    fill(sample, dtype, pattern);
    out.floats.emplace_back(repeated.sets, float_bytes);
    out.floats.back().buffer().tile(sample);
  }
  return out;
}

void add_quantize(const ScaledRecipe& recipe, const Tensors& tensors, const Row& row,
                  const std::vector<Pattern>& patterns, std::vector<Measured>* out) {
  const auto call = [&recipe, &tensors](const TensorSet& x, int set, cudaStream_t stream) {
    return recipe.quantize(x.data(set), tensors.codes.data(set), set, stream);
  };
  if (!runs(recipe.name(), call(tensors.floats.front(), 0, nullptr))) return;
  for (size_t p = 0; p < patterns.size(); ++p) {
    const TensorSet& x = tensors.floats[p];
    Measured measured{{[call, &x](int set, cudaStream_t stream) { require(call(x, set, stream)); },
                       tensors.repetition},
                      row};
    measured.row.pattern = patterns[p];
    measured.row.traffic_bytes = recipe.quantize_traffic();
    out->push_back(std::move(measured));
  }
}

void add_dequantize(const ScaledRecipe& recipe, const Tensors& tensors, const Row& row,
                    std::vector<Measured>* out) {
  const TensorSet& floats = tensors.floats.front();
  for (int set = 0; set < tensors.codes.count(); ++set) {  // codes and scales that belong together
    if (!runs(recipe.name(),
              recipe.quantize(floats.data(set), tensors.codes.data(set), set, nullptr))) {
      return;
    }
  }
  const auto call = [&recipe, &tensors, &floats](int set, cudaStream_t stream) {
    return recipe.dequantize(tensors.codes.data(set), floats.data(set), set, stream);
  };
  if (!runs(recipe.name(), call(0, nullptr))) return;
  Measured measured{
      {[call](int set, cudaStream_t stream) { require(call(set, stream)); }, tensors.repetition},
      row};
  measured.row.traffic_bytes = recipe.dequantize_traffic();
  out->push_back(std::move(measured));
}

Copies copies_of(Operation operation, DType dtype, const Tensors& tensors) {
  const auto size = static_cast<int>(element_size(dtype));
  const bool quantizing = operation == Operation::quantize;
  const Traffic traffic = quantizing ? Traffic{size, 1} : Traffic{1, size};
  const TensorSet& from = quantizing ? tensors.floats.front() : tensors.codes;
  const TensorSet& to = quantizing ? tensors.codes : tensors.floats.front();
  Copies out;
  for (const CopyVariant& variant : kCopyVariants) {
    out.kernels.push_back({[&, traffic, variant](int set, cudaStream_t stream) {
                             check(launch_copy(traffic, variant, from.data(set), to.data(set),
                                               tensors.elements, stream),
                                   "launch_copy");
                           },
                           tensors.repetition});
  }
  out.kernel_bytes = static_cast<double>(tensors.float_bytes + tensors.elements);
  out.memcpy = {
      [&](int set, cudaStream_t stream) {
        check(cudaMemcpyAsync(to.data(set), from.data(set), static_cast<size_t>(tensors.elements),
                              cudaMemcpyDeviceToDevice, stream),
              "cudaMemcpyAsync");
      },
      tensors.repetition};
  out.memcpy_bytes = 2.0 * static_cast<double>(tensors.elements);
  return out;
}

// What is measured on every shape.
struct Plan {
  Operation operation;
  std::vector<NamedRecipe> recipes;
  std::vector<Pattern> patterns;
  int rounds;
};

Plan make_plan(Operation operation, const Options& options) {
  Plan plan{operation, chosen_recipes(options), {Pattern::normal}, options.rounds};
  if (operation == Operation::quantize) {
    plan.patterns = chosen_patterns(options);
    return plan;
  }
  // Reading given scales is the same work as reading those that were computed.
  std::erase_if(plan.recipes, [](const NamedRecipe& named) {
    return named.recipe.scale_source == ScaleSource::given;
  });
  return plan;
}

std::vector<Row> measure(const Plan& plan, const Gpu& gpu, DType dtype, const Shape& shape,
                         GraphTimer* timer) {
  const Tensors tensors = make_tensors(gpu, dtype, shape, plan.patterns);
  std::list<ScaledRecipe> recipes;  // stays where it is: the calls refer to it
  std::vector<Measured> measured;
  for (const NamedRecipe& named : plan.recipes) {
    recipes.emplace_back(named, gpu, dtype, shape, tensors.repetition.sets);
    Row row;
    row.recipe = named.name;
    row.dtype = dtype;
    row.shape = shape;
    row.sets = tensors.repetition.sets;
    row.launches = tensors.repetition.launches;
    if (plan.operation == Operation::quantize) {
      add_quantize(recipes.back(), tensors, row, plan.patterns, &measured);
    } else {
      add_dequantize(recipes.back(), tensors, row, &measured);
    }
  }
  if (measured.empty()) return {};
  return time_beside_copies(copies_of(plan.operation, dtype, tensors), measured, plan.rounds,
                            timer);
}

void run(Operation operation, const char* name, const Options& options) {
  const Plan plan = make_plan(operation, options);
  measure_shapes(name, options, chosen_shapes(options),
                 [&](const Gpu& gpu, DType dtype, const Shape& shape, GraphTimer* timer) {
                   return measure(plan, gpu, dtype, shape, timer);
                 });
}

}  // namespace

void bench_quantize(const Options& options) {
  if (options.host_calls) return time_host_calls(options);
  run(Operation::quantize, "quantize", options);
}

void bench_dequantize(const Options& options) {
  if (options.host_calls) {
    throw Failure(ExitCode::usage, "--calls: only with bench quantize");
  }
  run(Operation::dequantize, "dequantize", options);
}

}  // namespace rowscale::cli::gpu
