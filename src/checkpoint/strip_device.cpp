#include "checkpoint/strip_device.hpp"

#include "checkpoint/cuda_strip_device.hpp"
#include "checkpoint/failure.hpp"
#include "cuda/devices.hpp"

namespace rowscale::checkpoint {
namespace {

class HostDevice final : public StripDevice {
 public:
  TensorView upload(StripRole /*role*/, const TensorView& host) override { return host; }
  TensorView result(StripRole /*role*/, const TensorView& host) override { return host; }
  TensorView scratch(StripRole /*role*/, HostBuffer* buffer, DType dtype, int64_t rows,
                     int64_t columns) override {
    return TensorView::contiguous(room(buffer, rows * columns * element_size(dtype)), dtype,
                                  {rows, columns});
  }
  void finish() override {}
  [[nodiscard]] Exec exec() const override { return {}; }

 private:
  HostBuffer::Memory allocate(int64_t bytes) override {
    return {new std::byte[static_cast<size_t>(bytes)], [](std::byte* memory) { delete[] memory; }};
  }
};

}  // namespace

std::byte* StripDevice::room(HostBuffer* buffer, int64_t bytes) {
  if (buffer->bytes_ < bytes) {
    buffer->memory_.reset();  // before the new one: both at once would be over the budget
    buffer->bytes_ = 0;
    buffer->memory_ = allocate(bytes);
    buffer->bytes_ = bytes;
  }
  return buffer->data();
}

std::unique_ptr<StripDevice> open_strip_device(DeviceType type) {
  if (type == DeviceType::cuda) return open_cuda_strip_device();
  return std::make_unique<HostDevice>();
}

void require_device(DeviceType type) {
  if (type != DeviceType::cuda) return;
  cuda::DeviceFacts facts;
  if (const Status status = cuda::find_device(0, &facts); !status.ok()) {
    throw Failure(FailureKind::unsupported, "--device cuda: " + status.message());
  }
}

}  // namespace rowscale::checkpoint
