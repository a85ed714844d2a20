// Where rows come from: a tensor as it is, codes of another recipe, or an operator that makes them.
// A source hands out stretches of a row as contiguous memory; everything behind it is the same for
// all. How to add one: docs/adding_a_source.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/kernels.hpp"
#include "numerics/rms_norm.hpp"
#include "plan/cpu_plan.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "plan/source.hpp"
#include "rowscale/producers.hpp"

namespace rowscale::cpu {

// One row of a source. `factor` is what begin_row() found out about the row as a whole.
struct Row {
  int64_t index;
  float factor;
};

class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  // The source's input: gives rows, batches and masks.
  [[nodiscard]] virtual const plan::RowView& rows() const = 0;
  // Of the elements that span() hands out.
  [[nodiscard]] virtual DType dtype() const = 0;
  // Whether begin_row() must see the whole row first, so that one thread takes a row.
  [[nodiscard]] virtual plan::RowUse row_use() const { return plan::RowUse::parts; }

  // Once a row, before its spans; a source whose rows are whole may change memory here.
  [[nodiscard]] virtual Row begin_row(int64_t row) const { return {row, 0.0F}; }
  // Once a row, after its last span; for sources whose rows are whole.
  virtual void end_row(const Row& /*row*/) const {}
  // `count` <= plan::kStripElements elements from `column`: in `scratch` (count elements of
  // dtype()) or wherever they lie already. Asking again for the same elements gives the same
  // values.
  virtual const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const = 0;
  // Where span() would read first, if it would only read: worth fetching ahead. Otherwise nullptr.
  [[nodiscard]] virtual const std::byte* location(int64_t /*row*/, int64_t /*column*/) const {
    return nullptr;
  }
};

// Calls use(source) with the RowSource that a plan::Source describes, stored rows included; it
// lives as long as the call.
template <class Use>
void with_source(const plan::Source& source, const Kernels& kernels, Use&& use);

// Room for a strip of any dtype.
struct alignas(64) Strip {
  float values[plan::kStripElements];
};

// A tensor as it is.
class PlainSource final : public RowSource {
 public:
  explicit PlainSource(const TensorView& x) : x_(x) {}
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return x_.dtype(); }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;
  [[nodiscard]] const std::byte* location(int64_t row, int64_t column) const override {
    return x_.address(row, column);
  }

 private:
  plan::RowView x_;
};

// Codes times their scales, in fp32.
class DequantizedSource final : public RowSource {
 public:
  DequantizedSource(const Kernels& kernels, const TensorView& codes, const TensorView& scales,
                    const Recipe& recipe);
  [[nodiscard]] const plan::RowView& rows() const override { return codes_; }
  [[nodiscard]] DType dtype() const override { return DType::f32; }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const Kernels& kernels_;
  plan::RowView codes_;
  plan::ScaleGrid grid_;
  plan::ScaleView scales_;
  int format_;
};

class RmsNormSource final : public RowSource {
 public:
  RmsNormSource(const Kernels& kernels, const TensorView& x, const RmsNorm& norm);
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return x_.dtype(); }
  [[nodiscard]] plan::RowUse row_use() const override { return plan::RowUse::whole; }
  // Adds and stores the residual, and sums the squares.
  [[nodiscard]] Row begin_row(int64_t row) const override;
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const Kernels& kernels_;
  plan::RowView x_;
  plan::RowView weight_;
  plan::RowView residual_;
  bool has_residual_;
  float eps_;
  NormForm form_;
};

// A norm whose sum with the residual is not rounded (plan::ResidualSum): the residual, from which
// the sum is made again for each span, is replaced at the end of the row.
class UnroundedNormSource final : public RowSource {
 public:
  UnroundedNormSource(const Kernels& kernels, const TensorView& x, const RmsNorm& norm);
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return x_.dtype(); }
  [[nodiscard]] plan::RowUse row_use() const override { return plan::RowUse::whole; }
  [[nodiscard]] Row begin_row(int64_t row) const override;
  void end_row(const Row& row) const override;
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  // A round over the lanes of the sum tree: what is worked on at a time.
  static constexpr int64_t kPiece = int64_t{numerics::kTreeChunk} * numerics::kTreeLanes;
  struct Piece;
  // visit(column, count) for the pieces of [begin, end).
  template <class Visit>
  static void for_pieces(int64_t begin, int64_t end, Visit&& visit) {
    for (int64_t c = begin; c < end; c += kPiece) visit(c, std::min(kPiece, end - c));
  }
  // x + residual in fp32, to z.
  void add(int64_t row, int64_t column, int64_t count, float* z) const;

  const Kernels& kernels_;
  plan::RowView x_;
  plan::RowView weight_;
  plan::RowView residual_;
  float eps_;
  NormForm form_;
};

