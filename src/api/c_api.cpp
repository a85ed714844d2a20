// rowscale.h over the C++ functions: structs in, calls, codes and a message out. No C++ type and no
// exception crosses.
#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "api/c_convert.hpp"
#include "api/c_run.hpp"
#include "rowscale/rowscale.h"
#include "rowscale/version.hpp"

namespace {

using namespace rowscale;  // NOLINT(google-build-using-namespace): this file is one long wrapper
using api::invalid;
using api::read;
using api::read_optional;
using api::run;
using api::write_text;

rs_status write_recipe(const Recipe& recipe, rs_recipe* out) {
  return run([&]() -> Status {
    ROWSCALE_RETURN_IF_ERROR(check(recipe));
    return api::write(recipe, out);
  });
}

// A fused operator's arguments beside its own.
struct FusedArguments {
  TensorView x, codes, scales, row_out;
  Recipe recipe;
  Exec exec;
};

Status read_fused(const rs_tensor* x, const rs_recipe* recipe, const rs_tensor* codes,
                  const rs_tensor* scales, const rs_tensor* row_out, const rs_exec* exec,
                  FusedArguments* out) {
  ROWSCALE_RETURN_IF_ERROR(read("x", x, &out->x));
  ROWSCALE_RETURN_IF_ERROR(read("recipe", recipe, &out->recipe));
  ROWSCALE_RETURN_IF_ERROR(read("codes", codes, &out->codes));
  ROWSCALE_RETURN_IF_ERROR(read("scales", scales, &out->scales));
  ROWSCALE_RETURN_IF_ERROR(read_optional("row_out", row_out, &out->row_out));
  return read(exec, &out->exec);
}

using FusedFunction = Status (*)(const TensorView&, const Recipe&, const TensorView&,
                                 const TensorView&, const TensorView&, const Exec&);

rs_status run_fused(FusedFunction function, const rs_tensor* x, const rs_recipe* recipe,
                    const rs_tensor* codes, const rs_tensor* scales, const rs_tensor* row_out,
                    const rs_exec* exec) {
  return run([&]() -> Status {
    FusedArguments a;
    ROWSCALE_RETURN_IF_ERROR(read_fused(x, recipe, codes, scales, row_out, exec, &a));
    return function(a.x, a.recipe, a.codes, a.scales, a.row_out, a.exec);
  });
}

template <class Struct>
struct NamedStruct {
  const char* name;
  const Struct* value;
};

rs_status write_workspace_bytes(size_t (*function)(const TensorView&, const Recipe&),
                                NamedStruct<rs_tensor> tensor, NamedStruct<rs_recipe> recipe,
                                size_t* bytes) {
  return run([&]() -> Status {
    TensorView view;
    Recipe r;
    ROWSCALE_RETURN_IF_ERROR(read(tensor.name, tensor.value, &view));
    ROWSCALE_RETURN_IF_ERROR(read(recipe.name, recipe.value, &r));
    if (bytes == nullptr) return invalid("bytes: expected a place for the result, got NULL");
    *bytes = function(view, r);
    return {};
  });
}

using SeparateFunction = Status (*)(const TensorView&, const TensorView&, const Exec&);

rs_status run_separate(SeparateFunction function, const rs_tensor* x, const rs_tensor* y,
                       const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView x_view, y_view;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("x", x, &x_view));
    ROWSCALE_RETURN_IF_ERROR(read("y", y, &y_view));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return function(x_view, y_view, options);
  });
}

}  // namespace

