#include "api/c_convert.hpp"

#include <algorithm>
#include <cstddef>

namespace rowscale::api {
namespace {

// Sizes in version 0.1, on the 64-bit machines that are served. They never change; a new field
// begins at or behind them, never in the padding at the end of an old struct.
constexpr size_t kTensorSize = 176;
constexpr size_t kRecipeSize = 80;
constexpr size_t kExecSize = 48;
constexpr size_t kScaleSpecSize = 160;
constexpr size_t kRmsNormSize = 32;
constexpr size_t kSwigluSize = 16;
constexpr size_t kMlaNormSize = 32;
constexpr size_t kMlaOutputsSize = 64;
constexpr size_t kMatmulOptionsSize = 40;
constexpr size_t kMatmulTensorsSize = 64;
// The ABI: where the fields of version 0.1 lie.
static_assert(offsetof(rs_tensor, data) == 8 && offsetof(rs_tensor, dtype) == 16 &&
              offsetof(rs_tensor, rank) == 28 && offsetof(rs_tensor, column_rank) == 32 &&
              offsetof(rs_tensor, shape) == 40 && offsetof(rs_tensor, strides) == 104 &&
              offsetof(rs_tensor, row_counts) == 168);
static_assert(offsetof(rs_recipe, granularity) == 8 && offsetof(rs_recipe, group_size) == 16 &&
              offsetof(rs_recipe, scale_source) == 40 && offsetof(rs_recipe, floor_value) == 56 &&
              offsetof(rs_recipe, quotient) == 68 && offsetof(rs_recipe, profile) == 76);
static_assert(offsetof(rs_exec, stream) == 8 && offsetof(rs_exec, threads) == 32 &&
              offsetof(rs_exec, dependent_launch) == 40);
static_assert(offsetof(rs_scale_spec, shape) == 16 && offsetof(rs_scale_spec, storage) == 144);
static_assert(offsetof(rs_rms_norm_args, eps) == 24 && offsetof(rs_swiglu_args, limit) == 12);
static_assert(offsetof(rs_mla_norm_args, kv_weight) == 16 &&
              offsetof(rs_mla_norm_args, q_eps) == 24 && offsetof(rs_mla_outputs, q_codes) == 8 &&
              offsetof(rs_mla_outputs, rope) == 56);
static_assert(offsetof(rs_matmul_options, b) == 16 && offsetof(rs_matmul_options, backend) == 24 &&
              offsetof(rs_matmul_options, batch_invariance) == 36 &&
              offsetof(rs_matmul_tensors, out) == 48 &&
              offsetof(rs_matmul_tensors, expert_offsets) == 56);
static_assert(sizeof(rs_tensor) >= kTensorSize && sizeof(rs_recipe) >= kRecipeSize &&
              sizeof(rs_exec) >= kExecSize && sizeof(rs_scale_spec) >= kScaleSpecSize &&
              sizeof(rs_rms_norm_args) >= kRmsNormSize && sizeof(rs_swiglu_args) >= kSwigluSize &&
              sizeof(rs_mla_norm_args) >= kMlaNormSize &&
              sizeof(rs_mla_outputs) >= kMlaOutputsSize &&
              sizeof(rs_matmul_options) >= kMatmulOptionsSize &&
              sizeof(rs_matmul_tensors) >= kMatmulTensorsSize);

}  // namespace

Status read(const char* name, const rs_tensor* theirs, TensorView* view) {
  rs_tensor t = RS_TENSOR_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct(name, theirs, kTensorSize, &t));
  if (t.dtype < RS_F32 || t.dtype > RS_I32) {
    return invalid(std::string(name) + ".dtype: expected an rs_dtype, got " +
                   std::to_string(t.dtype));
  }
  if (t.device_type != RS_CPU && t.device_type != RS_CUDA) {
    return invalid(std::string(name) + ".device_type: expected an rs_device_type, got " +
                   std::to_string(t.device_type));
  }
  if (t.rank < 0 || t.rank > RS_MAX_RANK) {
    return invalid(std::string(name) + ".rank: expected 0 to 8, got " + std::to_string(t.rank));
  }
  view->data = t.data;
  view->dtype = static_cast<DType>(t.dtype);
  view->device = {static_cast<DeviceType>(t.device_type), t.device_index};
  view->rank = t.rank;
  view->column_rank = t.column_rank == 0 ? 1 : t.column_rank;
  std::copy(t.shape, t.shape + RS_MAX_RANK, view->shape);
  std::copy(t.strides, t.strides + RS_MAX_RANK, view->strides);
  view->row_counts = t.row_counts;
  return {};
}

Status read_optional(const char* name, const rs_tensor* theirs, TensorView* view) {
  if (theirs == nullptr) return {};
  return read(name, theirs, view);
}

