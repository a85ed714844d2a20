// One strip of a source, cast again, against the same piece of a result.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/layer_error.hpp"
#include "checkpoint/open_shards.hpp"
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
  StripComparer(const Plan& plan, Model* source, Model* result)
      : plan_(plan),
        source_(*source),
        result_(*result),
        source_shards_(source),
        result_shards_(result),
        work_(plan, *source) {}

  // What the strip needs of both models. From one thread; throws Failure(input).
  void read(ComparedStrip* strip, const TensorPlan& tensor);
  std::vector<float> read_scales(const TensorPlan& tensor);  // of an FP8 weight of the source
  // What was read, cast again and compared. From any thread.
  void compare(ComparedStrip* strip, const std::function<bool()>& stopping) const;
  // Throws Failure(unreadable) where a file was changed while it was read.
  void release_all();

 private:
  void read_copy(ComparedStrip* strip, const TensorPlan& tensor);
  void read_cast(ComparedStrip* strip);
  // Where the weight's codes and scales lie; empty: not there, or of another form.
  struct Pair {
    Place codes;
    Place scales;
  };
  std::optional<Pair> find_pair(ComparedStrip* strip, const Weight& weight) const;
  void read_codes(ComparedStrip* strip, Place place);
  void read_scales(ComparedStrip* strip, Place place);
  static void compare_copy(ComparedStrip* strip);
  void compare_cast(ComparedStrip* strip) const;
  void add_errors(ComparedStrip* strip) const;

  const Plan& plan_;
  const Model& source_;
  const Model& result_;
  OpenShards source_shards_;
  OpenShards result_shards_;
  StripWork work_;
};

}  // namespace rowscale::checkpoint