extern "C" {

const char* rs_version(void) {
  return version();
}

const char* rs_last_error(void) {
  return api::last_message();
}

const char* rs_status_name(rs_status status) {
  return to_string(static_cast<StatusCode>(status));
}

int64_t rs_element_size(int32_t dtype) {
  return dtype < RS_F32 || dtype > RS_I32 ? 0 : element_size(static_cast<DType>(dtype));
}

rs_status rs_supported_targets(int32_t* targets, int32_t capacity, int32_t* count) {
  return run([&]() -> Status {
    if (count == nullptr || (targets == nullptr && capacity > 0)) {
      return invalid("targets, count: expected places for the result, got NULL");
    }
    *count = 0;
    for (Target target : supported_targets()) {
      if (*count < capacity) targets[*count] = static_cast<int32_t>(target);
      ++*count;
    }
    return {};
  });
}

rs_status rs_tensor_contiguous(rs_tensor* tensor, const void* data, int32_t dtype, int32_t rank,
                               const int64_t* shape) {
  return run([&]() -> Status {
    if (rank < 0 || rank > RS_MAX_RANK || (shape == nullptr && rank > 0)) {
      return invalid("rank: expected 0 to 8 and a shape, got " + std::to_string(rank));
    }
    if (rs_element_size(dtype) == 0) {
      return invalid("dtype: expected an rs_dtype, got " + std::to_string(dtype));
    }
    const TensorView view = TensorView::contiguous(data, static_cast<DType>(dtype),
                                                   std::span(shape, static_cast<size_t>(rank)));
    return api::write("tensor", view, tensor);
  });
}

rs_status rs_tensor_as_rows(const rs_tensor* tensor, const int32_t* rows, int32_t num_rows,
                            const int32_t* columns, int32_t num_columns, rs_tensor* out) {
  return run([&]() -> Status {
    TensorView view;
    ROWSCALE_RETURN_IF_ERROR(read("tensor", tensor, &view));
    if (num_rows < 0 || num_columns < 0 || (rows == nullptr && num_rows > 0) ||
        (columns == nullptr && num_columns > 0)) {
      return invalid("rows, columns: expected dimensions, got NULL or a negative number of them");
    }
    const TensorView result = view.as_rows(std::span(rows, static_cast<size_t>(num_rows)),
                                           std::span(columns, static_cast<size_t>(num_columns)));
    return api::write("out", result, out);
  });
}

rs_status rs_recipe_per_tensor(rs_recipe* recipe) {
  return write_recipe(per_tensor(), recipe);
}
rs_status rs_recipe_per_token(rs_recipe* recipe) {
  return write_recipe(per_token(), recipe);
}
rs_status rs_recipe_per_channel(rs_recipe* recipe) {
  return write_recipe(per_channel(), recipe);
}
rs_status rs_recipe_per_column(rs_recipe* recipe) {
  return write_recipe(per_column(), recipe);
}
rs_status rs_recipe_per_group(rs_recipe* recipe, int64_t size) {
  return write_recipe(per_group(size), recipe);
}
rs_status rs_recipe_per_block(rs_recipe* recipe, int64_t rows, int64_t columns) {
  return write_recipe(per_block(rows, columns), recipe);
}

rs_status rs_recipe_check(const rs_recipe* recipe) {
  return run([&]() -> Status {
    Recipe r;
    ROWSCALE_RETURN_IF_ERROR(read("recipe", recipe, &r));
    return check(r);
  });
}

rs_status rs_recipe_resolve(const rs_recipe* recipe, rs_recipe* out) {
  return run([&]() -> Status {
    Recipe r;
    ROWSCALE_RETURN_IF_ERROR(read("recipe", recipe, &r));
    ROWSCALE_RETURN_IF_ERROR(check(r));
    return api::write(resolve(r), out);
  });
}

rs_status rs_recipe_parse(const char* text, rs_recipe* recipe) {
  return run([&]() -> Status {
    if (text == nullptr) return invalid("text: expected a string, got NULL");
    Recipe r;
    ROWSCALE_RETURN_IF_ERROR(parse_recipe(text, &r));
    return api::write(r, recipe);
  });
}

rs_status rs_recipe_to_string(const rs_recipe* recipe, char* text, size_t capacity,
                              size_t* needed) {
  return run([&]() -> Status {
    Recipe r;
    ROWSCALE_RETURN_IF_ERROR(read("recipe", recipe, &r));
    ROWSCALE_RETURN_IF_ERROR(check(r));
    return write_text(to_string(r), text, capacity, needed);
  });
}

rs_status rs_get_scale_spec(const rs_tensor* codes, const rs_recipe* recipe, rs_scale_spec* out) {
  return run([&]() -> Status {
    TensorView view;
    Recipe r;
    ScaleSpec spec;
    ROWSCALE_RETURN_IF_ERROR(read("codes", codes, &view));
    ROWSCALE_RETURN_IF_ERROR(read("recipe", recipe, &r));
    ROWSCALE_RETURN_IF_ERROR(scale_spec(view, r, &spec));
    return api::write(spec, out);
  });
}

rs_status rs_scale_spec_view(const rs_scale_spec* spec, const void* data, rs_tensor* view) {
  return run([&]() -> Status {
    ScaleSpec s;
    ROWSCALE_RETURN_IF_ERROR(read(spec, &s));
    return api::write("view", s.view(data), view);
  });
}

rs_status rs_quantize(const rs_tensor* x, const rs_recipe* recipe, const rs_tensor* codes,
                      const rs_tensor* scales, const rs_exec* exec) {
  return run([&]() -> Status {
    FusedArguments a;
    ROWSCALE_RETURN_IF_ERROR(read_fused(x, recipe, codes, scales, nullptr, exec, &a));
    return quantize(a.x, a.recipe, a.codes, a.scales, a.exec);
  });
}

rs_status rs_dequantize(const rs_tensor* codes, const rs_tensor* scales, const rs_recipe* recipe,
                        const rs_tensor* y, const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView codes_view, scales_view, y_view;
    Recipe r;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("codes", codes, &codes_view));
    ROWSCALE_RETURN_IF_ERROR(read("scales", scales, &scales_view));
    ROWSCALE_RETURN_IF_ERROR(read("recipe", recipe, &r));
    ROWSCALE_RETURN_IF_ERROR(read("y", y, &y_view));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return dequantize(codes_view, scales_view, r, y_view, options);
  });
}

