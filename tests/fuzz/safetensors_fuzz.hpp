// What the fuzzer runs on each input, and the replay of its corpus on each file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowscale::checkpoint {

// Reads the bytes as a safetensors file; true where the reader accepts them. Aborts where a promise
// of the reader is broken.
bool read_safetensors(const uint8_t* data, size_t size);

}  // namespace rowscale::checkpoint
