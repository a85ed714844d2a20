#include "tests/cuda/support/lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "numerics/fp8.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

// Noise repeats after this many bytes; the odd size keeps it from lining up with rows.
constexpr int64_t kNoisePeriod = (int64_t{1} << 22) + 1031;

const std::vector<std::byte>& noise() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(static_cast<size_t>(kNoisePeriod));
    Random random(0x5EED);
    for (std::byte& byte : made) byte = static_cast<std::byte>(random.next() >> 56);
    return made;
  }();
  return bytes;
}

// visit(begin, count, begin in the noise) for the pieces of [begin, end).
template <class Visit>
void for_each_noise_piece(int64_t begin, int64_t end, Visit&& visit) {
  while (begin < end) {
    const int64_t in_noise = begin % kNoisePeriod;
    const int64_t count = std::min(end - begin, kNoisePeriod - in_noise);
    visit(begin, count, in_noise);
    begin += count;
  }
}

void copy_noise(std::byte* image, int64_t begin, int64_t end) {
  for_each_noise_piece(begin, end, [&](int64_t at, int64_t count, int64_t in_noise) {
    std::memcpy(image + at, noise().data() + in_noise, static_cast<size_t>(count));
  });
}

std::string value_text(DType dtype, const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(element_size(dtype)));
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return fmt::format("0x{:0{}x} ({:a})", bits, 2 * element_size(dtype), load_value(dtype, at));
    case DType::e4m3:
      return fmt::format("0x{:02x} ({})", bits,
                         numerics::decode<numerics::E4m3>(static_cast<uint8_t>(bits)));
    case DType::e5m2:
      return fmt::format("0x{:02x} ({})", bits,
                         numerics::decode<numerics::E5m2>(static_cast<uint8_t>(bits)));
    case DType::ue8m0:
      return fmt::format("0x{:02x} (2^{})", bits, static_cast<int>(bits) - 127);
    case DType::i32:
      return fmt::format("0x{:08x}", bits);
  }
  return {};
}

int64_t first_difference(const std::byte* a, const std::byte* b, int64_t begin, int64_t end) {
  // Blocks by memcmp, because all but one in a run of millions are equal.
  constexpr int64_t kBlock = 1 << 16;
  for (; begin < end; begin += kBlock) {
    const int64_t stop = std::min(end, begin + kBlock);
    if (std::memcmp(a + begin, b + begin, static_cast<size_t>(stop - begin)) == 0) continue;
    return std::mismatch(a + begin, a + stop, b + begin).first - a;
  }
  return -1;
}

}  // namespace

std::string coordinate_text(const TensorView& view, int64_t byte_offset) {
  const int64_t size = element_size(view.dtype);
  int64_t rest = (byte_offset - (byte_offset % size + size) % size) / size;  // rounded down
  std::vector<int> order;
  order.reserve(kMaxRank);
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::abs(view.strides[a]) > std::abs(view.strides[b]); });
  // From the lowest address, so that strides against the direction of memory count as others do.
  for (int i : order) {
    if (view.strides[i] < 0) rest -= (view.shape[i] - 1) * view.strides[i];
  }
  int64_t index[kMaxRank] = {};
  for (int i : order) {
    if (rest < 0) return "beside its elements";
    const int64_t stride = std::max<int64_t>(std::abs(view.strides[i]), 1);
    index[i] = rest / stride;
    rest %= stride;
    if (index[i] >= view.shape[i]) return "beside its elements";
    if (view.strides[i] < 0) index[i] = view.shape[i] - 1 - index[i];
  }
  if (rest != 0) return "beside its elements";
  return fmt::format("[{}]", fmt::join(index, index + view.rank, ", "));
}

Lane::Lane(int64_t bytes)
    : device_(bytes), want_(bytes), got_(bytes), noise_(std::min(bytes, kNoisePeriod)) {
  check_cuda(cudaEventCreateWithFlags(&uploaded_, cudaEventDisableTiming), "cudaEventCreate");
  check_cuda(cudaMemcpy(noise_.data(), noise().data(), static_cast<size_t>(noise_.size()),
                        cudaMemcpyHostToDevice),
             "copy of the noise");
  // A copy from pageable memory may still be on its way, and other streams do not wait for it.
  check_cuda(cudaStreamSynchronize(nullptr), "copy of the noise");
}

