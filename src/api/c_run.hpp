// What every function of rowscale.h does around its call.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

#include "rowscale/rowscale.h"
#include "rowscale/status.hpp"

namespace rowscale::api {

// What rs_last_error() gives this thread.
void keep_message(const char* message) noexcept;
const char* last_message() noexcept;

// Runs `call`, which returns a Status, and keeps its message. No C++ type and no exception crosses.
template <class Call>
rs_status run(Call&& call) noexcept {
  try {
    const Status status = call();
    if (status.ok()) return RS_OK;
    keep_message(status.message().c_str());
    return static_cast<rs_status>(status.code());
  } catch (const std::exception& error) {
    keep_message(error.what());
  } catch (...) {
    keep_message("unknown exception");
  }
  return RS_INTERNAL;
}

// At most `capacity` bytes of the text, the last a zero; *needed, where it is asked for, is the
// size of the whole.
Status write_text(const std::string& whole, char* text, size_t capacity, size_t* needed);

}  // namespace rowscale::api
