// rowscale bench quantize and dequantize with --device cuda
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "bench_timing.hpp"
#include "failure.hpp"
#include "gpu/ceiling_kernels.hpp"
#include "gpu/commands.hpp"
#include "gpu/graph_timer.hpp"
#include "gpu/host_calls.hpp"
#include "gpu/quantizers.hpp"
#include "gpu/report.hpp"

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

// A contender, and the line of the report that its times go into.
struct Measured {
  GpuContender contender;
  Row row;
};

// Calls once. A recipe that has no kernel is left out, with a line on stderr; another failure ends.
bool runs(const ScaledRecipe& recipe, const Status& status) {
  if (status.code() == StatusCode::unsupported) {
    fmt::print(stderr, "left out: {}: {}\n", recipe.name(), status.message());
    return false;
  }
  require(status);
  check(cudaDeviceSynchronize(), recipe.name());
  return true;
}

void add_quantize(const ScaledRecipe& recipe, const Tensors& tensors, const Row& row,
                  const std::vector<Pattern>& patterns, std::vector<Measured>* out) {
  const auto call = [&recipe, &tensors](const TensorSet& x, int set, cudaStream_t stream) {
    return recipe.quantize(x.data(set), tensors.codes.data(set), set, stream);
  };
  if (!runs(recipe, call(tensors.floats.front(), 0, nullptr))) return;
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
    if (!runs(recipe, recipe.quantize(floats.data(set), tensors.codes.data(set), set, nullptr))) {
      return;
    }
  }
  const auto call = [&recipe, &tensors, &floats](int set, cudaStream_t stream) {
    return recipe.dequantize(tensors.codes.data(set), floats.data(set), set, stream);
  };
  if (!runs(recipe, call(0, nullptr))) return;
  Measured measured{
      {[call](int set, cudaStream_t stream) { require(call(set, stream)); }, tensors.repetition},
      row};
  measured.row.traffic_bytes = recipe.dequantize_traffic();
  out->push_back(std::move(measured));
}

// The copies that everything is compared with: kernels, then cudaMemcpy.
std::vector<GpuContender> copies(Operation operation, DType dtype, const Tensors& tensors) {
  const auto size = static_cast<int>(element_size(dtype));
  const bool quantizing = operation == Operation::quantize;
  const Traffic traffic = quantizing ? Traffic{size, 1} : Traffic{1, size};
  const TensorSet& from = quantizing ? tensors.floats.front() : tensors.codes;
  const TensorSet& to = quantizing ? tensors.codes : tensors.floats.front();
  std::vector<GpuContender> out;
  for (const CopyVariant& variant : kCopyVariants) {
    out.push_back({[&, traffic, variant](int set, cudaStream_t stream) {
                     check(launch_copy(traffic, variant, from.data(set), to.data(set),
                                       tensors.elements, stream),
                           "launch_copy");
                   },
                   tensors.repetition});
  }
  out.push_back({[&](int set, cudaStream_t stream) {
                   check(cudaMemcpyAsync(to.data(set), from.data(set),
                                         static_cast<size_t>(tensors.elements),
                                         cudaMemcpyDeviceToDevice, stream),
                         "cudaMemcpyAsync");
                 },
                 tensors.repetition});
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
  // Nothing that is timed depends on the values that the copies leave behind.
  std::vector<GpuContender> contenders = copies(plan.operation, dtype, tensors);
  const size_t first = contenders.size();
  for (const Measured& one : measured) contenders.push_back(one.contender);
  const auto times = timer->time(contenders, plan.rounds);

  const auto faster = [](const auto& a, const auto& b) { return median(a) < median(b); };
  const auto ceiling_end = times.begin() + std::ssize(kCopyVariants);
  const std::vector<double>& ceiling = *std::min_element(times.begin(), ceiling_end, faster);
  const auto ceiling_bytes = static_cast<double>(tensors.float_bytes + tensors.elements);
  std::vector<Row> rows;
  size_t normal = first;
  for (size_t i = 0; i < measured.size(); ++i) {
    Row row = measured[i].row;
    const std::vector<double>& ours = times[first + i];
    if (row.pattern == Pattern::normal) normal = first + i;  // the first of its recipe
    row.seconds = median(ours);
    row.ceiling_rate = ceiling_bytes / median(ceiling);
    row.share = median_ratio(ceiling, ours) * row.traffic_bytes / ceiling_bytes;
    row.memcpy_rate = 2.0 * static_cast<double>(tensors.elements) / median(times[first - 1]);
    row.relative_to_normal = median_ratio(ours, times[normal]);
    row.carries_ceiling = i == 0;
    rows.push_back(row);
  }
  return rows;
}

// Some tenths of a second of copying, after which the clock is that of a GPU at work.
void warm_up(const Gpu& gpu, GraphTimer* timer) {
  const TensorSet from(1, gpu.l2_bytes);
  const TensorSet to(1, gpu.l2_bytes);
  timer->time({{[&](int, cudaStream_t stream) {
                  check(cudaMemcpyAsync(to.data(0), from.data(0), static_cast<size_t>(gpu.l2_bytes),
                                        cudaMemcpyDeviceToDevice, stream),
                        "cudaMemcpyAsync");
                },
                {1, 200}}},
              50);
}

void run(Operation operation, const char* name, const Options& options) {
  const std::vector<Shape> shapes = chosen_shapes(options);
  const Plan plan = make_plan(operation, options);
  Gpu gpu = open_gpu();
  GraphTimer timer(gpu);
  warm_up(gpu, &timer);
  read_clock(&gpu);
  Report report(name, gpu, options.rounds);
  report.print_heading();
  bool any = false;
  for (const DType dtype : options.dtypes) {
    std::vector<Row> rows;
    for (size_t i = 0; i < shapes.size(); ++i) {
      for (const Row& row : measure(plan, gpu, dtype, shapes[i], &timer)) {
        rows.push_back(row);
      }
      const bool last = i + 1 == shapes.size() || shapes[i + 1].hidden != shapes[i].hidden;
      if (!last) continue;
      any = any || !rows.empty();
      if (!rows.empty()) report.add_and_print(rows);
      std::fflush(stdout);
      rows.clear();
    }
  }
  if (!any) throw Failure(ExitCode::unsupported, "no kernel for any of the recipes");
  if (!options.csv.empty()) report.write_csv(options.csv);
  if (!options.svg.empty()) report.write_svg(options.svg);
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