Lane::~Lane() {
  cudaEventDestroy(uploaded_);
}

void Lane::reset() {
  end_ = 0;
  slots_.clear();
  inputs_.clear();
  workspace_.reset();
}

int64_t Lane::append(int64_t bytes, int64_t shift) {
  const int64_t begin = (end_ + kGuard + 255) / 256 * 256 + shift;
  const int64_t end = begin + bytes + kGuard;
  if (end > device_.size()) {
    throw std::runtime_error(
        fmt::format("the image of a test has {} bytes, {} are needed", device_.size(), end));
  }
  copy_noise(want_.data(), end_, end);
  end_ = end;
  return begin;
}

Slot Lane::reserve(std::string name, const TensorView& view, int64_t bytes, int64_t offset,
                   int64_t shift) {
  Slot slot{std::move(name), append(bytes, shift), bytes, view, offset};
  slots_.push_back(slot);
  return slot;
}

Slot Lane::fill(std::string name, const TensorView& view, const std::byte* content, int64_t bytes,
                int64_t shift) {
  Slot slot = reserve(std::move(name), view, bytes, 0, shift);
  if (bytes > 0) std::memcpy(want_.data() + slot.begin, content, static_cast<size_t>(bytes));
  inputs_.push_back(slot);
  return slot;
}

Side Lane::gpu_side(const Exec& exec, size_t workspace_bytes) {
  Side side{kGpu, device_.data(), exec};
  side.exec.stream = stream_.get();
  if (workspace_bytes > 0) {
    const auto bytes = static_cast<int64_t>(workspace_bytes);
    workspace_ = Slot{"workspace", append(bytes, 0), bytes, {}, 0};
    side.exec.workspace = {side.at(*workspace_), workspace_bytes};
  }
  return side;
}

Side Lane::cpu_side(const Exec& exec) const {
  return {Device{}, want_.data(), exec};
}

void Lane::upload() {
  for_each_noise_piece(0, end_, [&](int64_t at, int64_t count, int64_t in_noise) {
    check_cuda(cudaMemcpyAsync(device_.data() + at, noise_.data() + in_noise,
                               static_cast<size_t>(count), cudaMemcpyDeviceToDevice, stream_.get()),
               "copy of noise");
  });
  for (const Slot& slot : inputs_) {
    if (slot.size == 0) continue;
    check_cuda(
        cudaMemcpyAsync(device_.data() + slot.begin, want_.data() + slot.begin,
                        static_cast<size_t>(slot.size), cudaMemcpyHostToDevice, stream_.get()),
        "copy of an input");
  }
}

void Lane::download() {
  check_cuda(cudaMemcpyAsync(got_.data(), device_.data(), static_cast<size_t>(end_),
                             cudaMemcpyDeviceToHost, stream_.get()),
             "copy of the image");
}

void Lane::change(const Slot& input, const std::byte* content) {
  std::memcpy(want_.data() + input.begin, content, static_cast<size_t>(input.size));
}

void Lane::poison_again() {
  for (const Slot& slot : slots_) {
    const bool is_input = std::any_of(inputs_.begin(), inputs_.end(),
                                      [&](const Slot& input) { return input.begin == slot.begin; });
    if (!is_input) copy_noise(want_.data(), slot.begin, slot.begin + slot.size);
  }
}

