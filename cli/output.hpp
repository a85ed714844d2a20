// What commands write: text tables, CSV fields and whole files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rowscale::cli {

struct Column {
  std::string title;
  bool number = true;  // numbers stand on the right, words on the left
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// One line, each field quoted where it has to be (RFC 4180), without a carriage return.
std::string csv_line(const std::vector<std::string>& fields);

// 1234567 -> "1,234,567"
std::string grouped(long long number);

// Throws Failure(output). The file is either whole or reported.
void write_file(const std::string& path, std::string_view text);

}  // namespace rowscale::cli
