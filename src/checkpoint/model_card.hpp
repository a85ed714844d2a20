// README.md of an output: the front matter that the Hub reads, and what the model is.
#pragma once

#include <string>

#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// Licence, tags, languages and the like are taken over from the front matter of the source's
// README.md as they stand there; the card names the file in which that one is kept. Throws
// Failure(input): the README.md cannot be read.
std::string model_card(const Model& model, const Plan& plan);

}  // namespace rowscale::checkpoint
