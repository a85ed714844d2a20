#include "api/producer_check.hpp"

#include <fmt/format.h>

#include <string>

#include "api/words.hpp"

namespace rowscale::api {

Status check_row(Named row, Named x, int64_t columns) {
  ROWSCALE_RETURN_IF_ERROR(check_dtype(row, {x.view.dtype}));
  ROWSCALE_RETURN_IF_ERROR(check_data(row));
  return check_same_rows(row, x, columns);
}

Status check_fused_recipe(const char* name, const Recipe& recipe) {
  if (const Status status = check(recipe); !status.ok()) {
    // Its messages begin with "recipe".
    const std::string field = status.message().substr(std::string("recipe").size());
    return {status.code(), name + field};
  }
  const bool needs_all_rows = recipe.scale_source == ScaleSource::dynamic &&
                              (recipe.granularity == Granularity::per_tensor ||
                               recipe.granularity == Granularity::per_block);
  if (needs_all_rows) {
    return invalid(
        fmt::format("{}.granularity: expected per_token, per_channel, per_group or "
                    "given scales in a fused operator, got dynamic {}: run the separate "
                    "operator, then quantize",
                    name, word_of(recipe.granularity)));
  }
  return {};
}

Status check_own_profile(const char* name, const Recipe& recipe) {
  if (recipe.profile == Profile::rowscale) return {};
  return {StatusCode::unsupported,
          fmt::format("{}.profile: expected {} where vLLM has no such operator, got {}", name,
                      word_of(Profile::rowscale), word_of(recipe.profile))};
}

}  // namespace rowscale::api
