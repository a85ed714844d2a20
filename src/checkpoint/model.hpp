// A model as it lies on disk: one safetensors file, or a Hugging Face folder with its shards, its
// index, its configuration and all that lies beside them. Only headers and small texts are read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quantization_config.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {

// A tensor: which file, which entry of its header.
struct Place {
  uint32_t shard = 0;
  uint32_t index = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

enum class Fate {
  copied,     // byte for byte
  rewritten,  // the index and config.json
  left_out,   // weights in other formats, version control, caches: see `reason`
};

// A file or, where it is left out as a whole, a folder beside the shards.
struct SideFile {
  std::string name;  // relative to the folder
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  Fate fate = Fate::copied;
  std::string reason;  // of left_out
};

// How much may lie in config.json and its like.
inline constexpr int64_t kLargestText = int64_t{16} << 20;

class Model {
 public:
  Model() = default;
  Model(Model&&) = default;
  Model& operator=(Model&&) = default;
  ~Model() = default;

  // `path`: a folder, or a .safetensors file. Entries that are symbolic links are followed. Throws
  // Failure(input), whose message says what was expected and what to do.
  static Model open(const std::string& path);

  const std::string& path() const { return path_; }
  bool is_folder() const { return is_folder_; }
  std::string file_path(std::string_view name) const;  // of a file in the folder

  // In the order of their names. Descriptors are released: acquire() a shard before reading.
  std::vector<TensorFile>& shards() { return shards_; }
  const std::vector<TensorFile>& shards() const { return shards_; }
  const std::string& shard_name(uint32_t shard) const { return shard_names_[shard]; }

  // Every tensor that belongs to the model, by name: without those that the index assigns to
  // another file than the one they lie in.
  const std::vector<Place>& tensors() const { return tensors_; }
  const TensorEntry& entry(Place place) const {
    return shards_[place.shard].tensors()[place.index];
  }
  std::optional<Place> find(std::string_view name) const;

  // Tensors that lie in a file which the index does not assign them to; loaders would take either.
  const std::vector<Place>& stale() const { return stale_; }

  bool has_index() const { return !index_name_.empty(); }
  const std::string& index_name() const { return index_name_; }
  // "total_size" as the index has it.
  std::optional<int64_t> index_total_size() const { return index_total_size_; }

  bool has_config() const { return !config_text_.empty(); }
  const std::string& config_text() const { return config_text_; }  // config.json as it stands
  const nlohmann::json& config() const { return config_; }         // an empty object without one
  const QuantizationConfig& quantization() const { return quantization_; }

  // Everything in the folder that is no shard, sub-folders too, by name.
  const std::vector<SideFile>& side_files() const { return side_files_; }

 private:
  void open_folder();
  void open_file();
  void read_config();
  std::vector<std::string> find_shards();
  void assign_tensors(const std::vector<std::string>& names);

  std::string path_;
  bool is_folder_ = false;
  std::vector<TensorFile> shards_;
  std::vector<std::string> shard_names_;
  std::vector<Place> tensors_;
  std::vector<Place> stale_;
  std::string index_name_;
  std::optional<int64_t> index_total_size_;
  std::string config_text_;
  nlohmann::json config_ = nlohmann::json::object();
  QuantizationConfig quantization_;
  std::vector<SideFile> side_files_;
};

// A whole small file. Throws Failure: unreadable; input (a larger one, or a Git LFS pointer).
std::string read_text(const std::string& path, int64_t largest);

}  // namespace rowscale::checkpoint
