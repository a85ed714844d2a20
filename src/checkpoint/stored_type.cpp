#include "checkpoint/stored_type.hpp"

#include <algorithm>
#include <iterator>

namespace rowscale::checkpoint {
namespace {

struct TypeRow {
  const char* name;
  int bits;
};

// In the order of StoredType.
constexpr TypeRow kTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};
static_assert(std::size(kTypes) == static_cast<size_t>(StoredType::u64) + 1);

}  // namespace

const char* to_string(StoredType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

int64_t bits_per_element(StoredType type) {
  return kTypes[static_cast<size_t>(type)].bits;
}

bool parse_type(std::string_view text, StoredType* out) {
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeRow& type) { return text == type.name; });
  if (row == std::end(kTypes)) return false;
  *out = static_cast<StoredType>(row - std::begin(kTypes));
  return true;
}

bool to_dtype(StoredType type, DType* out) {
  switch (type) {
    case StoredType::f32:
      *out = DType::f32;
      return true;
    case StoredType::f16:
      *out = DType::f16;
      return true;
    case StoredType::bf16:
      *out = DType::bf16;
      return true;
    case StoredType::f8_e4m3:
      *out = DType::e4m3;
      return true;
    case StoredType::f8_e5m2:
      *out = DType::e5m2;
      return true;
    case StoredType::f8_e8m0:
      *out = DType::ue8m0;
      return true;
    case StoredType::i32:
      *out = DType::i32;
      return true;
    default:
      return false;
  }
}

}  // namespace rowscale::checkpoint
