// What was checked of a model and what came out, as a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rowscale::checkpoint {

// One question, asked of many items.
class Check {
 public:
  // `what`: completes "checked that ...".
  Check(std::string name, std::string what) : name_(std::move(name)), what_(std::move(what)) {}

  void add_item(int64_t count = 1) { items_ += count; }
  // All are counted, the first kLargestKept are kept.
  void add_problem(std::string text) {
    ++problems_;
    if (kept_.size() < kLargestKept) kept_.push_back(std::move(text));
  }
  void skip(std::string reason) { skipped_ = std::move(reason); }

  const std::string& name() const { return name_; }
  const std::string& what() const { return what_; }
  int64_t items() const { return items_; }
  int64_t problems() const { return problems_; }
  const std::vector<std::string>& kept() const { return kept_; }
  const std::string& skipped() const { return skipped_; }  // the reason; empty: it was made
  bool holds() const { return problems_ == 0; }

  static constexpr size_t kLargestKept = 20;

 private:
  std::string name_;
  std::string what_;
  std::string skipped_;
  int64_t items_ = 0;
  int64_t problems_ = 0;
  std::vector<std::string> kept_;
};

}  // namespace rowscale::checkpoint
