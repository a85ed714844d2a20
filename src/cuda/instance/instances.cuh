// The list of kernels that one source and one format are compiled into.
#pragma once

#include <utility>
#include <vector>

#include "cuda/kernel/quantize_blocks.cuh"
#include "cuda/kernel/quantize_given.cuh"
#include "cuda/kernel/quantize_groups.cuh"
#include "cuda/kernel/quantize_rows.cuh"
#include "cuda/kernel/quantize_tensor.cuh"
#include "cuda/registry.hpp"

namespace rowscale::cuda {

// The cast points of a source, in the registry's words.
template <class Source>
constexpr plan::SiluForm silu_form() {
  if constexpr (requires { Source::kSilu; }) return Source::kSilu;
  return plan::SiluForm::rounded;
}

template <class Source, class Scales, class Codec>
class Instances {
 public:
  static void append(DType input, std::vector<Kernel>* kernels) {
    Instances list(input, kernels);
    list.add_groups(std::make_index_sequence<std::size(plan::kGroupsShapes)>());
    list.add_rows(std::make_index_sequence<std::size(plan::kRowsShapes)>());
    // Scales of more than a row are refused where a source makes the rows.
    constexpr bool kIsRuns = Source::Rows::kAccess == plan::GpuAccess::runs;
    if constexpr (!plan::is_made(Source::kKind) && !kIsRuns) {
      list.add_blocks(std::make_index_sequence<std::size(plan::kBlocksShapes)>());
    }
    if constexpr (Scales::kScales == plan::GpuScales::general) {
      list.add(plan::GpuSplit::given, {1, plan::kGivenChunks}, &launch_given);
      if constexpr (!plan::is_made(Source::kKind)) {
        list.add(plan::GpuSplit::tensor, {1, plan::kGivenChunks}, &launch_tensor);
      }
    }
  }

 private:
  using Launcher = cudaError_t (*)(const QuantizeCall&, const Launch&);

  Instances(DType input, std::vector<Kernel>* kernels) : input_(input), kernels_(kernels) {}

  void add(plan::GpuSplit split, plan::GroupsShape shape, Launcher launcher) {
    KernelKey key;
    key.source = Source::kKind;
    key.silu = silu_form<Source>();
    key.input = input_;
    key.output = Codec::kFormat == Format::e4m3 ? DType::e4m3 : DType::e5m2;
    key.split = split;
    key.access = Source::Rows::kAccess;
    key.scales = Scales::kScales;
    key.lanes = shape.lanes;
    key.chunks = shape.chunks;
    kernels_->push_back({key, launcher});
  }

  template <size_t... kIndex>
  void add_groups(std::index_sequence<kIndex...>) {
    (add_groups_shape<plan::kGroupsShapes[kIndex]>(), ...);
  }
  template <plan::GroupsShape kShape>
  void add_groups_shape() {
    if constexpr (plan::serves(kShape, Source::Rows::kAccess, Source::kKind)) {
      add(plan::GpuSplit::groups, kShape, &launch_groups<kShape>);
    }
  }
  template <size_t... kIndex>
  void add_rows(std::index_sequence<kIndex...>) {
    (add_rows_shape<plan::kRowsShapes[kIndex]>(), ...);
  }
  template <plan::RowsShape kShape>
  void add_rows_shape() {
    if constexpr (plan::serves(kShape, Source::Rows::kAccess, Source::kKind)) {
      add(plan::GpuSplit::rows, {1, kShape.chunks}, &launch_rows<kShape.chunks>);
    }
  }
  template <size_t... kIndex>
  void add_blocks(std::index_sequence<kIndex...>) {
    (add(plan::GpuSplit::blocks, {1, plan::kBlocksShapes[kIndex]},
         &launch_blocks<plan::kBlocksShapes[kIndex]>),
     ...);
  }

