// Under which names the files of an output are written.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

enum class Card { copy, write };  // the model card: README.md as it is, or a new one

inline constexpr const char* kCardName = "README.md";
inline constexpr const char* kConfigName = "config.json";

struct CopiedFile {
  std::string from;  // in the model's folder
  std::string to;    // in the output
};

// The side files that are copied. Where a card is written, the original is set aside.
std::vector<CopiedFile> copied_files(const Model& model, Card card);

// Of the original card, set aside: README.base.md, or README.base-2.md and so on where the model
// has such a file of its own. Empty: the model has no card.
std::string base_card_name(const Model& model);

// Every file of the output, by the path in its folder. Throws Failure(usage) where a card cannot
// have its name, because the model has a folder of that name.
std::vector<std::string> output_names(const Model& model, Card card);

}  // namespace rowscale::checkpoint
