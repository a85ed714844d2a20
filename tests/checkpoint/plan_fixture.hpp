// A model folder whose tensors all lie in one file, and the plan of its conversion.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/failure.hpp"
#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"
#include "tests/support/model_folder.hpp"

namespace rowscale::test {

using checkpoint::Failure;
using checkpoint::FailureKind;
using checkpoint::Model;
using checkpoint::Plan;
using checkpoint::PlanRequest;
using checkpoint::Scheme;

class Plans : public testing::Test {
 protected:
  const Plan& plan_of(const std::vector<StoredTensor>& tensors, Scheme scheme,
                      const std::vector<std::string>& ignore = {},
                      const std::string& config = R"({"model_type":"llama"})") {
    write_bytes(folder_ / "config.json", config);
    write_bytes(folder_ / "model.safetensors", safetensors(tensors));
    model_ = std::make_unique<Model>(Model::open(folder_.path()));
    PlanRequest request;
    request.scheme = scheme;
    request.ignore = ignore;
    plan_ = make_plan(model_.get(), request);
    return plan_;
  }

  void expect_refused(const std::vector<StoredTensor>& tensors, FailureKind kind,
                      const std::string& part, const std::vector<std::string>& ignore = {},
                      const std::string& config = "{}") {
    SCOPED_TRACE(part);
    try {
      plan_of(tensors, Scheme::fp8_dynamic, ignore, config);
      ADD_FAILURE() << "was planned";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), kind);
      EXPECT_NE(std::string(failure.what()).find(part), std::string::npos) << failure.what();
    }
  }

  static std::vector<StoredTensor> attention(const std::string& at) {
    return {bf16_tensor(at + ".q_proj.weight", {128, 128}, 1),
            bf16_tensor(at + ".k_proj.weight", {128, 128}, 2),
            bf16_tensor(at + ".v_proj.weight", {128, 128}, 3),
            bf16_tensor(at + ".o_proj.weight", {128, 128}, 4)};
  }

  TempFolder folder_;
  std::unique_ptr<Model> model_;
  Plan plan_;
};

}  // namespace rowscale::test
