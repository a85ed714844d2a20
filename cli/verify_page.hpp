// The result of a verification as one HTML page that needs nothing from outside.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/check.hpp"
#include "checkpoint/layer_error.hpp"

namespace rowscale::cli {

struct VerifyReport {
  std::string model;   // as the command was given it
  std::string source;  // empty: not compared
  std::vector<checkpoint::Check> checks;
  std::vector<checkpoint::LayerError> layers;  // the lowest signal-to-noise ratio first

  bool holds() const;
};

std::string verify_page(const VerifyReport& report);

}  // namespace rowscale::cli
