/* The C interface of rowscale. Everything said of tensors, recipes, streams, ownership and errors
 * in the C++ headers (tensor.hpp, recipe.hpp, exec.hpp, quantize.hpp, producers.hpp, mla.hpp,
 * matmul.hpp, linear.hpp) holds here too; the functions have the same names behind rs_.
 *
 * Structs carry their own size, so that a newer library can read an older program's: start each
 * with its _INIT macro, outputs too. Fields are only ever added at the end. Enumerators keep their
 * values.
 *
 * Every function may be called from any thread. Functions return RS_OK or a code, with a message
 * for the calling thread in rs_last_error(). */
#ifndef ROWSCALE_ROWSCALE_H_
#define ROWSCALE_ROWSCALE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RS_API __attribute__((visibility("default")))
#else
#define RS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rs_status {
  RS_OK = 0,
  RS_INVALID_ARGUMENT = 1, /* refused before any work; the message names the parameter */
  RS_UNSUPPORTED = 2,      /* a valid request for which this build has no kernel */
  RS_NO_DEVICE = 3,
  RS_DEVICE_ERROR = 4,
  RS_INTERNAL = 70 /* a fault of rowscale's own, or no memory */
} rs_status;

typedef enum rs_dtype {
  RS_F32 = 0,
  RS_F16 = 1,
  RS_BF16 = 2,
  RS_E4M3 = 3,
  RS_E5M2 = 4,
  RS_UE8M0 = 5,
  RS_I32 = 6
} rs_dtype;

typedef enum rs_device_type { RS_CPU = 0, RS_CUDA = 1 } rs_device_type;
typedef enum rs_format { RS_FORMAT_E4M3 = 0, RS_FORMAT_E5M2 = 1 } rs_format;
typedef enum rs_granularity {
  RS_PER_TENSOR = 0,
  RS_PER_TOKEN = 1,
  RS_PER_CHANNEL = 2,
  RS_PER_COLUMN = 3,
  RS_PER_GROUP = 4,
  RS_PER_BLOCK = 5
} rs_granularity;
typedef enum rs_scale_source { RS_DYNAMIC = 0, RS_GIVEN = 1 } rs_scale_source;
typedef enum rs_scale_encoding {
  RS_SCALE_F32 = 0,
  RS_SCALE_UE8M0_F32 = 1,
  RS_SCALE_UE8M0 = 2,
  RS_SCALE_UE8M0_PACKED = 3
} rs_scale_encoding;
typedef enum rs_scale_layout {
  RS_ROW_MAJOR = 0,
  RS_COLUMN_MAJOR = 1,
  RS_COLUMN_MAJOR_TMA = 2,
  RS_BLOCK_K4 = 3
} rs_scale_layout;
typedef enum rs_floor_kind {
  RS_FLOOR_STANDARD = 0,
  RS_FLOOR_NONE = 1,
  RS_FLOOR_AMAX = 2,
  RS_FLOOR_SCALE = 3,
  RS_FLOOR_IF_ZERO = 4
} rs_floor_kind;
typedef enum rs_bound_kind {
  RS_BOUND_NONE = 0,
  RS_BOUND_AMAX = 1,
  RS_BOUND_SCALE = 2
} rs_bound_kind;
typedef enum rs_quotient {
  RS_QUOTIENT_STANDARD = 0,
  RS_QUOTIENT_DIVIDE = 1,
  RS_QUOTIENT_RECIPROCAL = 2
} rs_quotient;
typedef enum rs_nan_rule {
  RS_NAN_STANDARD = 0,
  RS_NAN_PROPAGATE = 1,
  RS_NAN_CLAMP_HIGH = 2,
  RS_NAN_CLAMP_LOW = 3
} rs_nan_rule;
typedef enum rs_profile { RS_PROFILE_ROWSCALE = 0, RS_PROFILE_VLLM = 1 } rs_profile;
typedef enum rs_target {
  RS_TARGET_BEST = 0,
  RS_TARGET_SCALAR = 1,
  RS_TARGET_AVX2 = 2,
  RS_TARGET_AVX512 = 3
} rs_target;
typedef enum rs_dependent_launch {
  RS_DEPENDENT_LAUNCH_OFF = 0,
  RS_DEPENDENT_LAUNCH_ON = 1
} rs_dependent_launch;
typedef enum rs_norm_form { RS_NORM_STANDARD = 0, RS_NORM_GEMMA = 1 } rs_norm_form;
typedef enum rs_matmul_backend {
  RS_MATMUL_BEST = 0,
  RS_MATMUL_CPU = 1,
  RS_MATMUL_CUBLASLT = 2,
  RS_MATMUL_SPLIT = 3,
  RS_MATMUL_SMALL_M = 4,
  RS_MATMUL_GENERAL = 5,
  RS_MATMUL_DEQUANTIZE = 6
} rs_matmul_backend;
typedef enum rs_accumulation {
  RS_ACCUMULATION_PRECISE = 0,
  RS_ACCUMULATION_FAST = 1
} rs_accumulation;
typedef enum rs_tuning { RS_TUNING_OFF = 0, RS_TUNING_MEASURED = 1 } rs_tuning;
typedef enum rs_batch_invariance {
  RS_BATCH_INVARIANCE_OFF = 0,
  RS_BATCH_INVARIANCE_ON = 1
} rs_batch_invariance;

