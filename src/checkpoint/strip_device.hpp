// Where the numbers of a strip are cast: the host itself, or a GPU that is fed from host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rowscale/exec.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::checkpoint {

// Host memory that a device copies from and to. Grows only: a buffer serves strip after strip.
class HostBuffer {
 public:
  using Memory = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

  [[nodiscard]] std::byte* data() { return memory_.get(); }
  [[nodiscard]] const std::byte* data() const { return memory_.get(); }

 private:
  friend class StripDevice;
  Memory memory_{nullptr, nullptr};
  int64_t bytes_ = 0;
};

// What a strip holds one of.
enum class StripRole { input, source_scales, decoded, codes, scales, amax };
inline constexpr int kStripRoles = 6;

// One for a strip: used by one thread at a time. Throws Failure(output) where memory runs out or a
// copy fails.
class StripDevice {
 public:
  StripDevice() = default;
  StripDevice(const StripDevice&) = delete;
  StripDevice& operator=(const StripDevice&) = delete;
  virtual ~StripDevice() = default;

  // At least `bytes`, of any content. What the buffer held is gone if it has to grow.
  std::byte* room(HostBuffer* buffer, int64_t bytes);

  // The numbers of `host` where the arithmetic reads them, until the next one of that role.
  virtual TensorView upload(StripRole role, const TensorView& host) = 0;
  // Room for a result, which is in `host` after finish().
  virtual TensorView result(StripRole role, const TensorView& host) = 0;
  // Room for what the host never reads; `buffer` is it where the host does the arithmetic.
  virtual TensorView scratch(StripRole role, HostBuffer* buffer, DType dtype, int64_t rows,
                             int64_t columns) = 0;
  // Waits for the work, and for the results.
  virtual void finish() = 0;
  // How calls on these views run.
  [[nodiscard]] virtual Exec exec() const = 0;

 private:
  virtual HostBuffer::Memory allocate(int64_t bytes) = 0;
};

std::unique_ptr<StripDevice> open_strip_device(DeviceType type);

// Throws Failure(unsupported) where `type` is cuda and this build has no CUDA, or this machine no
// GPU that it can use.
void require_device(DeviceType type);

}  // namespace rowscale::checkpoint
