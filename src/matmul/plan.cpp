#include "matmul/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "api/check.hpp"
#include "matmul/table.hpp"
#include "matmul/tune.hpp"

namespace rowscale {

using api::invalid;
using api::Named;
using product::Problem;

namespace {

constexpr size_t kWorkspaceAlignment = 256;

std::string refusals(const std::vector<MatmulVerdict>& verdicts) {
  std::string text;
  for (const MatmulVerdict& verdict : verdicts) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", to_string(verdict.backend),
                        verdict.refusal);
  }
  return text;
}

// The same but for alignments, which may be better than those the plan was made for.
Status check_fits(const Problem& planned, const Problem& now) {
  struct Aligned {
    const char* name;
    int64_t planned, now;
  };
  const Aligned all[] = {{"a", planned.a.alignment, now.a.alignment},
                         {"b", planned.b.alignment, now.b.alignment},
                         {"out", planned.out.alignment, now.out.alignment},
                         {"scale_a", planned.scale_a_alignment, now.scale_a_alignment},
                         {"scale_b", planned.scale_b_alignment, now.scale_b_alignment},
                         {"bias", planned.bias_alignment, now.bias_alignment}};
  for (const Aligned& tensor : all) {
    if (tensor.now >= tensor.planned) continue;
    return invalid(
        fmt::format("{}: expected rows aligned to {} bytes, as the plan was made for, "
                    "got rows aligned to {}",
                    tensor.name, tensor.planned, tensor.now));
  }
  Problem same = now;
  same.a.alignment = planned.a.alignment;
  same.b.alignment = planned.b.alignment;
  same.out.alignment = planned.out.alignment;
  same.scale_a_alignment = planned.scale_a_alignment;
  same.scale_b_alignment = planned.scale_b_alignment;
  same.bias_alignment = planned.bias_alignment;
  if (same == planned) return {};
  return invalid(fmt::format("tensors: expected those the plan was made for, {}, got {}",
                             to_string(planned), to_string(now)));
}

bool is_empty(const TensorView& view) {
  return std::any_of(view.shape, view.shape + view.rank, [](int64_t size) { return size == 0; });
}

Status check_present(const MatmulTensors& t) {
  const Named all[] = {{"a", t.a},
                       {"b", t.b},
                       {"scale_a", t.scale_a},
                       {"scale_b", t.scale_b},
                       {"bias", t.bias},
                       {"out", t.out},
                       {"expert_offsets", t.expert_offsets}};
  for (const Named& tensor : all) {
    if (tensor.view.data != nullptr || api::is_absent(tensor.view) || is_empty(tensor.view)) {
      continue;
    }
    return invalid(fmt::format("{}: expected data, got a null pointer for {}", tensor.name,
                               to_string(tensor.view)));
  }
  // A scalar view without memory looks like an absent one.
  for (const Named& scale : {all[2], all[3]}) {
    if (api::is_absent(scale.view)) {
      return invalid(fmt::format("{}: expected data, got a null pointer", scale.name));
    }
  }
  return {};
}

Status check_workspace(const Workspace& workspace, size_t bytes) {
  if (bytes == 0) return {};
  if (workspace.data == nullptr || workspace.bytes < bytes) {
    return invalid(fmt::format("exec.workspace: expected at least {} bytes, got {}", bytes,
                               workspace.data == nullptr ? 0 : workspace.bytes));
  }
  if (reinterpret_cast<uintptr_t>(workspace.data) % kWorkspaceAlignment != 0) {
    return invalid(
        fmt::format("exec.workspace: expected an address that is a multiple of {}, got {}",
                    kWorkspaceAlignment, workspace.data));
  }
  return {};
}

}  // namespace

Status MatmulPlan::Data::make(const Problem& problem, const MatmulOptions& options,
                              std::shared_ptr<const Data>* data) {
  std::vector<product::Candidate> order;
  ROWSCALE_RETURN_IF_ERROR(product::backends_for(problem, options, &order));
  auto made = std::make_shared<Data>();
  made->problem = problem;
  made->options = options;
  // Which backend each way is of.
  std::vector<std::shared_ptr<const product::Way>> ways;
  std::vector<MatmulBackend> owners;
  for (const product::Candidate& candidate : order) {
    product::Answer answer = candidate.ask(problem, options);
    for (auto& way : answer.ways) {
      ways.push_back(std::move(way));
      owners.push_back(candidate.backend);
    }
    made->verdicts.push_back({candidate.backend, std::move(answer.refusal)});
  }
  if (ways.empty()) {
    return {StatusCode::unsupported, fmt::format("matmul: no backend serves {}: {}",
                                                 to_string(problem), refusals(made->verdicts))};
  }
  made->way = ways.front();
  if (options.tuning == Tuning::measured && ways.size() > 1) {
    Status status;
    made->way = product::fastest(problem, options, ways, &status);
    if (!status.ok()) return status;
  }
  const auto taken = std::find(ways.begin(), ways.end(), made->way);
  made->backend = owners[static_cast<size_t>(taken - ways.begin())];
  *data = std::move(made);
  return {};
}

