#include "tests/cuda/support/matmul_memory.hpp"

#include <vector>

namespace rowscale::test {
namespace {

class GpuMemory final : public MatmulMemory {
 public:
  explicit GpuMemory(const Stream& stream) : stream_(stream) {}

  [[nodiscard]] Device device() const override { return kGpu; }

  void* allocate(int64_t bytes) override {
    blocks_.emplace_back(bytes);
    return blocks_.back().data();
  }

  void write(void* to, const void* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                               stream_.get()),
               "cudaMemcpyAsync");
    stream_.synchronize();
  }

  void read(void* to, const void* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                               stream_.get()),
               "cudaMemcpyAsync");
    stream_.synchronize();
  }

 private:
  const Stream& stream_;
  std::vector<DeviceMemory> blocks_;
};

}  // namespace

std::unique_ptr<MatmulMemory> gpu_memory(const Stream& stream) {
  return std::make_unique<GpuMemory>(stream);
}

}  // namespace rowscale::test