#define RS_MAX_RANK 8

/* A view of the caller's memory; sizes and strides in elements. The last column_rank dimensions are
 * the columns of a row. row_counts: see tensor.hpp, or NULL. */
typedef struct rs_tensor {
  size_t struct_size;
  void* data;
  int32_t dtype;        /* rs_dtype */
  int32_t device_type;  /* rs_device_type */
  int32_t device_index; /* 0 on the CPU */
  int32_t rank;
  int32_t column_rank; /* 0 counts as 1 */
  int64_t shape[RS_MAX_RANK];
  int64_t strides[RS_MAX_RANK];
  const int32_t* row_counts;
} rs_tensor;
#define RS_TENSOR_INIT \
  { sizeof(rs_tensor), NULL, 0, 0, 0, 0, 0, {0}, {0}, NULL }

typedef struct rs_recipe {
  size_t struct_size;
  int32_t granularity; /* rs_granularity */
  int32_t format;      /* rs_format */
  int64_t group_size;
  int64_t block_rows;
  int64_t block_columns;
  int32_t scale_source; /* rs_scale_source */
  int32_t encoding;     /* rs_scale_encoding */
  int32_t layout;       /* rs_scale_layout */
  int32_t floor_kind;   /* rs_floor_kind */
  float floor_value;
  int32_t bound_kind; /* rs_bound_kind */
  float bound_value;
  int32_t quotient; /* rs_quotient */
  int32_t nan_rule; /* rs_nan_rule */
  int32_t profile;  /* rs_profile */
} rs_recipe;
#define RS_RECIPE_INIT \
  { sizeof(rs_recipe), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0f, 0, 0.0f, 0, 0, 0 }

/* NULL stands for the defaults: one thread, the best target. */
typedef struct rs_exec {
  size_t struct_size;
  void* stream; /* a cudaStream_t for CUDA tensors */
  void* workspace;
  size_t workspace_bytes;
  int32_t threads;          /* CPU threads; 0: as many as the process may run on */
  int32_t target;           /* rs_target */
  int32_t dependent_launch; /* rs_dependent_launch */
} rs_exec;
#define RS_EXEC_INIT \
  { sizeof(rs_exec), NULL, NULL, 0, 1, 0, 0 }