Status MatmulPlan::Data::run(const Problem& now, const MatmulTensors& t, const Exec& exec) const {
  constexpr api::Role kScales = api::Role::scales;
  ROWSCALE_RETURN_IF_ERROR(check_fits(problem, now));
  ROWSCALE_RETURN_IF_ERROR(check_present(t));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({{"a", t.a, api::Role::input},
                                            {"b", t.b},
                                            {"scale_a", t.scale_a, kScales},
                                            {"scale_b", t.scale_b, kScales},
                                            {"bias", t.bias},
                                            {"out", t.out},
                                            {"expert_offsets", t.expert_offsets}},
                                           exec));
  if (is_empty(t.out)) return {};
  ROWSCALE_RETURN_IF_ERROR(check_workspace(exec.workspace, way->workspace_bytes()));
  return way->run(t, exec);
}

Status MatmulPlan::make(const MatmulTensors& tensors, const MatmulOptions& options,
                        MatmulPlan* plan) {
  if (plan == nullptr) return invalid("plan: expected a place for the result, got null");
  Problem problem;
  ROWSCALE_RETURN_IF_ERROR(product::make_problem(tensors, options, &problem));
  std::shared_ptr<const Data> data;
  ROWSCALE_RETURN_IF_ERROR(Data::make(problem, options, &data));
  plan->data_ = std::move(data);
  return {};
}

Status MatmulPlan::run(const MatmulTensors& tensors, const Exec& exec) const {
  if (data_ == nullptr) return invalid("plan: expected one that make() made, got an empty one");
  Problem now;
  ROWSCALE_RETURN_IF_ERROR(product::make_problem(tensors, data_->options, &now));
  return data_->run(now, tensors, exec);
}

MatmulBackend MatmulPlan::backend() const {
  return data_ == nullptr ? MatmulBackend::best : data_->backend;
}

size_t MatmulPlan::workspace_bytes() const {
  return data_ == nullptr ? 0 : data_->way->workspace_bytes();
}

std::vector<MatmulVerdict> MatmulPlan::verdicts() const {
  return data_ == nullptr ? std::vector<MatmulVerdict>() : data_->verdicts;
}

bool operator==(const MatmulPlan& a, const MatmulPlan& b) {
  if (a.data_ == nullptr || b.data_ == nullptr) return a.data_ == b.data_;
  const MatmulPlan::Data& x = *a.data_;
  const MatmulPlan::Data& y = *b.data_;
  return x.problem == y.problem && x.options == y.options && x.backend == y.backend &&
         x.way->text() == y.way->text();
}

const char* to_string(MatmulBackend backend) {
  switch (backend) {
    case MatmulBackend::best:
      return "best";
    case MatmulBackend::cpu:
      return "cpu";
    case MatmulBackend::cublaslt:
      return "cublaslt";
    case MatmulBackend::split:
      return "split";
    case MatmulBackend::small_m:
      return "small_m";
    case MatmulBackend::general:
      return "general";
    case MatmulBackend::dequantize:
      return "dequantize";
  }
  return "unknown";
}

std::string to_string(const MatmulPlan& plan) {
  if (plan.data_ == nullptr) return "an empty plan";
  const MatmulPlan::Data& data = *plan.data_;
  std::string text =
      fmt::format("{}: {}: {}, workspace {} bytes", to_string(data.problem),
                  to_string(data.backend), data.way->text(), data.way->workspace_bytes());
  for (const MatmulVerdict& verdict : data.verdicts) {
    const char* said = verdict.backend == data.backend ? "taken" : "serves it";
    text += fmt::format("\n  {}: {}", to_string(verdict.backend),
                        verdict.refusal.empty() ? said : verdict.refusal.c_str());
  }
  return text;
}

}  // namespace rowscale
