#include "checkpoint/inspection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace rowscale::checkpoint {
namespace {

struct NumberRange {
  int64_t lowest = 0;
  int64_t highest = 0;
};

bool is_number(std::string_view part) {
  return !part.empty() && part.size() < 10 &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Calls `visit(part)` for each part between dots.
template <class Visit>
void each_part(std::string_view name, Visit visit) {
  size_t begin = 0;
  for (;;) {
    const size_t dot = name.find('.', begin);
    visit(name.substr(begin, dot - begin));
    if (dot == std::string_view::npos) return;
    begin = dot + 1;
  }
}

// "a.3.b" -> "a.*.b" and {3}
std::pair<std::string, std::vector<int64_t>> pattern_of(std::string_view name) {
  std::pair<std::string, std::vector<int64_t>> out;
  bool is_first = true;
  each_part(name, [&](std::string_view part) {
    if (!std::exchange(is_first, false)) out.first += '.';
    if (is_number(part)) {
      out.second.push_back(std::stoll(std::string(part)));
      out.first += '*';
    } else {
      out.first += part;
    }
  });
  return out;
}

std::string with_ranges(const std::string& pattern, const std::vector<NumberRange>& ranges) {
  std::string out;
  size_t next = 0;
  bool is_first = true;
  each_part(pattern, [&](std::string_view part) {
    if (!std::exchange(is_first, false)) out += '.';
    if (part != "*" || next == ranges.size()) {
      out += part;
      return;
    }
    const auto [lowest, highest] = ranges[next++];
    out +=
        lowest == highest ? fmt::format("{}", lowest) : fmt::format("{{{}-{}}}", lowest, highest);
  });
  return out;
}

struct OpenGroup {
  std::vector<NumberRange> ranges;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

using Shape = std::vector<int64_t>;
using GroupKey = std::tuple<std::string, StoredType, Shape>;

void add(std::vector<int64_t> numbers, int64_t bytes, OpenGroup* group) {
  if (group->tensors == 0) {
    for (const int64_t number : numbers) group->ranges.push_back({number, number});
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    group->ranges[i].lowest = std::min(group->ranges[i].lowest, numbers[i]);
    group->ranges[i].highest = std::max(group->ranges[i].highest, numbers[i]);
  }
  ++group->tensors;
  group->bytes += bytes;
}

}  // namespace

Inspection inspect(Model& model) {
  Inspection out;
  std::map<StoredType, TypeShare> types;
  std::map<GroupKey, OpenGroup> groups;
  for (const Place place : model.tensors()) {
    const TensorEntry& entry = model.entry(place);
    ++out.tensors;
    out.bytes += entry.bytes();
    TypeShare& share = types[entry.type];
    share.type = entry.type;
    ++share.tensors;
    share.bytes += entry.bytes();
    auto [pattern, numbers] = pattern_of(entry.name);
    const GroupKey key(std::move(pattern), entry.type,
                       Shape(entry.shape.begin(), entry.shape.end()));
    if (groups.size() == kMostGroups && groups.count(key) == 0) {
      ++out.ungrouped_tensors;
      continue;
    }
    add(std::move(numbers), entry.bytes(), &groups[key]);
  }
  out.types.reserve(types.size());
  for (const auto& [type, share] : types) out.types.push_back(share);
  std::sort(out.types.begin(), out.types.end(), [](const TypeShare& a, const TypeShare& b) {
    return std::tie(b.bytes, a.type) < std::tie(a.bytes, b.type);
  });
  out.groups.reserve(groups.size());
  for (const auto& [key, group] : groups) {
    const auto& [pattern, type, shape] = key;
    out.groups.push_back(
        {with_ranges(pattern, group.ranges), type, shape, group.tensors, group.bytes});
  }
  out.scales = scale_statistics(model);
  return out;
}

}  // namespace rowscale::checkpoint