/* storage: elements an operator may touch; allocation: elements to allocate. */
typedef struct rs_scale_spec {
  size_t struct_size;
  int32_t dtype; /* rs_dtype */
  int32_t rank;
  int64_t shape[RS_MAX_RANK];
  int64_t strides[RS_MAX_RANK];
  int64_t storage;
  int64_t allocation;
} rs_scale_spec;
#define RS_SCALE_SPEC_INIT \
  { sizeof(rs_scale_spec), 0, 0, {0}, {0}, 0, 0 }

/* weight: [hidden]. residual: NULL, or the shape of x, updated in place. */
typedef struct rs_rms_norm_args {
  size_t struct_size;
  const rs_tensor* weight;
  const rs_tensor* residual;
  float eps;
  int32_t form; /* rs_norm_form */
} rs_rms_norm_args;
#define RS_RMS_NORM_ARGS_INIT \
  { sizeof(rs_rms_norm_args), NULL, NULL, 1e-6f, 0 }

typedef struct rs_swiglu_args {
  size_t struct_size;
  float alpha;
  float limit;
} rs_swiglu_args;
#define RS_SWIGLU_ARGS_INIT \
  { sizeof(rs_swiglu_args), 1.702f, 7.0f }

/* weights: [q_rank] and [kv_rank]. */
typedef struct rs_mla_norm_args {
  size_t struct_size;
  const rs_tensor* q_weight;
  const rs_tensor* kv_weight;
  float q_eps;
  float kv_eps;
} rs_mla_norm_args;
#define RS_MLA_NORM_ARGS_INIT \
  { sizeof(rs_mla_norm_args), NULL, NULL, 1e-6f, 1e-6f }

