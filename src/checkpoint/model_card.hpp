// README.md of an output: the front matter that the Hub reads, and what the model is.
#pragma once

#include <string>

#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// `original`: the source's README.md, empty without one. Licence, tags and languages are taken over
// from its front matter as they stand there.
std::string model_card(const Model& model, const Plan& plan, const std::string& original);

}  // namespace rowscale::checkpoint
