#include "checkpoint/convert.hpp"

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
void check_target(const Model&, const Plan&, const ConvertRequest&) {}
Outcome convert(Model*, const Plan&, const ConvertRequest&, Listener*) {
  refuse_usage("only --dry-run is there yet");
}
}  // namespace rowscale::checkpoint
