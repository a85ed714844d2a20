#include "checkpoint/index.hpp"

#include <algorithm>
#include <map>

#include "checkpoint/failure.hpp"
#include "checkpoint/header_handler.hpp"
#include "checkpoint/json_source.hpp"
#include "checkpoint/plain_file.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
// An index has less text a tensor than a header, which may have 100 MB.
constexpr int64_t kLargestIndex = int64_t{128} << 20;

bool is_plain_name(const std::string& name) {
  return name.find('/') == std::string::npos && name != "." && name != ".." && !name.empty() &&
         !has_control_character(name);
}

// Keeps the weight_map, and the total size. Each callback returns false to stop the parser.
class IndexHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexHandler(ShardIndex* out) : out_(out) {}
  const std::string& error() const { return error_; }
  bool saw_map() const { return saw_map_; }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<int64_t>(std::min(value, uint64_t{INT64_MAX})));
  }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool string(string_t& value) override {
    if (!in_map()) return other("a string");
    if (!is_plain_name(value) || !std::string_view(value).ends_with(kSuffix)) {
      return fail(fmt::format(
          "weight_map: tensor {}: expected the plain name of a .safetensors file, got {}",
          shown(tensor_), shown(value)));
    }
    if (tensor_.size() > kLongestName) {
      return fail(fmt::format("weight_map: tensor {}: expected a name of at most {} bytes, got {}",
                              shown(tensor_), kLongestName, tensor_.size()));
    }
    const auto [at, is_new] = shards_.try_emplace(value, static_cast<uint32_t>(shards_.size()));
    out_->tensors.push_back({out_->names.keep(tensor_), at->second});
    return true;
  }
  bool start_object(std::size_t) override {
    if (in_map()) return other("an object");
    if (depth_ == 1 && key_ == "weight_map") saw_map_ = true;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return fail("expected an object, got an array");
    if (in_map() || (depth_ == 1 && key_ == "weight_map")) return other("an array");
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) key_ = value;
    if (depth_ == 2) tensor_ = value;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return fail(fmt::format("expected JSON, got an error at byte {}", position));
  }

  // Shards by name, tensors by name.
  void finish() {
    std::vector<uint32_t> rank(shards_.size());
    for (const auto& [name, number] : shards_) {
      rank[number] = static_cast<uint32_t>(out_->shards.size());
      out_->shards.push_back(name);
    }
    for (IndexEntry& entry : out_->tensors) entry.shard = rank[entry.shard];
    std::sort(out_->tensors.begin(), out_->tensors.end(),
              [](const IndexEntry& a, const IndexEntry& b) { return a.tensor < b.tensor; });
  }

 private:
  bool in_map() const { return depth_ == 2 && key_ == "weight_map"; }

  bool number(int64_t value) {
    if (depth_ == 2 && key_ == "metadata" && tensor_ == "total_size") out_->total_size = value;
    return other("a number");
  }
  bool fail(std::string message) {
    error_ = std::move(message);
    return false;
  }
  bool other(const char* came) {
    if (depth_ == 0) return fail(fmt::format("expected an object, got {}", came));
    if (depth_ == 1 && key_ == "weight_map") {
      return fail(fmt::format("weight_map: expected an object, got {}", came));
    }
    if (depth_ >= 2 && key_ == "weight_map") {
      return fail(
          fmt::format("weight_map: tensor {}: expected a file name, got {}", shown(tensor_), came));
    }
    return true;
  }

  ShardIndex* out_;
  std::map<std::string, uint32_t> shards_;
  std::string error_;
  std::string key_;     // at the top
  std::string tensor_;  // in it: in the weight_map a tensor's name
  int depth_ = 0;
  bool saw_map_ = false;
};

}  // namespace

const IndexEntry* ShardIndex::find(std::string_view tensor) const {
  const auto it = std::lower_bound(
      tensors.begin(), tensors.end(), tensor,
      [](const IndexEntry& entry, std::string_view n) { return entry.tensor < n; });
  return it != tensors.end() && it->tensor == tensor ? &*it : nullptr;
}

ShardIndex read_index(const std::string& path) {
  ShardIndex out;
  const PlainFile file(path);
  if (file.bytes() > kLargestIndex) {
    refuse_input("{}: expected at most {} bytes, got {}", path, kLargestIndex, file.bytes());
  }
  file.require_no_pointer();
  IndexHandler handler(&out);
  JsonSource source(file.descriptor(), 0, file.bytes());
  if (const Status status = parse_json(&source, &handler); !status.ok()) {
    refuse_input("{}: {}", path, status.message());
  }
  if (!handler.error().empty()) refuse_input("{}: {}", path, handler.error());
  if (!handler.saw_map()) refuse_input("{}: expected a member \"weight_map\", got none", path);
  handler.finish();
  for (size_t i = 1; i < out.tensors.size(); ++i) {
    if (out.tensors[i].tensor == out.tensors[i - 1].tensor) {
      refuse_input("{}: tensor {} appears twice", path, shown(out.tensors[i].tensor));
    }
  }
  if (out.shards.empty()) refuse_input("{}: the weight_map names no tensor", path);
  return out;
}

}  // namespace rowscale::checkpoint
