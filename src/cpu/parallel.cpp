#include "cpu/parallel.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <new>
#include <thread>

#include "cpu/fp_env.hpp"

namespace rowscale::cpu {
namespace {

// A range of items is taken in about this many pieces a thread, so that a thread that was held up
// leaves little for the others to wait for.
constexpr int64_t kPiecesPerThread = 32;

// Of a worker; operators need up to 160 KiB (Exec::threads).
constexpr size_t kWorkerStackBytes = 524288;

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

 private:
  // As many as the system lets us; with fewer the work takes longer. Workers take no signals:
  // handlers stay with the program's own threads.
  void start_workers(int count) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kWorkerStackBytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const auto work = [](void* self) -> void* {
      static_cast<Pool*>(self)->loop();
      return nullptr;
    };
    for (; workers_ < count; ++workers_) {
      pthread_t thread;
      if (pthread_create(&thread, &attributes, work, this) != 0) break;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  Job* job_ = nullptr;
  int wanted_ = 0;
  int active_ = 0;
};

// Threads do not survive fork(), and a lock may have been held: the child forgets the pool and
// makes one of its own. Pools are never destroyed, since their threads may wait in them while the
// process ends.
std::atomic<Pool*> current_pool{nullptr};

// nullptr without memory.
Pool* pool() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { current_pool.store(nullptr); });
  static_cast<void>(registered);
  Pool* seen = current_pool.load(std::memory_order_acquire);
  if (seen != nullptr) return seen;
  auto* made = new (std::nothrow) Pool;
  if (made == nullptr || current_pool.compare_exchange_strong(seen, made)) return made;
  delete made;  // another thread was first
  return seen;
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
  Pool* workers = threads > 1 ? pool() : nullptr;
  if (workers == nullptr || !workers->try_run(&job, threads)) job.work();
}

}  // namespace rowscale::cpu
