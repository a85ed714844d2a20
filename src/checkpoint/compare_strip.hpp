// One strip of a source, cast again, against the same piece of a result.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/layer_error.hpp"
#include "checkpoint/strip.hpp"
#include "checkpoint/strip_work.hpp"

namespace rowscale::checkpoint {

struct ComparedStrip {
  Strip strip;
  std::string name;     // of the result's tensor; empty: nothing to compare (a strip that measures)
  std::string problem;  // empty: as it should be
  LayerError error;     // of this piece; casts only
  std::vector<std::byte> stored;
  std::vector<std::byte> stored_scales;
  std::vector<float> x;
  std::vector<float> scales;
};

class StripComparer {
 public:
  // Both models' shards are acquired.
  StripComparer(const Plan& plan, const Model& source, const Model& result)
      : plan_(plan), source_(source), result_(result), work_(plan, source) {}

  void read(ComparedStrip* strip) const { work_.read(&strip->strip); }
  void compare(ComparedStrip* strip, const TensorPlan& tensor,
               const std::function<bool()>& stopping) const;

 private:
  void compare_copy(ComparedStrip* strip, const TensorPlan& tensor) const;
  void compare_cast(ComparedStrip* strip) const;
  // Where the weight's codes and scales lie; empty: not there, or of another form.
  struct Pair {
    Place codes;
    Place scales;
  };
  std::optional<Pair> find_pair(ComparedStrip* strip, const Weight& weight) const;
  void read_codes(ComparedStrip* strip, Place place) const;
  void read_scales(ComparedStrip* strip, Place place) const;
  void add_errors(ComparedStrip* strip) const;

  const Plan& plan_;
  const Model& source_;
  const Model& result_;
  StripWork work_;
};

}  // namespace rowscale::checkpoint
