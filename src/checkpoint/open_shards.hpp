// The shards of a model that are open: opened when something of them is read, and closed before
// they are too many, because a model may have more shards than a process may open files. For one
// thread.
#pragma once

#include <cstdint>
#include <set>

#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

class OpenShards {
 public:
  explicit OpenShards(Model* model) : model_(*model) {}
  OpenShards(const OpenShards&) = delete;
  OpenShards& operator=(const OpenShards&) = delete;
  ~OpenShards();

  // The shard, open until the next call of a member. Throws Failure(unreadable): it cannot be
  // opened, or was changed since the model was.
  const TensorFile& acquire(uint32_t shard);
  // Throws Failure(unreadable) where one was changed while it was read.
  void release_all();

 private:
  Model& model_;
  std::set<uint32_t> open_;
};

}  // namespace rowscale::checkpoint
