// Checks of results that are too large for the host, made where they lie. They wait for the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowscale::test {

struct Mismatches {
  int64_t count = 0;
  int64_t first = 0;  // words or bytes from the begin; meaningless where there is none
};

// 4-byte words of `rows` rows of `row_bytes` each (a multiple of 4), one behind the other, that
// differ from those of one expected row. All on the device, at addresses that are multiples of 4.
Mismatches find_other_words(const std::byte* rows, int64_t row_count, int64_t row_bytes,
                            const std::byte* expected);

// Bytes that depend on their place [row, column] alone, in a matrix that lies row by row.
void fill_by_place(std::byte* matrix, int64_t rows, int64_t columns);
// Those bytes of a matrix with any strides, in bytes, that are others.
Mismatches find_misplaced(const std::byte* matrix, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t column_stride);

}  // namespace rowscale::test
