// The element types of the safetensors format.
#pragma once

#include <cstdint>
#include <string_view>

#include "rowscale/types.hpp"

namespace rowscale::checkpoint {

// In the order in which the reference writer sorts tensors.
enum class StoredType : int32_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,  // the "fn" form: largest 448, no infinity
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

const char* to_string(StoredType type);      // as the file spells it: "F8_E4M3"
int64_t bits_per_element(StoredType type);   // 4 and 6 occur
bool to_dtype(StoredType type, DType* out);  // false: rowscale has no such type
bool parse_type(std::string_view text, StoredType* out);

}  // namespace rowscale::checkpoint