std::optional<Difference> Lane::compare(const Exec& exec, size_t workspace_bytes,
                                        const Call& call) {
  const Side gpu = gpu_side(exec, workspace_bytes);
  upload();
  check_cuda(cudaEventRecord(uploaded_, stream_.get()), "cudaEventRecord");
  const Status on_gpu = call(gpu);
  check_cuda(cudaPeekAtLastError(), "an error left by the call");
  download();
  // The CPU replaces what the GPU gets a copy of; it works beside the GPU after that copy.
  check_cuda(cudaEventSynchronize(uploaded_), "cudaEventSynchronize");
  const Status on_cpu = call(cpu_side(exec));
  stream_.synchronize();
  if (!on_gpu.ok() || !on_cpu.ok()) {
    return Difference{
        fmt::format("status on the GPU: {} ({}), on the CPU: {} ({})", to_string(on_gpu.code()),
                    on_gpu.message(), to_string(on_cpu.code()), on_cpu.message()),
        {},
        0};
  }
  return difference();
}

Status Lane::run_on_gpu(const Side& side, const Call& call) {
  upload();
  Status status = call(side);
  check_cuda(cudaPeekAtLastError(), "an error left by the call");
  download();
  synchronize();
  return status;
}

std::optional<Difference> Lane::compare_on_gpu(const Exec& exec, const Call& call,
                                               const Call& expected) {
  const Side gpu = gpu_side(exec, 0);
  const Status wanted = run_on_gpu(gpu, expected);
  const std::vector<std::byte> image(got_.data(), got_.data() + end_);
  const Status got = run_on_gpu(gpu, call);
  if (!got.ok() || !wanted.ok()) {
    return Difference{
        fmt::format("status: {} ({}), of the call beside it: {} ({})", to_string(got.code()),
                    got.message(), to_string(wanted.code()), wanted.message()),
        {},
        0};
  }
  std::copy(image.begin(), image.end(), want_.data());
  return difference();
}

std::optional<Difference> Lane::difference() const {
  const int64_t stop = workspace_ ? workspace_->begin : end_;
  int64_t at = first_difference(got_.data(), want_.data(), 0, stop);
  if (at < 0 && workspace_) {
    at = first_difference(got_.data(), want_.data(), workspace_->begin + workspace_->size, end_);
  }
  if (at < 0) return std::nullopt;
  return describe(at);
}

Difference Lane::describe(int64_t at) const {
  for (const Slot& slot : slots_) {
    if (at < slot.begin || at >= slot.begin + slot.size) continue;
    int64_t offset = at - slot.begin - slot.offset;
    if (slot.view.rank == 0) {
      return {fmt::format("{} byte {}: got {}, expected {}", slot.name, at - slot.begin,
                          value_text(DType::ue8m0, got_.data() + at),
                          value_text(DType::ue8m0, want_.data() + at)),
              slot.name, offset};
    }
    const int64_t size = element_size(slot.view.dtype);
    offset -= ((offset % size) + size) % size;  // the element's begin
    const int64_t element = slot.begin + slot.offset + offset;
    return {
        fmt::format("{} {} {} (byte {} of {}): got {}, expected {}", slot.name,
                    coordinate_text(slot.view, offset), to_string(slot.view.dtype), at - slot.begin,
                    slot.size, value_text(slot.view.dtype, got_.data() + element),
                    value_text(slot.view.dtype, want_.data() + element)),
        slot.name, offset};
  }
  const std::string values =
      fmt::format("0x{:02x}, expected 0x{:02x}", std::to_integer<int>(got_.data()[at]),
                  std::to_integer<int>(want_.data()[at]));
  if (workspace_ && at >= workspace_->begin - kGuard) {
    return {fmt::format("the guard of the workspace of {} bytes was written at byte {}: {}",
                        workspace_->size, at - workspace_->begin, values),
            {},
            0};
  }
  const Slot* nearest = nullptr;
  const auto distance = [&](const Slot& slot) {
    return at < slot.begin ? slot.begin - at : at - (slot.begin + slot.size);
  };
  for (const Slot& slot : slots_) {
    if (nearest == nullptr || distance(slot) < distance(*nearest)) nearest = &slot;
  }
  return {fmt::format("a guard was written, at byte {} of {} ({} bytes): {}",
                      nearest == nullptr ? at : at - nearest->begin,
                      nearest == nullptr ? "the image" : nearest->name,
                      nearest == nullptr ? end_ : nearest->size, values),
          {},
          0};
}

}  // namespace rowscale::test
