// Items of work over threads. What an item computes never depends on which thread takes it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rowscale::cpu {

// CPUs that this process may run on (its affinity mask).
int available_threads();

// body(context, begin, end) for disjoint ranges that cover [0, items), on up to `threads` threads,
// the caller's among them; returns when all are done. Every thread runs in the state of
// ScopedFpEnv. Worker threads are started by the first call that wants them and kept; while another
// call uses them, a call runs on its own thread alone.
void parallel_ranges(int64_t items, int threads, void (*body)(void*, int64_t, int64_t),
                     void* context);

// body(item)
template <class Body>
void parallel_for(int64_t items, int threads, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  parallel_ranges(
      items, threads,
      [](void* context, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) (*static_cast<Callable*>(context))(i);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace rowscale::cpu