Status read(const char* name, const rs_recipe* theirs, Recipe* recipe) {
  rs_recipe r = RS_RECIPE_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct(name, theirs, kRecipeSize, &r));
  recipe->granularity = static_cast<Granularity>(r.granularity);
  recipe->format = static_cast<Format>(r.format);
  recipe->group_size = r.group_size;
  recipe->block_rows = r.block_rows;
  recipe->block_columns = r.block_columns;
  recipe->scale_source = static_cast<ScaleSource>(r.scale_source);
  recipe->encoding = static_cast<ScaleEncoding>(r.encoding);
  recipe->layout = static_cast<ScaleLayout>(r.layout);
  recipe->floor = {static_cast<FloorKind>(r.floor_kind), r.floor_value};
  recipe->bound = {static_cast<BoundKind>(r.bound_kind), r.bound_value};
  recipe->quotient = static_cast<Quotient>(r.quotient);
  recipe->nan = static_cast<NanRule>(r.nan_rule);
  recipe->profile = static_cast<Profile>(r.profile);
  return {};
}

Status read(const rs_exec* theirs, Exec* exec) {
  if (theirs == nullptr) return {};
  rs_exec e = RS_EXEC_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("exec", theirs, kExecSize, &e));
  if (e.target < RS_TARGET_BEST || e.target > RS_TARGET_AVX512) {
    return invalid("exec.target: expected an rs_target, got " + std::to_string(e.target));
  }
  if (e.dependent_launch != RS_DEPENDENT_LAUNCH_OFF &&
      e.dependent_launch != RS_DEPENDENT_LAUNCH_ON) {
    return invalid("exec.dependent_launch: expected an rs_dependent_launch, got " +
                   std::to_string(e.dependent_launch));
  }
  exec->stream = e.stream;
  exec->workspace = {e.workspace, e.workspace_bytes};
  exec->threads = e.threads;
  exec->target = static_cast<Target>(e.target);
  exec->dependent_launch = static_cast<DependentLaunch>(e.dependent_launch);
  return {};
}

Status read(const rs_rms_norm_args* theirs, RmsNorm* norm) {
  rs_rms_norm_args a = RS_RMS_NORM_ARGS_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("args", theirs, kRmsNormSize, &a));
  ROWSCALE_RETURN_IF_ERROR(read("args.weight", a.weight, &norm->weight));
  ROWSCALE_RETURN_IF_ERROR(read_optional("args.residual", a.residual, &norm->residual));
  norm->eps = a.eps;
  norm->form = static_cast<NormForm>(a.form);
  return {};
}

Status read(const rs_swiglu_args* theirs, SwigluClamped* params) {
  if (theirs == nullptr) return {};
  rs_swiglu_args a = RS_SWIGLU_ARGS_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("args", theirs, kSwigluSize, &a));
  *params = {a.alpha, a.limit};
  return {};
}

Status read(const rs_mla_norm_args* theirs, MlaNorm* norm) {
  rs_mla_norm_args a = RS_MLA_NORM_ARGS_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("args", theirs, kMlaNormSize, &a));
  ROWSCALE_RETURN_IF_ERROR(read("args.q_weight", a.q_weight, &norm->q_weight));
  ROWSCALE_RETURN_IF_ERROR(read("args.kv_weight", a.kv_weight, &norm->kv_weight));
  norm->q_eps = a.q_eps;
  norm->kv_eps = a.kv_eps;
  return {};
}

Status read(const rs_mla_outputs* theirs, MlaOutputs* outputs) {
  rs_mla_outputs o = RS_MLA_OUTPUTS_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("outputs", theirs, kMlaOutputsSize, &o));
  ROWSCALE_RETURN_IF_ERROR(read("outputs.q_codes", o.q_codes, &outputs->q_codes));
  ROWSCALE_RETURN_IF_ERROR(read("outputs.q_scales", o.q_scales, &outputs->q_scales));
  ROWSCALE_RETURN_IF_ERROR(read_optional("outputs.q_row", o.q_row, &outputs->q_row));
  ROWSCALE_RETURN_IF_ERROR(read_optional("outputs.kv", o.kv, &outputs->kv));
  ROWSCALE_RETURN_IF_ERROR(read_optional("outputs.kv_codes", o.kv_codes, &outputs->kv_codes));
  ROWSCALE_RETURN_IF_ERROR(read_optional("outputs.kv_scales", o.kv_scales, &outputs->kv_scales));
  return read_optional("outputs.rope", o.rope, &outputs->rope);
}