// x holds the gates of a row, then its ups.
class GatedSource final : public RowSource {
 public:
  GatedSource(const Kernels& kernels, const TensorView& x, Gate gate);
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return x_.dtype(); }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const Kernels& kernels_;
  plan::RowView x_;
  Gate gate_;
};

// The same, in a form that does not round.
class UnroundedSiluSource final : public RowSource {
 public:
  UnroundedSiluSource(const Kernels& kernels, const TensorView& x, plan::SiluForm form)
      : kernels_(kernels), x_(x), form_(form) {}
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return DType::f32; }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const Kernels& kernels_;
  plan::RowView x_;
  plan::SiluForm form_;
};

class Relu2Source final : public RowSource {
 public:
  Relu2Source(const Kernels& kernels, const TensorView& x) : kernels_(kernels), x_(x) {}
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return x_.dtype(); }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const Kernels& kernels_;
  plan::RowView x_;
};

// x holds gate and up of each element side by side.
class SwigluSource final : public RowSource {
 public:
  SwigluSource(const Kernels& kernels, const TensorView& x, const SwigluClamped& params)
      : kernels_(kernels), x_(x), params_(params) {}
  [[nodiscard]] const plan::RowView& rows() const override { return x_; }
  [[nodiscard]] DType dtype() const override { return x_.dtype(); }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const Kernels& kernels_;
  plan::RowView x_;
  SwigluClamped params_;
};

// Another source, whose rows are also stored as they pass.
class StoredSource final : public RowSource {
 public:
  StoredSource(const RowSource& source, const TensorView& row_out)
      : source_(source), row_out_(row_out) {}
  [[nodiscard]] const plan::RowView& rows() const override { return source_.rows(); }
  [[nodiscard]] DType dtype() const override { return source_.dtype(); }
  [[nodiscard]] plan::RowUse row_use() const override { return source_.row_use(); }
  [[nodiscard]] Row begin_row(int64_t row) const override { return source_.begin_row(row); }
  void end_row(const Row& row) const override { source_.end_row(row); }
  const void* span(const Row& row, int64_t column, int64_t count, void* scratch) const override;

 private:
  const RowSource& source_;
  plan::RowView row_out_;
};

template <class Use>
void with_source(const plan::Source& source, const Kernels& kernels, Use&& use) {
  const auto maybe_stored = [&](const RowSource& rows) {
    if (source.row_out.data == nullptr) return use(rows);
    use(static_cast<const RowSource&>(StoredSource(rows, source.row_out)));
  };
  switch (source.kind) {
    case plan::SourceKind::plain:
      return maybe_stored(PlainSource(source.x));
    case plan::SourceKind::dequantized:
      return maybe_stored(DequantizedSource(kernels, source.x, source.scales, source.recipe));
    case plan::SourceKind::rms_norm:
      if (source.residual_sum == plan::ResidualSum::unrounded &&
          source.norm.residual.data != nullptr) {
        return maybe_stored(UnroundedNormSource(kernels, source.x, source.norm));
      }
      return maybe_stored(RmsNormSource(kernels, source.x, source.norm));
    case plan::SourceKind::silu_mul:
      if (source.silu != plan::SiluForm::rounded) {
        return maybe_stored(UnroundedSiluSource(kernels, source.x, source.silu));
      }
      return maybe_stored(GatedSource(kernels, source.x, Gate::silu));
    case plan::SourceKind::gelu_tanh_mul:
      return maybe_stored(GatedSource(kernels, source.x, Gate::gelu_tanh));
    case plan::SourceKind::relu2:
      return maybe_stored(Relu2Source(kernels, source.x));
    case plan::SourceKind::swiglu_clamped:
      return maybe_stored(SwigluSource(kernels, source.x, source.swiglu));
  }
}

}  // namespace rowscale::cpu
