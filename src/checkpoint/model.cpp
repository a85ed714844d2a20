#include "checkpoint/model.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/index.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/plain_file.hpp"
#include "checkpoint/side_files.hpp"

namespace rowscale::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Names at the top of the folder, sorted.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path().filename().string());
  }
  if (error) refuse_input("{}: cannot be listed: {}", folder, error.message());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> ending_in(const std::vector<std::string>& names, std::string_view suffix) {
  std::vector<std::string> out;
  std::copy_if(names.begin(), names.end(), std::back_inserter(out),
               [&](const std::string& name) { return name.ends_with(suffix); });
  return out;
}

// "owner/name": how the Hub names models.
bool is_hub_name(std::string_view path) {
  const size_t slash = path.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < path.size() &&
         path.find('/', slash + 1) == std::string_view::npos && path.front() != '.' &&
         path.front() != '~';
}

[[noreturn]] void refuse_missing(const std::string& path) {
  std::error_code error;
  static_cast<void>(fs::absolute(path, error));
  if (error) {
    refuse_input("{}: expected an absolute path: the working directory is gone ({})", path,
                 error.message());
  }
  if (is_hub_name(path)) {
    refuse_input(
        "{0}: no such folder. A model of the Hub has to be downloaded first: "
        "hf download {0} --local-dir FOLDER",
        path);
  }
  refuse_input("{}: no such folder", path);
}

[[noreturn]] void refuse_without_weights(const std::string& folder,
                                         const std::vector<std::string>& names) {
  for (const char* suffix : {".bin", ".pt", ".pth"}) {
    const std::vector<std::string> found = ending_in(names, suffix);
    if (found.empty()) continue;
    refuse_input(
        "{}: expected safetensors files, got {}: a pickle, which this program does not open. "
        "Download the safetensors of the model, or save it once with transformers "
        "(save_pretrained)",
        folder, shown(found.front()));
  }
  const std::vector<std::string> gguf = ending_in(names, ".gguf");
  if (!gguf.empty()) {
    refuse_input("{}: expected safetensors files, got {}: a model already converted for llama.cpp",
                 folder, shown(gguf.front()));
  }
  refuse_input("{}: expected safetensors files, got none", folder);
}

}  // namespace

std::string read_text(const std::string& path, int64_t largest) {
  const PlainFile file(path);
  if (file.bytes() > largest) {
    refuse_input("{}: expected at most {} bytes, got {}", path, largest, file.bytes());
  }
  file.require_no_pointer();
  std::string out(static_cast<size_t>(file.bytes()), '\0');
  file.read(0, file.bytes(), out.data());
  return out;
}

std::string Model::file_path(std::string_view name) const {
  return (fs::path(path_) / name).string();
}

Model Model::open(const std::string& path) {
  Model out;
  out.path_ = path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory) {
      refuse_input("{}: cannot be opened: {}", path, error.message());
    }
    refuse_missing(path);
  }
  out.is_folder_ = fs::is_directory(status);
  if (out.is_folder_) {
    out.open_folder();
  } else {
    out.open_file();
  }
  return out;
}

void Model::open_file() {
  TensorFile file;
  require_header(TensorFile::open(path_, &file));
  file.release();
  shards_.push_back(std::move(file));
  shard_names_.push_back(fs::path(path_).filename().string());
  assign_tensors({});
}

void Model::open_folder() {
  shard_names_ = find_shards();
  for (const std::string& name : shard_names_) require_printable(path_, name);
  read_config();
  for (const std::string& name : shard_names_) {
    TensorFile file;
    require_header(TensorFile::open(file_path(name), &file));
    file.release();
    shards_.push_back(std::move(file));
  }
  assign_tensors(shard_names_);
  side_files_ = list_side_files(path_, shard_names_, index_name_);
}

std::vector<std::string> Model::find_shards() {
  const std::vector<std::string> names = names_in(path_);
  const std::vector<std::string> indexes = ending_in(names, kIndexSuffix);
  if (is_file(file_path(kIndex))) {
    index_name_ = kIndex;
  } else if (indexes.size() == 1) {
    index_name_ = indexes.front();
  } else if (indexes.size() > 1) {
    refuse_input("{}: expected one index, got {} of them, among them {}", path_, indexes.size(),
                 shown(indexes.front()));
  }
  if (has_index()) {
    require_printable(path_, index_name_);
    return read_index(file_path(index_name_)).shards;
  }
  if (std::binary_search(names.begin(), names.end(), kSingle)) return {kSingle};
  const std::vector<std::string> files = ending_in(names, kSuffix);
  if (files.size() == 1 && files.front().find("-of-") == std::string::npos) return files;
  if (files.empty()) refuse_without_weights(path_, names);
  refuse_input("{}: expected {} for its {} safetensors files, got none: download it too", path_,
               kIndex, files.size());
}

void Model::read_config() {
  const std::string name = file_path("config.json");
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(name, ignored))) {
    if (is_file(file_path("hf_quant_config.json"))) quantization_.format = SourceFormat::modelopt;
    return;
  }
  config_text_ = read_text(name, kLargestText);
  config_ = parse_config(config_text_, name);
  quantization_ = read_quantization_config(config_);
  if (quantization_.format == SourceFormat::plain && is_file(file_path("hf_quant_config.json"))) {
    quantization_.format = SourceFormat::modelopt;
    quantization_.method = "hf_quant_config.json";
  }
}

// Every shard's tensors against the index, and one order by name over all.
void Model::assign_tensors(const std::vector<std::string>& names) {
  ShardIndex index;
  if (has_index()) {
    index = read_index(file_path(index_name_));
    index_total_size_ = index.total_size;
    if (index.shards != names) refuse_input("{}: changed while it was read", index_name_);
  }
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const TensorList& tensors = shards_[shard].tensors();
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      if (!has_index()) {
        tensors_.push_back({shard, i});
        continue;
      }
      const IndexEntry* assigned = index.find(tensors[i].name);
      if (assigned == nullptr) {
        refuse_input("{}: tensor {}: expected it in {}, which does not name it",
                     file_path(names[shard]), shown(tensors[i].name), index_name_);
      }
      (assigned->shard == shard ? tensors_ : stale_).push_back({shard, i});
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [&](Place a, Place b) { return entry(a).name < entry(b).name; });
  if (!has_index() || tensors_.size() == index.tensors.size()) return;
  for (const IndexEntry& wanted : index.tensors) {
    if (find(wanted.tensor)) continue;
    refuse_input("{}: expected tensor {} of {}, which has none: download it again",
                 file_path(names[wanted.shard]), shown(wanted.tensor), index_name_);
  }
}

std::optional<Place> Model::find(std::string_view name) const {
  const auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [&](Place a, std::string_view n) { return entry(a).name < n; });
  if (it == tensors_.end() || entry(*it).name != name) return std::nullopt;
  return *it;
}

}  // namespace rowscale::checkpoint
