// Which instruction sets this machine runs, and the choice of one.
#pragma once

#include "cpu/kernels.hpp"
#include "rowscale/exec.hpp"

namespace rowscale::cpu {

bool is_supported(Target target);       // built, and this machine runs it; best always is
Target resolve_target(Target target);   // best -> the fastest supported one
const Kernels& kernels(Target target);  // of a resolved, supported target

}  // namespace rowscale::cpu
