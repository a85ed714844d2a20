// The linear layers of rowscale.h over the C++ class.
#include <vector>

#include "api/c_convert.hpp"
#include "api/c_run.hpp"
#include "rowscale/linear.hpp"
#include "rowscale/rowscale.h"

struct rs_linear {
  rowscale::LinearFp8 layer;
};

namespace {

using namespace rowscale;  // NOLINT(google-build-using-namespace): this file is one long wrapper
using api::invalid;
using api::read;
using api::read_optional;
using api::run;

// The structs of version 0.1.
constexpr size_t kShardSize = 32;
constexpr size_t kOptionsSize = 32;
static_assert(sizeof(rs_weight_shard) >= kShardSize);
static_assert(sizeof(rs_linear_options) >= kOptionsSize);

Status read_shards(const rs_weight_shard* const* shards, int32_t count,
                   std::vector<WeightShard>* out) {
  if (shards == nullptr || count < 1) {
    return invalid("shards: expected at least one, got " +
                   (shards == nullptr ? std::string("NULL") : std::to_string(count)));
  }
  out->resize(static_cast<size_t>(count));
  for (size_t i = 0; i < out->size(); ++i) {
    const std::string name = "shards[" + std::to_string(i) + "]";
    rs_weight_shard theirs = RS_WEIGHT_SHARD_INIT;
    WeightShard& shard = (*out)[i];
    ROWSCALE_RETURN_IF_ERROR(api::read_struct(name.c_str(), shards[i], kShardSize, &theirs));
    ROWSCALE_RETURN_IF_ERROR(read((name + ".codes").c_str(), theirs.codes, &shard.codes));
    ROWSCALE_RETURN_IF_ERROR(read((name + ".scales").c_str(), theirs.scales, &shard.scales));
    if (theirs.recipe != nullptr) {
      ROWSCALE_RETURN_IF_ERROR(read((name + ".recipe").c_str(), theirs.recipe, &shard.recipe));
    }
  }
  return {};
}

Status read_options(const rs_linear_options* theirs, LinearOptions* options) {
  if (theirs == nullptr) return {};
  rs_linear_options o = RS_LINEAR_OPTIONS_INIT;
  ROWSCALE_RETURN_IF_ERROR(api::read_struct("options", theirs, kOptionsSize, &o));
  if (o.input != nullptr) ROWSCALE_RETURN_IF_ERROR(read("options.input", o.input, &options->input));
  ROWSCALE_RETURN_IF_ERROR(
      read_optional("options.input_scale", o.input_scale, &options->input_scale));
  return read(o.matmul, &options->matmul);
}

// What every run of a layer gets.
struct Arguments {
  TensorView x;
  TensorView bias;
  TensorView out;
  Exec exec;

  Status read_all(const rs_linear* linear, const rs_tensor* their_x, const rs_tensor* their_bias,
                  const rs_tensor* their_out, const rs_exec* their_exec) {
    if (linear == nullptr) return invalid("linear: expected one of rs_linear_make, got NULL");
    ROWSCALE_RETURN_IF_ERROR(read("x", their_x, &x));
    ROWSCALE_RETURN_IF_ERROR(read_optional("bias", their_bias, &bias));
    ROWSCALE_RETURN_IF_ERROR(read("out", their_out, &out));
    return read(their_exec, &exec);
  }
};

// The layer's member function on arguments without a front's own.
template <class Member>
rs_status run_plain(Member member, const rs_linear* linear, const rs_tensor* x,
                    const rs_tensor* bias, const rs_tensor* out, const rs_exec* exec) {
  return run([&]() -> Status {
    Arguments call;
    ROWSCALE_RETURN_IF_ERROR(call.read_all(linear, x, bias, out, exec));
    return (linear->layer.*member)(call.x, call.bias, call.out, call.exec);
  });
}

}  // namespace

