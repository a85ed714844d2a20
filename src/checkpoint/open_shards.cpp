#include "checkpoint/open_shards.hpp"

#include <fcntl.h>

#include <cstddef>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

// A process may have 1024 files open, as a rule; a strip needs its own shard, and one or two more.
constexpr size_t kMostOpen = 32;

}  // namespace

OpenShards::~OpenShards() {
  for (const uint32_t shard : open_) model_.shards()[shard].release();
}

const TensorFile& OpenShards::acquire(uint32_t shard) {
  TensorFile& file = model_.shards()[shard];
  if (file.descriptor() >= 0) return file;
  if (open_.size() >= kMostOpen) release_all();
  require_readable(file.acquire());
  // A hint; without it the kernel reads ahead less.
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  open_.insert(shard);
  return file;
}

void OpenShards::release_all() {
  while (!open_.empty()) {
    TensorFile& file = model_.shards()[*open_.begin()];
    require_readable(file.check_unchanged());
    file.release();
    open_.erase(open_.begin());
  }
}

}  // namespace rowscale::checkpoint
