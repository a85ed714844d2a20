// The products of rowscale.h over the C++ functions.
#include "api/c_convert.hpp"
#include "api/c_run.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/rowscale.h"

struct rs_matmul_plan {
  rowscale::MatmulPlan plan;
};

namespace {

using namespace rowscale;  // NOLINT(google-build-using-namespace): this file is one long wrapper
using api::invalid;
using api::read;
using api::read_optional;
using api::run;

// A product's arguments, as one of the two functions or a plan gets them.
struct Arguments {
  MatmulTensors tensors;
  MatmulOptions options;
  Exec exec;
};

Status read_operands(const rs_tensor* a, const rs_tensor* b, const rs_tensor* scale_a,
                     const rs_tensor* scale_b, const rs_tensor* out, MatmulTensors* t) {
  ROWSCALE_RETURN_IF_ERROR(read("a", a, &t->a));
  ROWSCALE_RETURN_IF_ERROR(read("b", b, &t->b));
  ROWSCALE_RETURN_IF_ERROR(read("scale_a", scale_a, &t->scale_a));
  ROWSCALE_RETURN_IF_ERROR(read("scale_b", scale_b, &t->scale_b));
  return read("out", out, &t->out);
}

Status missing(const char* name) {
  return invalid(std::string(name) + ": expected a place for the result, got NULL");
}

Status check_plan(const char* name, const rs_matmul_plan* plan) {
  if (plan != nullptr) return {};
  return invalid(std::string(name) + ": expected one of rs_matmul_plan_make, got NULL");
}

}  // namespace

extern "C" {

rs_status rs_matmul(const rs_tensor* a, const rs_tensor* b, const rs_tensor* scale_a,
                    const rs_tensor* scale_b, const rs_tensor* bias, const rs_tensor* out,
                    const rs_matmul_options* options, const rs_exec* exec) {
  return run([&]() -> Status {
    Arguments call;
    MatmulTensors& t = call.tensors;
    ROWSCALE_RETURN_IF_ERROR(read_operands(a, b, scale_a, scale_b, out, &t));
    ROWSCALE_RETURN_IF_ERROR(read_optional("bias", bias, &t.bias));
    ROWSCALE_RETURN_IF_ERROR(read(options, &call.options));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &call.exec));
    return matmul(t.a, t.b, t.scale_a, t.scale_b, t.bias, t.out, call.options, call.exec);
  });
}

rs_status rs_grouped_matmul(const rs_tensor* a, const rs_tensor* b, const rs_tensor* scale_a,
                            const rs_tensor* scale_b, const rs_tensor* expert_offsets,
                            const rs_tensor* out, const rs_matmul_options* options,
                            const rs_exec* exec) {
  return run([&]() -> Status {
    Arguments call;
    MatmulTensors& t = call.tensors;
    ROWSCALE_RETURN_IF_ERROR(read_operands(a, b, scale_a, scale_b, out, &t));
    ROWSCALE_RETURN_IF_ERROR(read_optional("expert_offsets", expert_offsets, &t.expert_offsets));
    ROWSCALE_RETURN_IF_ERROR(read(options, &call.options));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &call.exec));
    return grouped_matmul(t.a, t.b, t.scale_a, t.scale_b, t.expert_offsets, t.out, call.options,
                          call.exec);
  });
}

rs_status rs_matmul_supported(const rs_matmul_tensors* tensors, const rs_matmul_options* options) {
  return run([&]() -> Status {
    Arguments call;
    ROWSCALE_RETURN_IF_ERROR(read(tensors, &call.tensors));
    ROWSCALE_RETURN_IF_ERROR(read(options, &call.options));
    return matmul_supported(call.tensors, call.options);
  });
}

rs_status rs_matmul_workspace_bytes(const rs_matmul_tensors* tensors,
                                    const rs_matmul_options* options, size_t* bytes) {
  return run([&]() -> Status {
    Arguments call;
    ROWSCALE_RETURN_IF_ERROR(read(tensors, &call.tensors));
    ROWSCALE_RETURN_IF_ERROR(read(options, &call.options));
    if (bytes == nullptr) return missing("bytes");
    ROWSCALE_RETURN_IF_ERROR(matmul_supported(call.tensors, call.options));
    *bytes = matmul_workspace_bytes(call.tensors, call.options);
    return {};
  });
}

rs_status rs_matmul_plan_make(const rs_matmul_tensors* tensors, const rs_matmul_options* options,
                              rs_matmul_plan** plan) {
  return run([&]() -> Status {
    if (plan == nullptr) return missing("plan");
    *plan = nullptr;
    Arguments call;
    rs_matmul_plan made;
    ROWSCALE_RETURN_IF_ERROR(read(tensors, &call.tensors));
    ROWSCALE_RETURN_IF_ERROR(read(options, &call.options));
    ROWSCALE_RETURN_IF_ERROR(MatmulPlan::make(call.tensors, call.options, &made.plan));
    *plan = new rs_matmul_plan(made);
    return {};
  });
}

void rs_matmul_plan_free(rs_matmul_plan* plan) {
  delete plan;
}

rs_status rs_matmul_plan_run(const rs_matmul_plan* plan, const rs_matmul_tensors* tensors,
                             const rs_exec* exec) {
  return run([&]() -> Status {
    Arguments call;
    ROWSCALE_RETURN_IF_ERROR(check_plan("plan", plan));
    ROWSCALE_RETURN_IF_ERROR(read(tensors, &call.tensors));
    ROWSCALE_RETURN_IF_ERROR(read(exec, &call.exec));
    return plan->plan.run(call.tensors, call.exec);
  });
}

rs_status rs_matmul_plan_workspace_bytes(const rs_matmul_plan* plan, size_t* bytes) {
  return run([&]() -> Status {
    ROWSCALE_RETURN_IF_ERROR(check_plan("plan", plan));
    if (bytes == nullptr) return missing("bytes");
    *bytes = plan->plan.workspace_bytes();
    return {};
  });
}

rs_status rs_matmul_plan_backend(const rs_matmul_plan* plan, int32_t* backend) {
  return run([&]() -> Status {
    ROWSCALE_RETURN_IF_ERROR(check_plan("plan", plan));
    if (backend == nullptr) return missing("backend");
    *backend = static_cast<int32_t>(plan->plan.backend());
    return {};
  });
}

rs_status rs_matmul_plan_equal(const rs_matmul_plan* a, const rs_matmul_plan* b, int32_t* equal) {
  return run([&]() -> Status {
    ROWSCALE_RETURN_IF_ERROR(check_plan("a", a));
    ROWSCALE_RETURN_IF_ERROR(check_plan("b", b));
    if (equal == nullptr) return missing("equal");
    *equal = a->plan == b->plan ? 1 : 0;
    return {};
  });
}

rs_status rs_matmul_plan_to_string(const rs_matmul_plan* plan, char* text, size_t capacity,
                                   size_t* needed) {
  return run([&]() -> Status {
    ROWSCALE_RETURN_IF_ERROR(check_plan("plan", plan));
    return api::write_text(to_string(plan->plan), text, capacity, needed);
  });
}

}  // extern "C"