extern "C" {

rs_status rs_packed_weight_bytes(const rs_weight_shard* const* shards, int32_t count,
                                 size_t* codes_bytes, size_t* scales_bytes) {
  return run([&]() -> Status {
    std::vector<WeightShard> read;
    PackedWeightSpec spec;
    ROWSCALE_RETURN_IF_ERROR(read_shards(shards, count, &read));
    if (codes_bytes == nullptr || scales_bytes == nullptr) {
      return invalid("codes_bytes, scales_bytes: expected places for the results, got NULL");
    }
    ROWSCALE_RETURN_IF_ERROR(packed_weight_spec(read, &spec));
    *codes_bytes = spec.codes_bytes;
    *scales_bytes = spec.scales_bytes;
    return {};
  });
}

rs_status rs_linear_make(const rs_weight_shard* const* shards, int32_t count, void* codes,
                         void* scales, const rs_linear_options* options, const rs_exec* exec,
                         rs_linear** linear) {
  return run([&]() -> Status {
    if (linear == nullptr) return invalid("linear: expected a place for the result, got NULL");
    *linear = nullptr;
    std::vector<WeightShard> read_in;
    LinearOptions read_out;
    Exec how;
    PackedWeight weight;
    rs_linear made;
    ROWSCALE_RETURN_IF_ERROR(read_shards(shards, count, &read_in));
    ROWSCALE_RETURN_IF_ERROR(read_options(options, &read_out));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &how));
    ROWSCALE_RETURN_IF_ERROR(packed_weight_spec(read_in, &weight.spec));
    weight.codes = codes;
    weight.scales = scales;
    weight.device = read_in[0].codes.device;
    ROWSCALE_RETURN_IF_ERROR(LinearFp8::make(weight, read_out, &made.layer));
    ROWSCALE_RETURN_IF_ERROR(pack_weight(read_in, weight, how));
    *linear = new rs_linear(made);
    return {};
  });
}

void rs_linear_free(rs_linear* linear) {
  delete linear;
}

rs_status rs_linear_prepare(const rs_linear* linear, const rs_tensor* out, const rs_tensor* bias,
                            size_t* workspace_bytes) {
  return run([&]() -> Status {
    Arguments call;
    ROWSCALE_RETURN_IF_ERROR(call.read_all(linear, out, bias, out, nullptr));
    return linear->layer.prepare(call.out, call.bias, workspace_bytes);
  });
}

rs_status rs_linear_run(const rs_linear* linear, const rs_tensor* x, const rs_tensor* bias,
                        const rs_tensor* out, const rs_exec* exec) {
  return run_plain(&LinearFp8::run, linear, x, bias, out, exec);
}

rs_status rs_linear_run_rms_norm(const rs_linear* linear, const rs_tensor* x,
                                 const rs_rms_norm_args* args, const rs_tensor* bias,
                                 const rs_tensor* out, const rs_exec* exec) {
  return run([&]() -> Status {
    Arguments call;
    RmsNorm norm;
    ROWSCALE_RETURN_IF_ERROR(call.read_all(linear, x, bias, out, exec));
    ROWSCALE_RETURN_IF_ERROR(read(args, &norm));
    return linear->layer.run_rms_norm(call.x, norm, call.bias, call.out, call.exec);
  });
}

rs_status rs_linear_run_silu_mul(const rs_linear* linear, const rs_tensor* x, const rs_tensor* bias,
                                 const rs_tensor* out, const rs_exec* exec) {
  return run_plain(&LinearFp8::run_silu_mul, linear, x, bias, out, exec);
}

rs_status rs_linear_run_gelu_tanh_mul(const rs_linear* linear, const rs_tensor* x,
                                      const rs_tensor* bias, const rs_tensor* out,
                                      const rs_exec* exec) {
  return run_plain(&LinearFp8::run_gelu_tanh_mul, linear, x, bias, out, exec);
}

rs_status rs_linear_run_relu2(const rs_linear* linear, const rs_tensor* x, const rs_tensor* bias,
                              const rs_tensor* out, const rs_exec* exec) {
  return run_plain(&LinearFp8::run_relu2, linear, x, bias, out, exec);
}

rs_status rs_linear_run_swiglu_clamped(const rs_linear* linear, const rs_tensor* x,
                                       const rs_swiglu_args* args, const rs_tensor* bias,
                                       const rs_tensor* out, const rs_exec* exec) {
  return run([&]() -> Status {
    Arguments call;
    SwigluClamped params;
    ROWSCALE_RETURN_IF_ERROR(call.read_all(linear, x, bias, out, exec));
    ROWSCALE_RETURN_IF_ERROR(read(args, &params));
    return linear->layer.run_swiglu_clamped(call.x, params, call.bias, call.out, call.exec);
  });
}

rs_status rs_linear_describe(const rs_linear* linear, const rs_tensor* out, const rs_tensor* bias,
                             char* text, size_t capacity, size_t* needed) {
  return run([&]() -> Status {
    Arguments call;
    ROWSCALE_RETURN_IF_ERROR(call.read_all(linear, out, bias, out, nullptr));
    return api::write_text(linear->layer.describe(call.out, call.bias), text, capacity, needed);
  });
}

}  // extern "C"
