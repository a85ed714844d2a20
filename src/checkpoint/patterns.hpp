// What users ask to leave alone: names of modules, or "re:" and an expression that is matched from
// the start of the name, as the readers of checkpoints do with Python's re.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rowscale::checkpoint {

class Patterns {
 public:
  // `list`: what messages call it, "--ignore"; outlives this. Throws Failure(usage) for an
  // expression that is none, or that Python would read differently.
  Patterns(const std::vector<std::string>& patterns, const char* list);
  ~Patterns();
  Patterns(const Patterns&) = delete;
  Patterns& operator=(const Patterns&) = delete;

  bool empty() const { return patterns_.empty(); }

  // Whether any fits; notes which have.
  bool match(std::string_view module);

  // The first that fits; empty: none does.
  std::string_view fitting(std::string_view module) const;

  // Throws Failure(usage) where one has fitted nothing so far.
  void require_all_used() const;

 private:
  struct Pattern;
  const char* list_;
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace rowscale::checkpoint
