// The small files of an output: the quantization in config.json, the index, rowscale.json.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/journal.hpp"
#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// The member quantization_config, with the keys alone that every reader knows.
std::string quantization_text(const Plan& plan);

// config.json with that member and no other byte changed.
std::string config_text(const Model& model, const Plan& plan);

// Names sorted, as the reference writes it; total_size counts the tensors' bytes.
std::string index_text(const Model& model, const Plan& plan);

// Version, what was asked for, share quantized, size and hash of each file: no times, no paths.
std::string record_text(const Model& model, const Plan& plan,
                        const std::vector<FinishedFile>& files);

// What the source is called: the name of its repository or, without one, of its folder.
std::string source_name(const Model& model);

}  // namespace rowscale::checkpoint
