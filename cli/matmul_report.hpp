// What `bench matmul` says, on any device: tables on stdout, a CSV file, an SVG picture.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "matmul_cases.hpp"

namespace rowscale::cli {

enum class MatmulPart { dense, linear, grouped, calls };
const char* to_string(MatmulPart part);
MatmulPart parse_matmul_part(const std::string& key);  // throws Failure(usage)

struct MatmulRow {
  MatmulPart part = MatmulPart::dense;
  MatmulCase problem;
  std::string call;  // "matmul", "quantize + matmul", "plan.run"
  MatmulBackend backend = MatmulBackend::best;
  std::string algorithm;
  Tuning tuning = Tuning::off;
  bool is_chosen = false;
  bool is_tuned_choice = false;
  double seconds = 0;         // of the device; of the calling thread in `calls`
  double bytes = 0;           // that have to move; of experts the touched weights, read once
  double ceiling_rate = 0;    // bytes a second of the fastest copy or read in this run
  double reference = 0;       // seconds of what over_reference compares with; 0: nothing
  double over_reference = 0;  // the median of the rounds: of cuBLASLt's own way (dense), of the
                              // product alone (linear)
  int64_t touched = 0;        // experts that have rows
  int work_launches = 0;      // kernels and copies of one call; 0: not counted
  int sets = 0;
  int launches = 0;

  [[nodiscard]] double floor() const { return ceiling_rate > 0 ? bytes / ceiling_rate : 0; }
};

// A backend that does not serve a case.
struct MatmulRefusal {
  MatmulCase problem;
  BackendRefusal refusal;
};

class MatmulReport {
 public:
  // About the machine: titles and values of the columns that stand before each line of the CSV.
  using About = std::vector<std::pair<std::string, std::string>>;
  MatmulReport(About about, std::string machine, int rounds);

  void print_heading(double ceiling_rate) const;
  // One table: the rows of one part and layer, and of the same scales.
  void add_and_print(const std::vector<MatmulRow>& rows,
                     const std::vector<MatmulRefusal>& refusals);

  [[nodiscard]] bool is_empty() const { return rows_.empty(); }
  [[nodiscard]] std::string csv() const;
  // Bytes a second over m, of the first layer and pair of scales, up to the m that weights bound.
  [[nodiscard]] std::string svg() const;

 private:
  About about_;
  std::string machine_;
  int rounds_;
  std::vector<MatmulRow> rows_;
};

}  // namespace rowscale::cli
