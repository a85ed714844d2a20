#include "cpu/parallel.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "cpu/fp_env.hpp"

namespace rowscale::cpu {
namespace {

// A range of items is taken in about this many pieces a thread, so that a thread that was held up
// leaves little for the others to wait for.
constexpr int64_t kPiecesPerThread = 32;

struct Job {
  int64_t items;
  int64_t piece;
  void (*body)(void*, int64_t, int64_t);
  void* context;
  std::atomic<int64_t> next{0};

  void work() {
    const ScopedFpEnv env;
    while (true) {
      const int64_t begin = next.fetch_add(piece, std::memory_order_relaxed);
      if (begin >= items) return;
      body(context, begin, std::min(begin + piece, items));
    }
  }
};

class Pool {
 public:
  // One job at a time; false where another thread's job is under way.
  bool try_run(Job* job, int threads) {
    const std::unique_lock<std::mutex> one_job(busy_, std::try_to_lock);
    if (!one_job.owns_lock()) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      start_workers(threads - 1);
      job_ = job;
      wanted_ = std::min(threads - 1, workers_);
      active_ = 0;
    }
    start_.notify_all();
    job->work();
    std::unique_lock<std::mutex> lock(mutex_);
    wanted_ = 0;  // who has not begun by now finds nothing to do
    done_.wait(lock, [this] { return active_ == 0; });
    job_ = nullptr;
    return true;
  }

  [[nodiscard]] pid_t owner() const { return owner_; }

 private:
  // As many as the system lets us; with fewer the work takes longer.
  void start_workers(int count) {
    try {
      for (; workers_ < count; ++workers_) std::thread([this] { loop(); }).detach();
    } catch (const std::system_error&) {
    }
  }

  void loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      start_.wait(lock, [this] { return wanted_ > 0; });
      --wanted_;
      ++active_;
      Job* job = job_;
      lock.unlock();
      job->work();
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  std::mutex busy_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  int workers_ = 0;
  pid_t owner_ = getpid();
  Job* job_ = nullptr;
  int wanted_ = 0;
  int active_ = 0;
};

// Threads do not survive fork(): the child makes a pool of its own. Pools are never destroyed, since
// their threads may wait in them while the process ends. No lock, which a fork could leave held.
Pool& pool() {
  static std::atomic<Pool*> current{nullptr};
  Pool* seen = current.load(std::memory_order_acquire);
  if (seen != nullptr && seen->owner() == getpid()) return *seen;
  auto* made = new Pool;
  if (current.compare_exchange_strong(seen, made, std::memory_order_acq_rel)) return *made;
  delete made;  // another thread was first
  return *seen;
}

}  // namespace

int available_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

void parallel_ranges(int64_t items, int threads, void (*body)(void*, int64_t, int64_t),
                     void* context) {
  threads = static_cast<int>(std::min<int64_t>(threads, items));
  Job job{items, std::max<int64_t>(1, items / std::max<int64_t>(1, threads * kPiecesPerThread)),
          body, context};
  if (threads <= 1 || !pool().try_run(&job, threads)) job.work();
}

}  // namespace rowscale::cpu