  template <plan::GroupsShape kShape>
  static cudaError_t launch_groups(const QuantizeCall& call, const Launch& how) {
    using Index = typename Source::Index;
    if constexpr (Scales::kScales != plan::GpuScales::general) {
      if (call.units == plan::GpuUnits::below) {
        return launch_units<kShape, plan::UnitsBelow<Index>>(call, how);
      }
    }
    return launch_units<kShape, plan::UnitsBeside<Index>>(call, how);
  }
  template <plan::GroupsShape kShape, class Walk>
  static cudaError_t launch_units(const QuantizeCall& call, const Launch& how) {
    return launch_kernel(&quantize_groups<Source, Scales, Codec, Walk, kShape.lanes, kShape.chunks>,
                         how, QuantizeArguments<Source, Scales, Walk>(call));
  }
  template <int kChunks>
  static cudaError_t launch_rows(const QuantizeCall& call, const Launch& how) {
    return launch_kernel(&quantize_rows<Source, Scales, Codec, kChunks>, how,
                         QuantizeArguments<Source, Scales>(call));
  }
  template <int kChunks>
  static cudaError_t launch_blocks(const QuantizeCall& call, const Launch& how) {
    return launch_kernel(&quantize_blocks<Source, Scales, Codec, kChunks>, how,
                         TileArguments<Source, Scales>(call));
  }
  static cudaError_t launch_given(const QuantizeCall& call, const Launch& how) {
    return launch_kernel(&quantize_given<Source, Scales, Codec>, how,
                         ElementwiseArguments<Source, Scales>(call));
  }
  // Both passes; the first fills the machine once.
  static cudaError_t launch_tensor(const QuantizeCall& call, const Launch& how) {
    const ElementwiseArguments<Source, Scales> arguments(call);
    const Partials partials{call.partials, call.partial_count};
    Launch second = how;
    if (call.partial_count > 0) {
      second.dependent = how.inner;
      Launch first = how;
      first.blocks = call.partial_count;
      const cudaError_t error =
          launch_kernel(&absmax_tensor<Source, Scales>, first, arguments, partials);
      if (error != cudaSuccess) return error;
    }
    return launch_kernel(&quantize_tensor<Source, Scales, Codec>, second, arguments, partials);
  }

  DType input_;
  std::vector<Kernel>* kernels_;
};

// Of one format: whole chunks and single elements.
template <template <class> class SourceOf, class F>
void append_kernels(DType input, std::vector<Kernel>* kernels) {
  using Vectors = SourceOf<VectorRows>;
  using Elements = SourceOf<ElementRows>;
  if constexpr (plan::has_short_ways(Vectors::kKind, Vectors::kInputBytes, Codec<F>::kFormat) &&
                silu_form<Vectors>() == plan::SiluForm::rounded) {
    Instances<Vectors, FloatScales<F>, Codec<F>>::append(input, kernels);
    Instances<Vectors, PowerScales<F>, Codec<F>>::append(input, kernels);
  }
  Instances<Vectors, GeneralScales, Codec<F>>::append(input, kernels);
  Instances<Elements, GeneralScales, Codec<F>>::append(input, kernels);
}

// Columns in runs: the short ways of plain tensors, to E4M3.
template <template <class> class SourceOf>
void append_run_kernels(DType input, std::vector<Kernel>* kernels) {
  using Runs = SourceOf<RunRows>;
  using F = numerics::E4m3;
  static_assert(plan::has_runs(Runs::kKind, Runs::kInputBytes, Codec<F>::kFormat));
  Instances<Runs, FloatScales<F>, Codec<F>>::append(input, kernels);
  Instances<Runs, PowerScales<F>, Codec<F>>::append(input, kernels);
}

template <template <class> class SourceOf>
std::vector<Kernel> make_kernels(DType input) {
  std::vector<Kernel> kernels;
  append_kernels<SourceOf, numerics::E4m3>(input, &kernels);
  append_kernels<SourceOf, numerics::E5m2>(input, &kernels);
  return kernels;
}

}  // namespace rowscale::cuda
