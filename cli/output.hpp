// What commands write: text tables, CSV fields and whole files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rowscale::cli {

struct Column {
  std::string title;
  bool number = true;  // numbers stand on the right, words on the left
};

// Gives the rows of a table to `row`, one after the other, and the same each time it is called.
using Row = std::vector<std::string>;
using EachRow = std::function<void(const std::function<void(const Row& row)>& row)>;
using Sink = std::function<void(std::string_view text)>;

// A table of any length: `rows` is called twice, to measure and to write, so that it never lies in
// memory as a whole. Very long words do not widen their column.
void write_table(const std::vector<Column>& columns, const EachRow& rows, const Sink& sink);

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(Row row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// One line, each field quoted where it has to be (RFC 4180), without a carriage return.
std::string csv_line(const std::vector<std::string>& fields);

// 1234567 -> "1,234,567"
std::string grouped(long long number);

// To stdout. Throws Failure(output).
void print(std::string_view text);

// Throws Failure(output) where write_file() would fail, as far as can be seen: for the begin of
// long work. Changes nothing.
void require_writable(const std::string& path);

// Throws Failure(output). The file is either whole or reported.
void write_file(const std::string& path, std::string_view text);

}  // namespace rowscale::cli