Status read(const rs_scale_spec* theirs, ScaleSpec* spec) {
  rs_scale_spec s = RS_SCALE_SPEC_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("spec", theirs, kScaleSpecSize, &s));
  if (s.rank < 0 || s.rank > RS_MAX_RANK) {
    return invalid("spec.rank: expected 0 to 8, got " + std::to_string(s.rank));
  }
  if (s.dtype != RS_F32 && s.dtype != RS_UE8M0 && s.dtype != RS_I32) {
    return invalid("spec.dtype: expected RS_F32, RS_UE8M0 or RS_I32, got " +
                   std::to_string(s.dtype));
  }
  spec->dtype = static_cast<DType>(s.dtype);
  spec->rank = s.rank;
  std::copy(s.shape, s.shape + RS_MAX_RANK, spec->shape);
  std::copy(s.strides, s.strides + RS_MAX_RANK, spec->strides);
  spec->storage = s.storage;
  spec->allocation = s.allocation;
  return {};
}

// The choices are checked with the rest of a product.
Status read(const rs_matmul_options* theirs, MatmulOptions* options) {
  if (theirs == nullptr) return {};
  rs_matmul_options o = RS_MATMUL_OPTIONS_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("options", theirs, kMatmulOptionsSize, &o));
  if (o.a != nullptr) ROWSCALE_RETURN_IF_ERROR(read("options.a", o.a, &options->a));
  if (o.b != nullptr) ROWSCALE_RETURN_IF_ERROR(read("options.b", o.b, &options->b));
  options->backend = static_cast<MatmulBackend>(o.backend);
  options->accumulation = static_cast<Accumulation>(o.accumulation);
  options->tuning = static_cast<Tuning>(o.tuning);
  options->batch_invariance = static_cast<BatchInvariance>(o.batch_invariance);
  return {};
}

Status read(const rs_matmul_tensors* theirs, MatmulTensors* tensors) {
  rs_matmul_tensors t = RS_MATMUL_TENSORS_INIT;
  ROWSCALE_RETURN_IF_ERROR(read_struct("tensors", theirs, kMatmulTensorsSize, &t));
  ROWSCALE_RETURN_IF_ERROR(read("tensors.a", t.a, &tensors->a));
  ROWSCALE_RETURN_IF_ERROR(read("tensors.b", t.b, &tensors->b));
  ROWSCALE_RETURN_IF_ERROR(read("tensors.scale_a", t.scale_a, &tensors->scale_a));
  ROWSCALE_RETURN_IF_ERROR(read("tensors.scale_b", t.scale_b, &tensors->scale_b));
  ROWSCALE_RETURN_IF_ERROR(read_optional("tensors.bias", t.bias, &tensors->bias));
  ROWSCALE_RETURN_IF_ERROR(read("tensors.out", t.out, &tensors->out));
  return read_optional("tensors.expert_offsets", t.expert_offsets, &tensors->expert_offsets);
}

Status write(const char* name, const TensorView& view, rs_tensor* theirs) {
  if (view.rank < 0) {
    return invalid(std::string(name) + ": expected every dimension named exactly once");
  }
  rs_tensor t = RS_TENSOR_INIT;
  t.data = view.data;
  t.dtype = static_cast<int32_t>(view.dtype);
  t.device_type = static_cast<int32_t>(view.device.type);
  t.device_index = view.device.index;
  t.rank = view.rank;
  t.column_rank = view.column_rank;
  std::copy(view.shape, view.shape + kMaxRank, t.shape);
  std::copy(view.strides, view.strides + kMaxRank, t.strides);
  t.row_counts = view.row_counts;
  return write_struct(name, t, kTensorSize, theirs);
}

Status write(const Recipe& recipe, rs_recipe* theirs) {
  rs_recipe r = RS_RECIPE_INIT;
  r.granularity = static_cast<int32_t>(recipe.granularity);
  r.format = static_cast<int32_t>(recipe.format);
  r.group_size = recipe.group_size;
  r.block_rows = recipe.block_rows;
  r.block_columns = recipe.block_columns;
  r.scale_source = static_cast<int32_t>(recipe.scale_source);
  r.encoding = static_cast<int32_t>(recipe.encoding);
  r.layout = static_cast<int32_t>(recipe.layout);
  r.floor_kind = static_cast<int32_t>(recipe.floor.kind);
  r.floor_value = recipe.floor.value;
  r.bound_kind = static_cast<int32_t>(recipe.bound.kind);
  r.bound_value = recipe.bound.value;
  r.quotient = static_cast<int32_t>(recipe.quotient);
  r.nan_rule = static_cast<int32_t>(recipe.nan);
  r.profile = static_cast<int32_t>(recipe.profile);
  return write_struct("recipe", r, kRecipeSize, theirs);
}

Status write(const ScaleSpec& spec, rs_scale_spec* theirs) {
  rs_scale_spec s = RS_SCALE_SPEC_INIT;
  s.dtype = static_cast<int32_t>(spec.dtype);
  s.rank = spec.rank;
  std::copy(spec.shape, spec.shape + kMaxRank, s.shape);
  std::copy(spec.strides, spec.strides + kMaxRank, s.strides);
  s.storage = spec.storage;
  s.allocation = spec.allocation;
  return write_struct("spec", s, kScaleSpecSize, theirs);
}

}  // namespace rowscale::api
