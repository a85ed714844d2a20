// A row of multi-head latent attention and where its parts go, as a value: what api/ checks and
// every backend can read.
#pragma once

#include <cstddef>

#include "plan/source.hpp"
#include "rowscale/mla.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::plan {

// The columns of x, which are one dimension: q | kv | rope.
struct Mla {
  TensorView x;
  MlaNorm norm;
  Recipe q_recipe;
  Recipe kv_recipe;  // where there are kv_codes
  MlaOutputs outputs;

  [[nodiscard]] int64_t q_rank() const { return norm.q_weight.columns(); }
  [[nodiscard]] int64_t kv_rank() const { return norm.kv_weight.columns(); }
  [[nodiscard]] int64_t rope_width() const { return x.columns() - q_rank() - kv_rank(); }
  [[nodiscard]] bool has_kv_codes() const { return outputs.kv_codes.rank != 0; }
  [[nodiscard]] bool has_kv() const { return outputs.kv.rank != 0; }
  [[nodiscard]] bool has_rope() const { return outputs.rope.rank != 0; }

  // The parts as sources of their own, with the rows that are stored as they pass.
  [[nodiscard]] Source q_source() const {
    return norm_source(columns(0, q_rank()), norm.q_weight, norm.q_eps, outputs.q_row);
  }
  [[nodiscard]] Source kv_source() const {
    return norm_source(columns(q_rank(), kv_rank()), norm.kv_weight, norm.kv_eps, outputs.kv);
  }
  [[nodiscard]] Source rope_source() const {
    Source source;
    source.x = columns(q_rank() + kv_rank(), rope_width());
    return source;
  }

 private:
  [[nodiscard]] TensorView columns(int64_t begin, int64_t count) const {
    TensorView part = x;
    part.shape[x.rank - 1] = count;
    if (x.data != nullptr) {
      part.data = static_cast<std::byte*>(x.data) + begin * element_size(x.dtype);
    }
    return part;
  }
  static Source norm_source(const TensorView& x, const TensorView& weight, float eps,
                            const TensorView& row_out) {
    Source source;
    source.kind = SourceKind::rms_norm;
    source.x = x;
    source.norm.weight = weight;
    source.norm.eps = eps;
    source.row_out = row_out;
    return source;
  }
};

}  // namespace rowscale::plan