rs_status rs_requantize(const rs_tensor* codes_in, const rs_tensor* scales_in,
                        const rs_recipe* recipe_in, const rs_tensor* codes_out,
                        const rs_tensor* scales_out, const rs_recipe* recipe_out,
                        const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView codes_a, scales_a, codes_b, scales_b;
    Recipe a, b;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("codes_in", codes_in, &codes_a));
    ROWSCALE_RETURN_IF_ERROR(read("scales_in", scales_in, &scales_a));
    ROWSCALE_RETURN_IF_ERROR(read("recipe_in", recipe_in, &a));
    ROWSCALE_RETURN_IF_ERROR(read("codes_out", codes_out, &codes_b));
    ROWSCALE_RETURN_IF_ERROR(read("scales_out", scales_out, &scales_b));
    ROWSCALE_RETURN_IF_ERROR(read("recipe_out", recipe_out, &b));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return requantize(codes_a, scales_a, a, codes_b, scales_b, b, options);
  });
}

rs_status rs_relayout_scales(const rs_tensor* codes, const rs_tensor* scales_in,
                             const rs_recipe* recipe_in, const rs_tensor* scales_out,
                             const rs_recipe* recipe_out, const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView codes_view, from, to;
    Recipe a, b;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("codes", codes, &codes_view));
    ROWSCALE_RETURN_IF_ERROR(read("scales_in", scales_in, &from));
    ROWSCALE_RETURN_IF_ERROR(read("recipe_in", recipe_in, &a));
    ROWSCALE_RETURN_IF_ERROR(read("scales_out", scales_out, &to));
    ROWSCALE_RETURN_IF_ERROR(read("recipe_out", recipe_out, &b));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return relayout_scales(codes_view, from, a, to, b, options);
  });
}

rs_status rs_quantize_workspace_bytes(const rs_tensor* x, const rs_recipe* recipe, size_t* bytes) {
  return write_workspace_bytes(quantize_workspace_bytes, {"x", x}, {"recipe", recipe}, bytes);
}

rs_status rs_requantize_workspace_bytes(const rs_tensor* codes_in, const rs_recipe* recipe_out,
                                        size_t* bytes) {
  return write_workspace_bytes(requantize_workspace_bytes, {"codes_in", codes_in},
                               {"recipe_out", recipe_out}, bytes);
}

rs_status rs_rms_norm(const rs_tensor* x, const rs_rms_norm_args* args, const rs_tensor* y,
                      const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView x_view, y_view;
    RmsNorm norm;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("x", x, &x_view));
    ROWSCALE_RETURN_IF_ERROR(read(args, &norm));
    ROWSCALE_RETURN_IF_ERROR(read("y", y, &y_view));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return rms_norm(x_view, norm, y_view, options);
  });
}