/* All but q_codes and q_scales may be NULL, as mla.hpp says. */
typedef struct rs_mla_outputs {
  size_t struct_size;
  const rs_tensor* q_codes;
  const rs_tensor* q_scales;
  const rs_tensor* q_row;
  const rs_tensor* kv;
  const rs_tensor* kv_codes;
  const rs_tensor* kv_scales;
  const rs_tensor* rope;
} rs_mla_outputs;
#define RS_MLA_OUTPUTS_INIT \
  { sizeof(rs_mla_outputs), NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/* a and b: NULL for per_token and per_channel. NULL for the whole stands for the defaults. */
typedef struct rs_matmul_options {
  size_t struct_size;
  const rs_recipe* a;
  const rs_recipe* b;
  int32_t backend;          /* rs_matmul_backend */
  int32_t accumulation;     /* rs_accumulation */
  int32_t tuning;           /* rs_tuning */
  int32_t batch_invariance; /* rs_batch_invariance */
} rs_matmul_options;
#define RS_MATMUL_OPTIONS_INIT \
  { sizeof(rs_matmul_options), NULL, NULL, 0, 0, 0, 0 }

/* bias and expert_offsets may be NULL, as matmul.hpp says. */
typedef struct rs_matmul_tensors {
  size_t struct_size;
  const rs_tensor* a;
  const rs_tensor* b;
  const rs_tensor* scale_a;
  const rs_tensor* scale_b;
  const rs_tensor* bias;
  const rs_tensor* out;
  const rs_tensor* expert_offsets;
} rs_matmul_tensors;
#define RS_MATMUL_TENSORS_INIT \
  { sizeof(rs_matmul_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/* Of rs_matmul_plan_make, to rs_matmul_plan_free. Calls on one plan may run at once. */
typedef struct rs_matmul_plan rs_matmul_plan;

/* codes, scales: linear.hpp's WeightShard. recipe: NULL for per_channel. */
typedef struct rs_weight_shard {
  size_t struct_size;
  const rs_tensor* codes;
  const rs_tensor* scales;
  const rs_recipe* recipe;
} rs_weight_shard;
#define RS_WEIGHT_SHARD_INIT \
  { sizeof(rs_weight_shard), NULL, NULL, NULL }

/* input: NULL for per_token. input_scale: NULL, or one f32. matmul: NULL for the defaults; its a
 * and b are not read. */
typedef struct rs_linear_options {
  size_t struct_size;
  const rs_recipe* input;
  const rs_tensor* input_scale;
  const rs_matmul_options* matmul;
} rs_linear_options;
#define RS_LINEAR_OPTIONS_INIT \
  { sizeof(rs_linear_options), NULL, NULL, NULL }

/* Of rs_linear_make, to rs_linear_free. Calls on one layer may run at once. */
typedef struct rs_linear rs_linear;

/* Version, commit, compilers and architectures, as --version prints them. Static storage. */
RS_API const char* rs_version(void);
/* What the last failed call of this thread said; "" before the first. Valid until this thread's
 * next call. */
RS_API const char* rs_last_error(void);
RS_API const char* rs_status_name(rs_status status);
/* Bytes of an element; 0 for no dtype. */
RS_API int64_t rs_element_size(int32_t dtype);
/* Writes up to `capacity` rs_target values, fastest first, and their number to *count. */
RS_API rs_status rs_supported_targets(int32_t* targets, int32_t capacity, int32_t* count);

/* Contiguous, on the CPU; other fields may be changed afterwards. */
RS_API rs_status rs_tensor_contiguous(rs_tensor* tensor, const void* data, int32_t dtype,
                                      int32_t rank, const int64_t* shape);
/* The same memory with these dimensions as rows and as columns. `out` may be `tensor`. */
RS_API rs_status rs_tensor_as_rows(const rs_tensor* tensor, const int32_t* rows, int32_t num_rows,
                                   const int32_t* columns, int32_t num_columns, rs_tensor* out);

RS_API rs_status rs_recipe_per_tensor(rs_recipe* recipe);
RS_API rs_status rs_recipe_per_token(rs_recipe* recipe);
RS_API rs_status rs_recipe_per_channel(rs_recipe* recipe);
RS_API rs_status rs_recipe_per_column(rs_recipe* recipe);
RS_API rs_status rs_recipe_per_group(rs_recipe* recipe, int64_t size);
RS_API rs_status rs_recipe_per_block(rs_recipe* recipe, int64_t rows, int64_t columns);
RS_API rs_status rs_recipe_check(const rs_recipe* recipe);
/* `out` may be `recipe`. */
RS_API rs_status rs_recipe_resolve(const rs_recipe* recipe, rs_recipe* out);
RS_API rs_status rs_recipe_parse(const char* text, rs_recipe* recipe);
/* Writes at most `capacity` bytes, the last a zero, cutting a longer text; *needed (or NULL) is the
 * size of the whole. */
RS_API rs_status rs_recipe_to_string(const rs_recipe* recipe, char* text, size_t capacity,
                                     size_t* needed);

RS_API rs_status rs_get_scale_spec(const rs_tensor* codes, const rs_recipe* recipe,
                                   rs_scale_spec* spec);
/* A view of `data` on the CPU, which holds at least spec->storage elements. */
RS_API rs_status rs_scale_spec_view(const rs_scale_spec* spec, const void* data, rs_tensor* view);

RS_API rs_status rs_quantize(const rs_tensor* x, const rs_recipe* recipe, const rs_tensor* codes,
                             const rs_tensor* scales, const rs_exec* exec);
RS_API rs_status rs_dequantize(const rs_tensor* codes, const rs_tensor* scales,
                               const rs_recipe* recipe, const rs_tensor* y, const rs_exec* exec);
RS_API rs_status rs_requantize(const rs_tensor* codes_in, const rs_tensor* scales_in,
                               const rs_recipe* recipe_in, const rs_tensor* codes_out,
                               const rs_tensor* scales_out, const rs_recipe* recipe_out,
                               const rs_exec* exec);
RS_API rs_status rs_relayout_scales(const rs_tensor* codes, const rs_tensor* scales_in,
                                    const rs_recipe* recipe_in, const rs_tensor* scales_out,
                                    const rs_recipe* recipe_out, const rs_exec* exec);
/* *bytes of workspace that rs_quantize with these arguments needs; 0 on the CPU. */
RS_API rs_status rs_quantize_workspace_bytes(const rs_tensor* x, const rs_recipe* recipe,
                                             size_t* bytes);
/* The same of rs_requantize. */
RS_API rs_status rs_requantize_workspace_bytes(const rs_tensor* codes_in,
                                               const rs_recipe* recipe_out, size_t* bytes);

/* row_out: NULL, or where the unquantized row goes. args of swiglu: NULL for the defaults. */
RS_API rs_status rs_rms_norm(const rs_tensor* x, const rs_rms_norm_args* args, const rs_tensor* y,
                             const rs_exec* exec);
RS_API rs_status rs_rms_norm_quantize(const rs_tensor* x, const rs_rms_norm_args* args,
                                      const rs_recipe* recipe, const rs_tensor* codes,
                                      const rs_tensor* scales, const rs_tensor* row_out,
                                      const rs_exec* exec);
RS_API rs_status rs_silu_mul(const rs_tensor* x, const rs_tensor* y, const rs_exec* exec);
RS_API rs_status rs_silu_mul_quantize(const rs_tensor* x, const rs_recipe* recipe,
                                      const rs_tensor* codes, const rs_tensor* scales,
                                      const rs_tensor* row_out, const rs_exec* exec);
RS_API rs_status rs_gelu_tanh_mul(const rs_tensor* x, const rs_tensor* y, const rs_exec* exec);
RS_API rs_status rs_gelu_tanh_mul_quantize(const rs_tensor* x, const rs_recipe* recipe,
                                           const rs_tensor* codes, const rs_tensor* scales,
                                           const rs_tensor* row_out, const rs_exec* exec);
RS_API rs_status rs_relu2(const rs_tensor* x, const rs_tensor* y, const rs_exec* exec);
RS_API rs_status rs_relu2_quantize(const rs_tensor* x, const rs_recipe* recipe,
                                   const rs_tensor* codes, const rs_tensor* scales,
                                   const rs_tensor* row_out, const rs_exec* exec);
RS_API rs_status rs_swiglu_clamped(const rs_tensor* x, const rs_swiglu_args* args,
                                   const rs_tensor* y, const rs_exec* exec);
RS_API rs_status rs_swiglu_clamped_quantize(const rs_tensor* x, const rs_swiglu_args* args,
                                            const rs_recipe* recipe, const rs_tensor* codes,
                                            const rs_tensor* scales, const rs_tensor* row_out,
                                            const rs_exec* exec);

/* kv_recipe: NULL where outputs has no kv_codes. */
RS_API rs_status rs_mla_norm_quantize(const rs_tensor* x, const rs_mla_norm_args* args,
                                      const rs_recipe* q_recipe, const rs_recipe* kv_recipe,
                                      const rs_mla_outputs* outputs, const rs_exec* exec);

/* bias: NULL for none. */
RS_API rs_status rs_matmul(const rs_tensor* a, const rs_tensor* b, const rs_tensor* scale_a,
                           const rs_tensor* scale_b, const rs_tensor* bias, const rs_tensor* out,
                           const rs_matmul_options* options, const rs_exec* exec);
/* expert_offsets: NULL for masked rows. */
RS_API rs_status rs_grouped_matmul(const rs_tensor* a, const rs_tensor* b, const rs_tensor* scale_a,
                                   const rs_tensor* scale_b, const rs_tensor* expert_offsets,
                                   const rs_tensor* out, const rs_matmul_options* options,
                                   const rs_exec* exec);
/* RS_OK where one of these two would serve the call. */
RS_API rs_status rs_matmul_supported(const rs_matmul_tensors* tensors,
                                     const rs_matmul_options* options);
/* *bytes of exec->workspace that the call needs. */
RS_API rs_status rs_matmul_workspace_bytes(const rs_matmul_tensors* tensors,
                                           const rs_matmul_options* options, size_t* bytes);

/* *plan is NULL where it fails. */
RS_API rs_status rs_matmul_plan_make(const rs_matmul_tensors* tensors,
                                     const rs_matmul_options* options, rs_matmul_plan** plan);
/* NULL does nothing. */
RS_API void rs_matmul_plan_free(rs_matmul_plan* plan);
RS_API rs_status rs_matmul_plan_run(const rs_matmul_plan* plan, const rs_matmul_tensors* tensors,
                                    const rs_exec* exec);
RS_API rs_status rs_matmul_plan_workspace_bytes(const rs_matmul_plan* plan, size_t* bytes);
/* An rs_matmul_backend. */
RS_API rs_status rs_matmul_plan_backend(const rs_matmul_plan* plan, int32_t* backend);
/* 1 for the same problem, options, backend and algorithm, else 0. */
RS_API rs_status rs_matmul_plan_equal(const rs_matmul_plan* a, const rs_matmul_plan* b,
                                      int32_t* equal);
/* As rs_recipe_to_string. */
RS_API rs_status rs_matmul_plan_to_string(const rs_matmul_plan* plan, char* text, size_t capacity,
                                          size_t* needed);

/* What rs_linear_make wants for codes and scales. */
RS_API rs_status rs_packed_weight_bytes(const rs_weight_shard* const* shards, int32_t count,
                                        size_t* codes_bytes, size_t* scales_bytes);
/* Packs the shards into codes and scales, which stay the caller's and are read by every call, in
 * exec->stream on a GPU. *linear is NULL where it fails. */
RS_API rs_status rs_linear_make(const rs_weight_shard* const* shards, int32_t count, void* codes,
                                void* scales, const rs_linear_options* options, const rs_exec* exec,
                                rs_linear** linear);
/* NULL does nothing. */
RS_API void rs_linear_free(rs_linear* linear);
/* *workspace_bytes of exec->workspace for calls with such an out and bias (or NULL). */
RS_API rs_status rs_linear_prepare(const rs_linear* linear, const rs_tensor* out,
                                   const rs_tensor* bias, size_t* workspace_bytes);
/* bias: NULL for none. */
RS_API rs_status rs_linear_run(const rs_linear* linear, const rs_tensor* x, const rs_tensor* bias,
                               const rs_tensor* out, const rs_exec* exec);
RS_API rs_status rs_linear_run_rms_norm(const rs_linear* linear, const rs_tensor* x,
                                        const rs_rms_norm_args* args, const rs_tensor* bias,
                                        const rs_tensor* out, const rs_exec* exec);
RS_API rs_status rs_linear_run_silu_mul(const rs_linear* linear, const rs_tensor* x,
                                        const rs_tensor* bias, const rs_tensor* out,
                                        const rs_exec* exec);
RS_API rs_status rs_linear_run_gelu_tanh_mul(const rs_linear* linear, const rs_tensor* x,
                                             const rs_tensor* bias, const rs_tensor* out,
                                             const rs_exec* exec);
RS_API rs_status rs_linear_run_relu2(const rs_linear* linear, const rs_tensor* x,
                                     const rs_tensor* bias, const rs_tensor* out,
                                     const rs_exec* exec);
RS_API rs_status rs_linear_run_swiglu_clamped(const rs_linear* linear, const rs_tensor* x,
                                              const rs_swiglu_args* args, const rs_tensor* bias,
                                              const rs_tensor* out, const rs_exec* exec);
/* As rs_recipe_to_string: how calls with such an out and bias run. */
RS_API rs_status rs_linear_describe(const rs_linear* linear, const rs_tensor* out,
                                    const rs_tensor* bias, char* text, size_t capacity,
                                    size_t* needed);

#ifdef __cplusplus
}
#endif

#endif /* ROWSCALE_ROWSCALE_H_ */
