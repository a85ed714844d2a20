// A call made twice, on the CPU and on the GPU, over memory that starts alike and must end alike.
//
// A lane holds an image: all that the call may write, and inputs of its own. The image starts as
// noise, so that outputs, their pads and the guard zones between them are poisoned by bytes that
// depend on the place. After the call on each side every byte of the two images is compared: what
// was not written, what was written beside an output, and what was not to be written are found like
// a wrong value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rowscale/exec.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"
#include "tests/cuda/support/device.hpp"

namespace rowscale::test {

// A part of the image.
struct Slot {
  std::string name;
  int64_t begin = 0;   // bytes from the image's begin
  int64_t size = 0;    // bytes
  TensorView view;     // for messages: the shape of what lies here; rank 0: bytes
  int64_t offset = 0;  // bytes from the slot's begin to the view's first element
};

// Memory that both sides have and neither writes.
struct Shared {
  const std::byte* host = nullptr;
  const std::byte* device = nullptr;
  int64_t size = 0;
};

// Where a call runs.
struct Side {
  Device device;
  std::byte* image = nullptr;
  Exec exec;

  [[nodiscard]] bool is_gpu() const { return device.type == DeviceType::cuda; }
  // The shape with the data of a slot.
  [[nodiscard]] TensorView view(const Slot& slot) const {
    return placed(slot.view, image + slot.begin + slot.offset);
  }
  [[nodiscard]] TensorView view(const TensorView& shape, const Shared& memory,
                                int64_t offset) const {
    const std::byte* base = is_gpu() ? memory.device : memory.host;
    return placed(shape, const_cast<std::byte*>(base) + offset);
  }
  [[nodiscard]] std::byte* at(const Slot& slot) const { return image + slot.begin; }

 private:
  [[nodiscard]] TensorView placed(TensorView shape, std::byte* data) const {
    shape.data = data;
    shape.device = device;
    return shape;
  }
};

// The first byte that differs.
struct Difference {
  std::string text;    // the place in words, and both values
  std::string slot;    // empty: not inside a slot
  int64_t offset = 0;  // bytes from the slot's view's first element
};

using Call = std::function<Status(const Side&)>;

class Lane {
 public:
  static constexpr int64_t kGuard = 256;

  // An image of at most `bytes`.
  explicit Lane(int64_t bytes);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Forgets the slots of the case before.
  void reset();
  // Noise. `shift`: bytes behind an alignment of 256.
  Slot reserve(std::string name, const TensorView& view, int64_t bytes, int64_t offset = 0,
               int64_t shift = 0);
  // An input of the call, on both sides.
  Slot fill(std::string name, const TensorView& view, const std::byte* content, int64_t bytes,
            int64_t shift = 0);

  // Makes the call on both sides. `exec` is what the CPU gets; the GPU gets a stream and as much
  // workspace as is asked for, full of noise, too. Nothing: the images are equal and both calls
  // were ok.
  std::optional<Difference> compare(const Exec& exec, size_t workspace_bytes, const Call& call);

  // The same with two ways of making the call, both on the GPU.
  std::optional<Difference> compare_on_gpu(const Exec& exec, const Call& call,
                                           const Call& expected);

  // The parts of compare(), for calls that are made another way: sides, upload(), the GPU's work in
  // stream(), download(), the CPU's work, a synchronization, difference().
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] Side gpu_side(const Exec& exec, size_t workspace_bytes);
  [[nodiscard]] Side cpu_side(const Exec& exec) const;
  void upload();
  void download();
  void synchronize() const { stream_.synchronize(); }
  // For another round with the same slots: other content for an input, and noise in all the rest.
  void change(const Slot& input, const std::byte* content);
  void poison_again();
  [[nodiscard]] std::optional<Difference> difference() const;

  [[nodiscard]] const std::byte* got() const { return got_.data(); }
  [[nodiscard]] std::byte* want() const { return want_.data(); }

 private:
  int64_t append(int64_t bytes, int64_t shift);
  // Uploads, makes the call, and waits for the copy back.
  Status run_on_gpu(const Side& side, const Call& call);
  [[nodiscard]] Difference describe(int64_t at) const;

  Stream stream_;
  cudaEvent_t uploaded_ = nullptr;
  DeviceMemory device_;
  PinnedMemory want_;  // the image of the CPU
  PinnedMemory got_;   // the image of the GPU, copied back
  DeviceMemory noise_;
  int64_t end_ = 0;
  std::vector<Slot> slots_;
  std::vector<Slot> inputs_;
  std::optional<Slot> workspace_;  // whose content is not compared
};

// "[3, 17]", or "beside its elements" for a pad or a gap.
std::string coordinate_text(const TensorView& view, int64_t byte_offset);

}  // namespace rowscale::test
