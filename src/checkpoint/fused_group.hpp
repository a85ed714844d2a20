// Which weights readers merge into one: all members get one decision, and under fp8-tensor one
// scale.
#pragma once

#include <string>
#include <string_view>

namespace rowscale::checkpoint {

// A key that the members of a group share; empty: the module is in none. All experts of a layer are
// one group: readers merge them into one tensor.
std::string decision_group(std::string_view module);

// The same for the scale: query, key and value; gate and up, of each expert on its own.
std::string scale_group(std::string_view module);

// "a.experts.3.up_proj": "a.experts"; empty without a number behind "experts".
std::string_view experts_of(std::string_view module);

}  // namespace rowscale::checkpoint
