// The unit of work of a conversion: a piece of a tensor that fits in a buffer, whatever the size of
// the tensor.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/plan.hpp"
#include "checkpoint/shard_layout.hpp"
#include "checkpoint/strip_device.hpp"

namespace rowscale::checkpoint {

// An amax over many strips, of a weight, a fused group, or a row too long for one strip. Strips
// that need it are scheduled behind all that measure for it.
class SharedAmax {
 public:
  void expect(int strips) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_ += strips;
  }
  void raise(float amax);
  // The amax, once all strips have raised it; 0 if stopping() says so before.
  template <class Stopping>
  float wait(Stopping&& stopping) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (pending_ > 0 && !stopping()) {
      complete_.wait_for(lock, std::chrono::milliseconds(20));
    }
    return pending_ > 0 ? 0.0F : amax_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  int64_t pending_ = 0;
  float amax_ = 0.0F;
};

// A weight matrix of the source and where its codes and scales go.
struct Weight {
  Place source;
  WeightPart part;
  StoredType stored = StoredType::bf16;  // F8_E4M3: block FP8, to be requantized
  StoredType type = StoredType::bf16;    // of the arithmetic: `stored`, or the config's
  Slot codes;
  Slot scales;
  std::shared_ptr<SharedAmax> amax;  // fp8-tensor
  // Block FP8 only: [ceil(rows / block_rows), ceil(columns / block_columns)], widened.
  std::vector<float> source_scales;
};

enum class TaskKind {
  copy,          // bytes of the source tensor to bytes of the file
  widen_scales,  // UE8M0 bytes to fp32
  measure,       // raises `amax`
  cast,          // codes and scales
  dequantize,    // FP8 to Weight::type
};

struct Task {
  TaskKind kind = TaskKind::copy;
  uint32_t tensor = 0;       // of the shard that is written
  bool ends_tensor = false;  // the last strip of it
  int64_t source_bytes = 0;  // for progress

  // copy, widen_scales
  Place source;
  int64_t begin = 0;  // in the source tensor; dequantize: in what it becomes
  int64_t bytes = 0;  // dequantize too
  int64_t to = 0;     // in the file; dequantize too

  // measure, cast, dequantize: a rectangle of the weight
  std::shared_ptr<const Weight> weight;
  std::shared_ptr<SharedAmax> amax;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;

  Place source_place() const { return weight ? weight->source : source; }
};

struct Strip {
  Task task;
  std::unique_ptr<StripDevice> device = open_strip_device(DeviceType::cpu);
  HostBuffer in;      // as read
  HostBuffer work;    // transposed, or decoded from FP8
  HostBuffer codes;   // [rows, columns]
  HostBuffer scales;  // of the rectangle, row by row
};

}  // namespace rowscale::checkpoint
