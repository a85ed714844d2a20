// The copies of linear/copies.hpp by the CUDA runtime, in exec.stream; unsupported in a build
// without CUDA (absent.cpp). Width and height are at least 1.
#pragma once

#include "linear/copies.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/status.hpp"

namespace rowscale::cuda {

Status copy_rows(const linear::Rows& rows, int device, const Exec& exec);
Status zero_rows(const linear::Rows& rows, int device, const Exec& exec);

}  // namespace rowscale::cuda
