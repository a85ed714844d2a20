// How far a quantized weight is from the weight it was made from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace rowscale::checkpoint {

struct LayerError {
  std::string module;
  int64_t elements = 0;
  double signal = 0;  // sum of x^2
  double noise = 0;   // sum of (x - code * scale)^2
  double worst = 0;   // largest |x - code * scale|
  double amax = 0;    // largest |x|

  // Against the weight computed again.
  int64_t different_codes = 0;
  int64_t different_scales = 0;

  // Of another piece of the same layer.
  void add(const LayerError& other) {
    elements += other.elements;
    signal += other.signal;
    noise += other.noise;
    worst = std::max(worst, other.worst);
    amax = std::max(amax, other.amax);
    different_codes += other.different_codes;
    different_scales += other.different_scales;
  }

  // Decibels; infinite without noise, and minus infinity where a code or a scale is no number: what
  // is sorted by it must be ordered.
  double snr() const {
    if (noise == 0) return std::numeric_limits<double>::infinity();
    const double ratio = 10 * std::log10(signal / noise);
    return std::isnan(ratio) ? -std::numeric_limits<double>::infinity() : ratio;
  }
  double worst_share() const { return amax == 0 ? 0 : worst / amax; }
};

}  // namespace rowscale::checkpoint
