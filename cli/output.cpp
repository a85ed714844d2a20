#include "output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "failure.hpp"

namespace rowscale::cli {

std::string Table::text() const {
  std::vector<size_t> widths;
  widths.reserve(columns_.size());
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  const auto append = [&](size_t i, const std::string& cell) {
    const auto* form = columns_[i].number ? "{:>{}}" : "{:<{}}";
    out += fmt::format(fmt::runtime(form), cell, widths[i]);
    out += i + 1 < columns_.size() ? "  " : "\n";
  };
  for (size_t i = 0; i < columns_.size(); ++i) append(i, columns_[i].title);
  for (size_t i = 0; i < columns_.size(); ++i) append(i, std::string(widths[i], '-'));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) append(i, row[i]);
  }
  return out;
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string out;
  for (const std::string& field : fields) {
    if (!out.empty()) out += ',';
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
      out += field;
      continue;
    }
    out += '"';
    for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out + "\n";
}

std::string grouped(long long number) {
  std::string digits = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

void write_file(const std::string& path, std::string_view text) {
  const auto fail = [&] {
    const std::string why = std::generic_category().message(errno);
    throw Failure(ExitCode::output, fmt::format("{}: cannot be written: {}", path, why));
  };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) fail();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  // Only the close tells of a disk that filled up meanwhile.
  if (std::fclose(file) != 0 || !written) fail();
}

}  // namespace rowscale::cli
