#include "matmul/cache.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace rowscale::product {
namespace {

class Hash {
 public:
  void add(int64_t value) {
    // A multiplication and a shift of each: the numbers are small and much alike.
    state_ = (state_ ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15U;
    state_ ^= state_ >> 32;
  }
  template <class Enum>
  void add_enum(Enum value) {
    add(static_cast<int64_t>(value));
  }
  [[nodiscard]] uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x243F6A8885A308D3U;
};

void add(Hash* hash, const Operand& operand) {
  hash->add_enum(operand.dtype);
  hash->add(operand.row_stride);
  hash->add(operand.batch_stride);
  hash->add(operand.alignment);
}

// Fields that these determine, or that hardly ever differ alone, are left to the comparison.
uint64_t hash_of(const Problem& p, const MatmulOptions& options) {
  Hash hash;
  for (int64_t size : {p.m, p.n, p.k, p.experts}) hash.add(size);
  hash.add_enum(p.grouping);
  for (const Operand* operand : {&p.a, &p.b, &p.out}) add(&hash, *operand);
  for (const Recipe* recipe : {&p.recipe_a, &p.recipe_b}) {
    hash.add_enum(recipe->granularity);
    hash.add_enum(recipe->encoding);
    hash.add_enum(recipe->layout);
  }
  hash.add(p.has_bias ? 1 + static_cast<int64_t>(p.bias) : 0);
  hash.add(p.device.index);
  hash.add_enum(options.backend);
  hash.add_enum(options.accumulation);
  return hash.value();
}

// What of the options is not in the problem.
bool same_choices(const MatmulOptions& a, const MatmulOptions& b) {
  return a.backend == b.backend && a.accumulation == b.accumulation && a.tuning == b.tuning &&
         a.batch_invariance == b.batch_invariance;
}

class Cache {
 public:
  std::shared_ptr<const MatmulPlan::Data> find(uint64_t hash, const Problem& problem,
                                               const MatmulOptions& options) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int at = find_locked(hash, problem, options);
    if (at < 0) return nullptr;
    used_[static_cast<size_t>(at)] = ++clock_;
    return plans_[static_cast<size_t>(at)];
  }

  void insert(uint64_t hash, std::shared_ptr<const MatmulPlan::Data> plan) {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t oldest = 0;
    const int same = find_locked(hash, plan->problem, plan->options);
    if (same >= 0) {
      oldest = static_cast<size_t>(same);  // another thread was first
    } else {
      for (size_t i = 1; i < used_.size(); ++i) {
        if (used_[i] < used_[oldest]) oldest = i;
      }
    }
    hashes_[oldest] = hash;
    used_[oldest] = ++clock_;
    plans_[oldest].swap(plan);  // the dropped plan dies behind the lock
  }

 private:
  int find_locked(uint64_t hash, const Problem& problem, const MatmulOptions& options) const {
    for (int i = 0; i < kCachedPlans; ++i) {
      const auto at = static_cast<size_t>(i);
      if (hashes_[at] == hash && plans_[at] != nullptr && plans_[at]->problem == problem &&
          same_choices(plans_[at]->options, options)) {
        return i;
      }
    }
    return -1;
  }

  std::mutex mutex_;
  std::array<uint64_t, kCachedPlans> hashes_{};
  std::array<uint64_t, kCachedPlans> used_{};
  std::array<std::shared_ptr<const MatmulPlan::Data>, kCachedPlans> plans_;
  uint64_t clock_ = 0;
};

// A child of fork() starts with a cache of its own: a lock of this one may have been held. Never
// destroyed, since calls may come while the process ends.
std::atomic<Cache*> current_cache{nullptr};

Cache* cache() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { current_cache.store(nullptr); });
  static_cast<void>(registered);
  Cache* seen = current_cache.load(std::memory_order_acquire);
  if (seen != nullptr) return seen;
  auto* made = new (std::nothrow) Cache;
  if (made == nullptr || current_cache.compare_exchange_strong(seen, made)) return made;
  delete made;  // another thread was first
  return seen;
}

}  // namespace

Status cached_plan(const Problem& problem, const MatmulOptions& options,
                   std::shared_ptr<const MatmulPlan::Data>* data) {
  const uint64_t hash = hash_of(problem, options);
  Cache* plans = cache();
  if (plans != nullptr) {
    *data = plans->find(hash, problem, options);
    if (*data != nullptr) return {};
  }
  if (Status status = MatmulPlan::Data::make(problem, options, data); !status.ok()) return status;
  if (plans != nullptr) plans->insert(hash, *data);
  return {};
}

}  // namespace rowscale::product
