// The words of enumerations: one table each, for checks, messages, printing and parsing.
#pragma once

#include <string>
#include <string_view>

#include "rowscale/exec.hpp"
#include "rowscale/producers.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/types.hpp"

namespace rowscale::api {

// "per_group(128)"
std::string granularity_text(const Recipe& recipe);

template <class Enum>
struct Word {
  Enum value;
  const char* text;
};

// Declared for each enumeration that a caller gives.
template <class Enum>
struct Words;

#define ROWSCALE_WORDS(Enum, ...)                      \
  template <>                                          \
  struct Words<Enum> {                                 \
    static constexpr Word<Enum> all[] = {__VA_ARGS__}; \
  }

ROWSCALE_WORDS(Granularity, {Granularity::per_tensor, "per_tensor"},
               {Granularity::per_token, "per_token"}, {Granularity::per_channel, "per_channel"},
               {Granularity::per_column, "per_column"}, {Granularity::per_group, "per_group"},
               {Granularity::per_block, "per_block"});
ROWSCALE_WORDS(Format, {Format::e4m3, "e4m3"}, {Format::e5m2, "e5m2"});
ROWSCALE_WORDS(ScaleSource, {ScaleSource::dynamic, "dynamic"}, {ScaleSource::given, "given"});
ROWSCALE_WORDS(ScaleEncoding, {ScaleEncoding::f32, "f32"}, {ScaleEncoding::ue8m0_f32, "ue8m0_f32"},
               {ScaleEncoding::ue8m0, "ue8m0"}, {ScaleEncoding::ue8m0_packed, "ue8m0_packed"});
ROWSCALE_WORDS(ScaleLayout, {ScaleLayout::row_major, "row_major"},
               {ScaleLayout::column_major, "column_major"},
               {ScaleLayout::column_major_tma, "column_major_tma"},
               {ScaleLayout::block_k4, "block_k4"});
ROWSCALE_WORDS(FloorKind, {FloorKind::standard, "standard"}, {FloorKind::none, "none"},
               {FloorKind::amax, "amax"}, {FloorKind::scale, "scale"},
               {FloorKind::if_zero, "if_zero"});
ROWSCALE_WORDS(BoundKind, {BoundKind::none, "none"}, {BoundKind::amax, "amax"},
               {BoundKind::scale, "scale"});
ROWSCALE_WORDS(Quotient, {Quotient::standard, "standard"}, {Quotient::divide, "divide"},
               {Quotient::reciprocal, "reciprocal"});
ROWSCALE_WORDS(NanRule, {NanRule::standard, "standard"}, {NanRule::propagate, "propagate"},
               {NanRule::clamp_high, "clamp_high"}, {NanRule::clamp_low, "clamp_low"});
ROWSCALE_WORDS(Profile, {Profile::rowscale, "rowscale"}, {Profile::vllm, "vllm"});

ROWSCALE_WORDS(DType, {DType::f32, "f32"}, {DType::f16, "f16"}, {DType::bf16, "bf16"},
               {DType::e4m3, "e4m3"}, {DType::e5m2, "e5m2"}, {DType::ue8m0, "ue8m0"},
               {DType::i32, "i32"});
ROWSCALE_WORDS(DeviceType, {DeviceType::cpu, "cpu"}, {DeviceType::cuda, "cuda"});
ROWSCALE_WORDS(Target, {Target::best, "best"}, {Target::scalar, "scalar"}, {Target::avx2, "avx2"},
               {Target::avx512, "avx512"});
ROWSCALE_WORDS(DependentLaunch, {DependentLaunch::off, "off"}, {DependentLaunch::on, "on"});
ROWSCALE_WORDS(NormForm, {NormForm::standard, "standard"}, {NormForm::gemma, "gemma"});

#undef ROWSCALE_WORDS

// nullptr for a value that is none of the enumeration's.
template <class Enum>
const char* word_of(Enum value) {
  for (const auto& word : Words<Enum>::all) {
    if (word.value == value) return word.text;
  }
  return nullptr;
}

// The word, or the number of a value that has none.
template <class Enum>
std::string text_of(Enum value) {
  const char* word = word_of(value);
  return word == nullptr ? std::to_string(static_cast<int>(value)) : word;
}

template <class Enum>
bool value_of(std::string_view text, Enum* value) {
  for (const auto& word : Words<Enum>::all) {
    if (text == word.text) {
      *value = word.value;
      return true;
    }
  }
  return false;
}

// "e4m3, e5m2"
template <class Enum>
std::string all_words() {
  std::string text;
  for (const auto& word : Words<Enum>::all) {
    if (!text.empty()) text += ", ";
    text += word.text;
  }
  return text;
}

// invalid_argument for a value that has no word. The name is no string before it is needed: calls
// check a dozen words each, and allocate for none.
template <class Enum>
Status check_word(std::string_view name, Enum value) {
  if (word_of(value) != nullptr) return {};
  return {StatusCode::invalid_argument,
          std::string(name) + ": expected one of " + all_words<Enum>() + ", got " + text_of(value)};
}

}  // namespace rowscale::api
