// Reading, converting and writing at the same time, over a fixed number of strips: one thread
// reads, several work, the caller's writes. Strips are written in the order in which they were
// read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rowscale::checkpoint {

template <class Strip>
class Pipeline {
 public:
  struct Stages {
    std::function<bool(Strip*)> read;   // false: there is no more
    std::function<void(Strip*)> work;   // from several threads
    std::function<bool(Strip*)> write;  // in order; false: stop here
  };

  Pipeline(int workers, int strips) : workers_(workers), strips_(static_cast<size_t>(strips)) {}

  std::vector<Strip>& strips() { return strips_; }
  // For work that waits on other work: whether it must give up.
  bool is_stopping() const { return stopping_.load(); }

  // Returns when all is written, or write() said stop. Throws what a stage threw.
  void run(const Stages& stages) {
    read_ = taken_ = written_ = 0;
    ended_ = false;
    stopping_ = false;
    failure_ = nullptr;
    done_.assign(strips_.size(), false);
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(workers_) + 1);
    try {
      threads.emplace_back([&] { guarded([&] { read_all(stages); }); });
      for (int i = 0; i < workers_; ++i) {
        threads.emplace_back([&] { guarded([&] { work_all(stages); }); });
      }
    } catch (...) {  // a thread that cannot start
      give_up(std::current_exception());
    }
    guarded([&] { write_all(stages); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  template <class Body>
  void guarded(Body&& body) {
    try {
      body();
    } catch (...) {
      give_up(std::current_exception());
    }
  }

  void give_up(std::exception_ptr why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (why && !failure_) failure_ = std::move(why);
    stopping_ = true;
    changed_.notify_all();
  }

  Strip* at(uint64_t number) { return &strips_[number % strips_.size()]; }

  void read_all(const Stages& stages) {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || read_ - written_ < strips_.size(); });
        if (stopping_) return;
      }
      const bool more = stages.read(at(read_));
      const std::lock_guard<std::mutex> lock(mutex_);
      if (more) {
        ++read_;
      } else {
        ended_ = true;
      }
      changed_.notify_all();
      if (!more) return;
    }
  }

  void work_all(const Stages& stages) {
    for (;;) {
      uint64_t number = 0;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || taken_ < read_ || ended_; });
        if (stopping_ || taken_ == read_) return;
        number = taken_++;
      }
      stages.work(at(number));
      const std::lock_guard<std::mutex> lock(mutex_);
      done_[number % strips_.size()] = true;
      changed_.notify_all();
    }
  }

  void write_all(const Stages& stages) {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] {
          return stopping_ || (written_ < read_ && done_[written_ % strips_.size()]) ||
                 (ended_ && written_ == read_);
        });
        if (stopping_ || written_ == read_) return;
      }
      const bool more = stages.write(at(written_));
      if (!more) {
        give_up(nullptr);
        return;
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      done_[written_ % strips_.size()] = false;
      ++written_;
      changed_.notify_all();
    }
  }

  int workers_;
  std::vector<Strip> strips_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> done_;
  uint64_t read_ = 0;
  uint64_t taken_ = 0;
  uint64_t written_ = 0;
  bool ended_ = false;
  std::atomic<bool> stopping_{false};
  std::exception_ptr failure_;
};

}  // namespace rowscale::checkpoint
