#include "output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "failure.hpp"

namespace rowscale::cli {

void write_table(const std::vector<Column>& columns, const EachRow& rows, const Sink& sink) {
  constexpr size_t kWidest = 200;
  std::vector<size_t> widths;
  widths.reserve(columns.size());
  for (const Column& column : columns) widths.push_back(column.title.size());
  rows([&](const Row& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], std::min(row[i].size(), kWidest));
    }
  });
  const auto write = [&](const Row& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto* form = columns[i].number ? "{:>{}}" : "{:<{}}";
      line += fmt::format(fmt::runtime(form), row[i], widths[i]);
      line += i + 1 < columns.size() ? "  " : "\n";
    }
    sink(line);
  };
  Row titles;
  Row rules;
  for (size_t i = 0; i < columns.size(); ++i) {
    titles.push_back(columns[i].title);
    rules.emplace_back(widths[i], '-');
  }
  write(titles);
  write(rules);
  rows(write);
}

std::string Table::text() const {
  std::string out;
  write_table(
      columns_,
      [this](const std::function<void(const Row&)>& row) {
        for (const Row& one : rows_) row(one);
      },
      [&out](std::string_view text) { out += text; });
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

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    throw Failure(ExitCode::output, "stdout cannot be written");
  }
}

void require_writable(const std::string& path) {
  const auto fail = [&](int error) {
    throw Failure(ExitCode::output, fmt::format("{}: cannot be written: {}", path,
                                                std::generic_category().message(error)));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(EISDIR);
  if (access(path.c_str(), W_OK) == 0) return;
  if (errno != ENOENT) fail(errno);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) fail(errno);
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
