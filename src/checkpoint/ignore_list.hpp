// The modules that an output's configuration names as left alone. Readers make a quantized layer of
// every linear module that is not in the list, and know modules by other means than we do: so each
// matrix that stays is in it, a table of embeddings too, which no reader takes for a linear layer.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// Of a plan whose decisions are final. Sorted, each once. Experts of a stack appear one by one, as
// readers know them; a tied output head, which has no tensor, under the name that readers give it.
std::vector<std::string> ignore_list(const Model& model, const Plan& plan);

}  // namespace rowscale::checkpoint