rs_status rs_rms_norm_quantize(const rs_tensor* x, const rs_rms_norm_args* args,
                               const rs_recipe* recipe, const rs_tensor* codes,
                               const rs_tensor* scales, const rs_tensor* row_out,
                               const rs_exec* exec) {
  return run([&]() -> Status {
    FusedArguments a;
    RmsNorm norm;
    ROWSCALE_RETURN_IF_ERROR(read_fused(x, recipe, codes, scales, row_out, exec, &a));
    ROWSCALE_RETURN_IF_ERROR(read(args, &norm));
    return rms_norm_quantize(a.x, norm, a.recipe, a.codes, a.scales, a.row_out, a.exec);
  });
}

rs_status rs_silu_mul(const rs_tensor* x, const rs_tensor* y, const rs_exec* exec) {
  return run_separate(silu_mul, x, y, exec);
}

rs_status rs_silu_mul_quantize(const rs_tensor* x, const rs_recipe* recipe, const rs_tensor* codes,
                               const rs_tensor* scales, const rs_tensor* row_out,
                               const rs_exec* exec) {
  return run_fused(silu_mul_quantize, x, recipe, codes, scales, row_out, exec);
}

rs_status rs_gelu_tanh_mul(const rs_tensor* x, const rs_tensor* y, const rs_exec* exec) {
  return run_separate(gelu_tanh_mul, x, y, exec);
}

rs_status rs_gelu_tanh_mul_quantize(const rs_tensor* x, const rs_recipe* recipe,
                                    const rs_tensor* codes, const rs_tensor* scales,
                                    const rs_tensor* row_out, const rs_exec* exec) {
  return run_fused(gelu_tanh_mul_quantize, x, recipe, codes, scales, row_out, exec);
}

rs_status rs_relu2(const rs_tensor* x, const rs_tensor* y, const rs_exec* exec) {
  return run_separate(relu2, x, y, exec);
}

rs_status rs_relu2_quantize(const rs_tensor* x, const rs_recipe* recipe, const rs_tensor* codes,
                            const rs_tensor* scales, const rs_tensor* row_out,
                            const rs_exec* exec) {
  return run_fused(relu2_quantize, x, recipe, codes, scales, row_out, exec);
}

rs_status rs_swiglu_clamped(const rs_tensor* x, const rs_swiglu_args* args, const rs_tensor* y,
                            const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView x_view, y_view;
    SwigluClamped params;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("x", x, &x_view));
    ROWSCALE_RETURN_IF_ERROR(read(args, &params));
    ROWSCALE_RETURN_IF_ERROR(read("y", y, &y_view));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return swiglu_clamped(x_view, params, y_view, options);
  });
}

rs_status rs_swiglu_clamped_quantize(const rs_tensor* x, const rs_swiglu_args* args,
                                     const rs_recipe* recipe, const rs_tensor* codes,
                                     const rs_tensor* scales, const rs_tensor* row_out,
                                     const rs_exec* exec) {
  return run([&]() -> Status {
    FusedArguments a;
    SwigluClamped params;
    ROWSCALE_RETURN_IF_ERROR(read_fused(x, recipe, codes, scales, row_out, exec, &a));
    ROWSCALE_RETURN_IF_ERROR(read(args, &params));
    return swiglu_clamped_quantize(a.x, params, a.recipe, a.codes, a.scales, a.row_out, a.exec);
  });
}

rs_status rs_mla_norm_quantize(const rs_tensor* x, const rs_mla_norm_args* args,
                               const rs_recipe* q_recipe, const rs_recipe* kv_recipe,
                               const rs_mla_outputs* outputs, const rs_exec* exec) {
  return run([&]() -> Status {
    TensorView x_view;
    MlaNorm norm;
    Recipe q, kv;
    MlaOutputs parts;
    Exec options;
    ROWSCALE_RETURN_IF_ERROR(read("x", x, &x_view));
    ROWSCALE_RETURN_IF_ERROR(read(args, &norm));
    ROWSCALE_RETURN_IF_ERROR(read("q_recipe", q_recipe, &q));
    ROWSCALE_RETURN_IF_ERROR(read(outputs, &parts));
    if (kv_recipe != nullptr || outputs->kv_codes != nullptr) {
      ROWSCALE_RETURN_IF_ERROR(read("kv_recipe", kv_recipe, &kv));
    }
    ROWSCALE_RETURN_IF_ERROR(read(exec, &options));
    return mla_norm_quantize(x_view, norm, q, kv, parts, options);
  });
}

}  // extern "C"
