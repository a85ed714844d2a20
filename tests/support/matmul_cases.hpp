// One product as a test: made from a few words, run on any device and backend, held to fp64.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/support/matmul_reference.hpp"

namespace rowscale::test {

enum class MatmulData {
  random,  // any finite codes, scales of any mantissa; results are of order 1
  tags,    // ones, every scale another power of two: a misplaced one shows as a factor
  nans,    // as random, with NaN codes in a few rows of A and B
};

struct MatmulCase {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  MatmulOptions options;  // recipes with their formats, the backend, ...
  DType out = DType::bf16;
  std::optional<DType> bias;
  // Elements between the rows of a tensor, and bytes (elements of out) by which its memory lies
  // behind a multiple of 256.
  int64_t gap_a = 0;
  int64_t gap_b = 0;
  int64_t gap_out = 0;
  int64_t shift_a = 0;
  int64_t shift_b = 0;
  int64_t shift_out = 0;
  // Experts: their sorted rows begin at offsets (one more than there are experts, as the call gets
  // them: not always in order), or counts of masked rows.
  std::vector<int32_t> offsets;
  std::vector<int32_t> counts;
  MatmulData data = MatmulData::random;
  uint64_t seed = 1;
};

std::string to_string(const MatmulCase& c);
inline std::ostream& operator<<(std::ostream& out, const MatmulCase& c) {
  return out << to_string(c);
}

// Memory of a device, for the length of a test.
class MatmulMemory {
 public:
  MatmulMemory() = default;
  virtual ~MatmulMemory() = default;
  MatmulMemory(const MatmulMemory&) = delete;
  MatmulMemory& operator=(const MatmulMemory&) = delete;

  [[nodiscard]] virtual Device device() const = 0;
  // A multiple of 256; the memory's until the object's end.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void write(void* to, const void* from, int64_t bytes) = 0;
  // After all work that was started before.
  virtual void read(void* to, const void* from, int64_t bytes) = 0;
};

std::unique_ptr<MatmulMemory> host_memory();

// The largest u for which |D - reference| <= u * magnitude before the cast to the output's dtype,
// as docs/numerics.md states it.
double matmul_unit(MatmulBackend backend, const MatmulOptions& options, int64_t k);

// A case with its data in a device's memory, everything around them NaN.
class MatmulCall {
 public:
  MatmulCall(const MatmulCase& c, MatmulMemory* memory);

  [[nodiscard]] const MatmulTensors& tensors() const { return tensors_; }
  [[nodiscard]] const MatmulValues& values() const { return values_; }

  // Makes a plan, by the case's backend or by another one. Fails like MatmulPlan::make.
  Status plan();
  Status plan(MatmulBackend backend);
  [[nodiscard]] const MatmulPlan& made_plan() const { return plan_; }
  // Runs it on an output that is poisoned anew; exec without a workspace, which the call has.
  Status run(const Exec& exec = {});

  // Of the last run: every element (or a sample, where they are many) within the bound; what is not
  // an element unchanged. unit: matmul_unit of the plan's backend where it is 0.
  [[nodiscard]] testing::AssertionResult check(double unit = 0.0) const;
  // The largest error of the same elements in units of 2^-24 * magnitude, beyond the rounding to
  // the output's dtype.
  [[nodiscard]] double largest_error() const;
  // The memory of out after the last run, guards included; and one row of it.
  [[nodiscard]] const std::vector<std::byte>& out_bytes() const { return out_; }
  [[nodiscard]] std::vector<std::byte> out_row(int64_t batch, int64_t row) const;

 private:
  struct Element {
    int64_t expert, batch, row, column;
    MatmulReference want;
  };
  void make_values();
  void place();
  void* place_image(const std::vector<uint8_t>& image, int64_t shift);
  void place_codes(TensorView* view, const std::vector<uint8_t>& codes, DType dtype, bool batched,
                   int64_t batches, int64_t rows, int64_t gap, int64_t shift);
  void place_scales(TensorView* view, const TensorView& codes, const Recipe& recipe,
                    const std::vector<double>& scales, int64_t batches, int64_t rows);
  void place_bias();
  void place_experts();
  void place_out();
  // The expert of a row of a batch, -1 for none.
  [[nodiscard]] int64_t expert_of(int64_t batch, int64_t row) const;
  // The elements that are checked, found when they are first asked for.
  [[nodiscard]] const std::vector<Element>& sample() const;
  [[nodiscard]] std::vector<Element> make_sample() const;
  [[nodiscard]] int64_t out_offset(int64_t batch, int64_t row, int64_t column) const;  // bytes
  [[nodiscard]] double out_at(const Element& e) const;

  MatmulCase case_;
  MatmulMemory* memory_;
  MatmulValues values_;
  MatmulTensors tensors_;
  MatmulPlan plan_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  std::byte* out_memory_ = nullptr;  // with its guards
  std::vector<std::byte> poison_;
  std::vector<std::byte> out_;
  mutable std::optional<std::vector<Element>> sample_;
};

// Plans, runs and checks one case.
testing::AssertionResult matmul_is_right(const MatmulCase& c, MatmulMemory* memory,
                                         const Exec& exec = {}, double unit = 0.0);

}  // namespace rowscale::test
