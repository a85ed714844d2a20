// A conversion's plan for people and for programs.
#pragma once

#include <string>

#include "checkpoint/plan.hpp"
#include "output.hpp"

namespace rowscale::cli {

enum class PlanDetail {
  summary,  // one line a reason
  every_tensor
};

// Ends with the scheme, the share of the bytes that becomes FP8, and the sizes. In pieces: a plan
// may have a million lines.
void write_plan(const checkpoint::Model& model, const checkpoint::Plan& plan, PlanDetail detail,
                const Sink& sink);

// The lines that say why less than half is quantized; empty where it is not so.
std::string shortfall_text(const checkpoint::Plan& plan);
std::string shortfall_json(const checkpoint::Plan& plan);  // the same as one line

// One JSON object a line: docs/converting.md.
void write_plan_json(const checkpoint::Model& model, const checkpoint::Plan& plan,
                     PlanDetail detail, const Sink& sink);

// "1.5 GB": powers of 1000, three digits.
std::string size_text(int64_t bytes);

}  // namespace rowscale::cli
