// The small files of an output: the quantization in config.json, the index, rowscale.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/journal.hpp"
#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// The member quantization_config, with the keys alone that every reader knows.
std::string quantization_text(const Plan& plan);

// config.json with that member and no other byte changed. Where the source has one in the
// configuration of its language model, that one is replaced too: vLLM and SGLang look there where
// the top has none, and the configuration classes of some models let it win. transformers looks at
// the top alone.
std::string config_text(const Model& model, const Plan& plan);

// Names sorted, as the reference writes it; total_size counts the tensors' bytes. In pieces: of a
// million tensors it has a hundred megabytes.
void write_index(const Model& model, const Plan& plan,
                 const std::function<void(std::string_view)>& sink);

// Version, what was asked for, share quantized, size and hash of each file: no times, no paths.
std::string record_text(const Model& model, const Plan& plan,
                        const std::vector<FinishedFile>& files);

// What the source is called: as it was asked for, or the repository of a folder of the Hub's cache,
// or the name of the folder.
std::string source_name(const Model& model, const Plan& plan);

}  // namespace rowscale::checkpoint
