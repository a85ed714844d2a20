// Long loops over bit patterns: failures are counted and the first one is shown, because a wrong
// function would otherwise print millions of lines.
#pragma once

#include <cstdint>
#include <ostream>
#include <thread>
#include <vector>

namespace rowscale::test {

// Under a sanitizer every loop costs about ten times as much; strides grow by this factor, which
// keeps a prime stride coprime to 2^32.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr uint32_t kSlower = 11;
#else
inline constexpr uint32_t kSlower = 1;
#endif

struct Mismatches {
  uint64_t checked = 0;
  uint64_t count = 0;
  uint32_t input = 0;  // of the first one
  uint32_t other = 0;  // a second input, where there is one
  uint32_t got = 0;
  uint32_t want = 0;

  void check(uint32_t in, uint32_t result, uint32_t expected, uint32_t second_in = 0) {
    ++checked;
    if (result == expected) return;
    if (count++ == 0) {
      input = in;
      other = second_in;
      got = result;
      want = expected;
    }
  }
  void merge(const Mismatches& from) {
    if (count == 0 && from.count != 0) {
      input = from.input;
      other = from.other;
      got = from.got;
      want = from.want;
    }
    checked += from.checked;
    count += from.count;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Mismatches& m) {
  return out << m.count << " of " << m.checked << " differ; first: input 0x" << std::hex << m.input
             << " (second input 0x" << m.other << "): got 0x" << m.got << ", want 0x" << m.want
             << std::dec;
}

// part(begin, end, Mismatches&) for each thread's share of [begin, end).
template <class Part>
Mismatches sweep(uint64_t begin, uint64_t end, Part part) {
  constexpr int kThreads = 2;
  std::vector<Mismatches> found(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    const uint64_t from = begin + (end - begin) * static_cast<uint64_t>(t) / kThreads;
    const uint64_t to = begin + (end - begin) * static_cast<uint64_t>(t + 1) / kThreads;
    threads.emplace_back([part, from, to, &mine = found[t]] { part(from, to, mine); });
  }
  for (std::thread& thread : threads) thread.join();
  Mismatches all;
  for (const Mismatches& m : found) all.merge(m);
  return all;
}

}  // namespace rowscale::test
