// rowscale bench fused with --device cuda
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_source.hpp"
#include "failure.hpp"
#include "gpu/ceiling_kernels.hpp"
#include "gpu/commands.hpp"
#include "gpu/measure.hpp"
#include "gpu/quantizers.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr int64_t kSampleBytes = int64_t{16} << 20;

TensorSet filled(int sets, int64_t bytes, DType dtype, Pattern pattern) {
  const Buffer sample(kSampleBytes);
  fill(sample, dtype, pattern);
  TensorSet out(sets, bytes);
  out.buffer().tile(sample);
  return out;
}

// What a source works on for one shape and dtype, several sets of each. A residual is updated in
// place and so grows from launch to launch: the time of no kernel depends on its data.
class SourceSets {
 public:
  SourceSets(const BenchSource& source, const Gpu& gpu, DType dtype, const Shape& shape,
             const std::vector<Pattern>& patterns)
      : source_(source),
        device_{DeviceType::cuda, gpu.index},
        dtype_(dtype),
        shape_(shape),
        repetition_(repetition(gpu, elements() * source.element_traffic(dtype))),
        codes_(repetition_.sets, elements()) {
    const int64_t row_bytes = elements() * element_size(dtype);
    for (const Pattern pattern : patterns) {
      x_.push_back(filled(repetition_.sets, row_bytes * source.inputs(), dtype, pattern));
    }
    if (source.op == FusedOperator::rms_norm) {
      weight_.emplace(filled(1, shape.hidden * element_size(dtype), dtype, Pattern::normal));
    }
    if (source.residual == Residual::in_place) {
      residual_.emplace(filled(repetition_.sets, row_bytes, dtype, Pattern::normal));
    }
    if (source.row_out == RowOut::stored) row_out_.emplace(repetition_.sets, row_bytes);
  }

  [[nodiscard]] int64_t elements() const { return shape_.tokens * shape_.hidden; }
  [[nodiscard]] const Repetition& repeated() const { return repetition_; }
  [[nodiscard]] const TensorSet& codes() const { return codes_; }

  [[nodiscard]] SourceTensors tensors(size_t pattern, int set) const {
    const auto rows = [&](const TensorSet& of, int64_t columns) {
      return TensorView::contiguous(of.data(set), dtype_, {shape_.tokens, columns}, device_);
    };
    SourceTensors out;
    out.x = rows(x_[pattern], shape_.hidden * source_.inputs());
    if (weight_) {
      out.weight = TensorView::contiguous(weight_->data(0), dtype_, {shape_.hidden}, device_);
    }
    if (residual_) out.residual = rows(*residual_, shape_.hidden);
    if (row_out_) out.row_out = rows(*row_out_, shape_.hidden);
    return out;
  }

  // Kernels with the source's reads and writes, and cudaMemcpy of a byte an element.
  [[nodiscard]] Copies copies() const {
    Copies out;
    for (const CopyVariant& variant : kCopyVariants) {
      out.kernels.push_back({[this, variant](int set, cudaStream_t stream) {
                               check(copy(variant, set, stream), "a copy kernel");
                             },
                             repetition_});
    }
    out.kernel_bytes = static_cast<double>(elements() * source_.element_traffic(dtype_));
    out.memcpy = {
        [this](int set, cudaStream_t stream) {
          check(cudaMemcpyAsync(codes_.data(set), x_.front().data(set),
                                static_cast<size_t>(elements()), cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
        },
        repetition_};
    out.memcpy_bytes = 2.0 * static_cast<double>(elements());
    return out;
  }

 private:
  [[nodiscard]] cudaError_t copy(const CopyVariant& variant, int set, cudaStream_t stream) const {
    const auto size = static_cast<int>(element_size(dtype_));
    const std::byte* x = x_.front().data(set);
    if (!residual_ && !row_out_) {
      const Traffic traffic{size * static_cast<int>(source_.inputs()), 1};
      return launch_copy(traffic, variant, x, codes_.data(set), elements(), stream);
    }
    const FusedTraffic traffic = !residual_  ? FusedTraffic::row_out
                                 : !row_out_ ? FusedTraffic::residual
                                             : FusedTraffic::residual_and_row_out;
    const auto data = [&](const std::optional<TensorSet>& of) -> void* {
      return of ? of->data(set) : nullptr;
    };
    return launch_fused_copy(traffic, size, variant,
                             {x, data(residual_), data(row_out_), codes_.data(set)}, elements(),
                             stream);
  }

  const BenchSource& source_;
  Device device_;
  DType dtype_;
  Shape shape_;
  Repetition repetition_;
  std::vector<TensorSet> x_;  // one for each pattern
  TensorSet codes_;
  std::optional<TensorSet> weight_;
  std::optional<TensorSet> residual_;
  std::optional<TensorSet> row_out_;
};

std::vector<Row> measure(const BenchSource& source, const std::vector<NamedRecipe>& named,
                         const std::vector<Pattern>& patterns, int rounds, const Gpu& gpu,
                         DType dtype, const Shape& shape, GraphTimer* timer) {
  const SourceSets sets(source, gpu, dtype, shape, patterns);
  std::list<ScaledRecipe> recipes;  // stays where it is: the calls refer to it
  std::vector<Measured> measured;
  for (const NamedRecipe& one : named) {
    const ScaledRecipe& recipe = recipes.emplace_back(one, gpu, dtype, shape, sets.repeated().sets);
    const auto call = [&](size_t pattern, int set, cudaStream_t stream) {
      return recipe.fused(source, sets.tensors(pattern, set), sets.codes().data(set), set, stream);
    };
    if (!runs(one.name, call(0, 0, nullptr))) continue;
    for (size_t p = 0; p < patterns.size(); ++p) {
      Row row;
      row.recipe = one.name;
      row.dtype = dtype;
      row.shape = shape;
      row.pattern = patterns[p];
      row.sets = sets.repeated().sets;
      row.launches = sets.repeated().launches;
      row.traffic_bytes = recipe.fused_traffic(source);
      measured.push_back({{[&source, &sets, &recipe, p](int set, cudaStream_t stream) {
                             require(recipe.fused(source, sets.tensors(p, set),
                                                  sets.codes().data(set), set, stream));
                           },
                           sets.repeated()},
                          row});
    }
  }
  if (measured.empty()) return {};
  return time_beside_copies(sets.copies(), measured, rounds, timer);
}

}  // namespace

void bench_fused(const BenchSource& source, const Options& options) {
  if (options.host_calls) throw Failure(ExitCode::usage, "--calls: only with bench quantize");
  std::vector<NamedRecipe> recipes = chosen_recipes(options);
  std::erase_if(recipes, [](const NamedRecipe& named) { return !is_fused_recipe(named.recipe); });
  if (recipes.empty()) {
    throw Failure(ExitCode::usage,
                  "--recipe: expected one that a fused operator takes: no dynamic per_tensor or "
                  "per_block");
  }
  std::vector<Shape> shapes = chosen_shapes(options);
  std::erase_if(shapes, [&](const Shape& shape) {
    return !shape.input_of.empty() && !source.feeds(shape.input_of);
  });
  if (shapes.empty()) {
    throw Failure(ExitCode::input,
                  options.model + ": no layer reads what " + source.name + " makes");
  }
  const std::vector<Pattern> patterns = chosen_patterns(options);
  measure_shapes(std::string(source.name) + " and quantize", options, shapes,
                 [&](const Gpu& gpu, DType dtype, const Shape& shape, GraphTimer* timer) {
                   return measure(source, recipes, patterns, options.rounds, gpu, dtype, shape,
                                  timer);
                 });
}

}  // namespace rowscale::cli::gpu
