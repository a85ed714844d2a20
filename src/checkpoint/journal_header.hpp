// What a conversion makes of what: everything that its output depends on. The first line of its
// journal, by which a run that is to continue it knows whether it is the same one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/output_names.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// Options by their values; files of the model by size and time of modification, config.json by its
// SHA-256.
nlohmann::ordered_json journal_header(const Model& model, const Plan& plan, Card card);

// The first thing in which a conversion that was begun differs from the one that is to continue it,
// in words for the user of the command; empty: nothing. Throws nlohmann::json::exception where
// `was`, which a file holds, is no header.
std::string header_difference(const nlohmann::ordered_json& was, const nlohmann::ordered_json& is);

}  // namespace rowscale::checkpoint
