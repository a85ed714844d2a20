// Headers by hand: each one that must be read, and each that must be refused with its reason.
#include <gtest/gtest.h>

#include <string>

#include "checkpoint/safetensors.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::checkpoint {
namespace {

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + '}';
}

// One tensor "a" of 4 bytes, in which one thing can be put differently.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return '{' + entry("a", dtype, shape, offsets) + '}';
}

struct Legal {
  const char* what;
  std::string json;
  int64_t data_bytes;
  size_t tensors;
};

TEST(Header, ReadsWhatIsLegal) {
  const std::string a = entry("a", "F32", "[1]", "[0,4]");
  const std::string b = entry("b", "U8", "[3]", "[4,7]");
  const Legal cases[] = {
      {"no tensors", "{}", 0, 0},
      {"one tensor", '{' + a + '}', 4, 1},
      {"padded with spaces", '{' + a + "}   ", 4, 1},
      {"spaces before the object", "  \t\n{" + a + '}', 4, 1},
      {"not in the order of offsets", '{' + b + ',' + a + '}', 7, 2},
      {"a scalar", one("F32", "[]", "[0,4]"), 4, 1},
      {"zero elements", one("F32", "[0,7]", "[0,0]"), 0, 1},
      {"zero elements in the middle",
       '{' + a + ',' + entry("z", "F32", "[0]", "[4,4]") + ',' + b + '}', 7, 3},
      {"zero elements at the start", '{' + a + ',' + entry("z", "F32", "[0]", "[0,0]") + '}', 4, 2},
      {"an odd offset",
       '{' + entry("c", "U8", "[1]", "[0,1]") + ',' + entry("d", "F32", "[1]", "[1,5]") + '}', 5,
       2},
      {"an empty name", '{' + entry("", "F32", "[1]", "[0,4]") + '}', 4, 1},
      {"a name in UTF-8", '{' + entry("gewicht.\xC3\xA4", "F32", "[1]", "[0,4]") + '}', 4, 1},
      {"an escaped pair of surrogates", '{' + entry("\\ud83d\\ude00", "F32", "[1]", "[0,4]") + '}',
       4, 1},
      {"metadata", R"({"__metadata__":{"format":"pt","note":"line\nline"},)" + a + '}', 4, 1},
      {"empty metadata", R"({"__metadata__":{},)" + a + '}', 4, 1},
      {"null metadata", R"({"__metadata__":null,)" + a + '}', 4, 1},
      {"an unknown field",
       R"({"a":{"x":1.5,"dtype":"F32","shape":[1],"y":["z"],"w":{"v":null},"data_offsets":[0,4]}})",
       4, 1},
      {"four-bit elements", one("F4", "[3,2]", "[0,3]"), 3, 1},
      {"six-bit elements", one("F6_E2M3", "[4]", "[0,3]"), 3, 1},
      {"the largest integer", one("U8", "[0,281474976710656]", "[0,0]"), 0, 1},
  };
  for (const Legal& c : cases) {
    SCOPED_TRACE(c.what);
    SafetensorsHeader header;
    const Status status = parse_header(c.json, c.data_bytes, &header);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(header.tensors.size(), c.tensors);
  }
}

struct Illegal {
  const char* what;
  std::string json;
  int64_t data_bytes;
  const char* message;  // a part of it
};

void expect_refused(const Illegal& c) {
  SCOPED_TRACE(c.what);
  SafetensorsHeader header;
  header.metadata["before"] = "kept";
  const Status status = parse_header(c.json, c.data_bytes, &header);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find(c.message), std::string::npos) << status.message();
  EXPECT_EQ(header.metadata.count("before"), 1U) << "out changed on failure";
}

TEST(Header, RefusesWhatIsNoJson) {
  const std::string ok = one("F32", "[1]", "[0,4]");
  const Illegal cases[] = {
      {"empty", "", 0, "header: expected an object, got \"\""},
      {"spaces only", "   ", 0, "header: expected an object"},
      {"an array", "[]", 0, "header: expected an object, got \"[]\""},
      {"a byte order mark", "\xEF\xBB\xBF" + ok, 4, "header: expected an object"},
      {"NUL padding", ok + std::string(3, '\0'), 4, "got a NUL at byte"},
      {"NUL in a name", '{' + entry(std::string("a\0b", 3), "F32", "[1]", "[0,4]") + '}', 4,
       "got a NUL"},
      {"text after the object", ok + "x", 4, "expected JSON"},
      {"a second object", ok + ok, 4, "expected JSON"},
      {"cut off", ok.substr(0, 20), 4, "expected JSON"},
      {"a trailing comma", "{" + entry("a", "F32", "[1]", "[0,4]") + ",}", 4, "expected JSON"},
      {"a comment", "{/**/}", 0, "expected JSON"},
      {"no UTF-8", '{' + entry("\xFF", "F32", "[1]", "[0,4]") + '}', 4, "ill-formed UTF-8"},
      {"overlong UTF-8", '{' + entry("\xC0\x80", "F32", "[1]", "[0,4]") + '}', 4,
       "ill-formed UTF-8"},
      {"a surrogate in UTF-8", '{' + entry("\xED\xA0\x80", "F32", "[1]", "[0,4]") + '}', 4,
       "ill-formed UTF-8"},
      {"a lone high surrogate", '{' + entry("\\ud800", "F32", "[1]", "[0,4]") + '}', 4,
       "surrogate"},
      {"a lone low surrogate", '{' + entry("\\udc00", "F32", "[1]", "[0,4]") + '}', 4, "surrogate"},
      {"a number too large for a double", R"({"a":{"x":1e999}})", 0, "expected JSON"},
  };
  for (const Illegal& c : cases) expect_refused(c);
}

TEST(Header, RefusesWrongNames) {
  const std::string a = entry("a", "F32", "[1]", "[0,4]");
  const Illegal cases[] = {
      {"an identical duplicate", '{' + a + ',' + a + '}', 4, "tensor \"a\": appears twice"},
      {"a duplicate elsewhere", '{' + a + ',' + entry("a", "F32", "[1]", "[4,8]") + '}', 8,
       "tensor \"a\": appears twice"},
      {"a duplicate spelled differently",
       '{' + a + ',' + entry("\\u0061", "F32", "[1]", "[4,8]") + '}', 8, "appears twice"},
      {"an escaped NUL", '{' + entry("a\\u0000", "F32", "[1]", "[0,4]") + '}', 4,
       "\"a\\x00\": expected a name without"},
      {"an escape character", '{' + entry("\\u001b[2J", "F32", "[1]", "[0,4]") + '}', 4,
       "without control"},
      {"DEL", '{' + entry("\x7F", "F32", "[1]", "[0,4]") + '}', 4,
       "\"\\x7f\": expected a name without"},
      {"a C1 control", '{' + entry("\xC2\x9B", "F32", "[1]", "[0,4]") + '}', 4,
       "\"\\xc2\\x9b\": expected a name without"},
  };
  for (const Illegal& c : cases) expect_refused(c);
}

TEST(Header, RefusesWrongMetadata) {
  const Illegal cases[] = {
      {"a number", R"({"__metadata__":{"x":1}})", 0, "__metadata__: expected a string for \"x\""},
      {"null", R"({"__metadata__":{"x":null}})", 0, "expected a string for \"x\", got null"},
      {"an object", R"({"__metadata__":{"x":{}}})", 0,
       "expected a string for \"x\", got an object"},
      {"an array", R"({"__metadata__":{"x":[]}})", 0, "expected a string for \"x\", got an array"},
      {"no object", R"({"__metadata__":[]})", 0, "\"__metadata__\": expected an object"},
      {"twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__: appears twice"},
      {"a name twice", R"({"__metadata__":{"x":"1","x":"1"}})", 0, "the name \"x\" appears twice"},
  };
  for (const Illegal& c : cases) expect_refused(c);
}

TEST(Header, RefusesWrongFields) {
  const Illegal cases[] = {
      {"no dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "expected a field dtype"},
      {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "expected a field shape"},
      {"no offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4, "expected a field data_offsets"},
      {"a field twice", R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "dtype: appears twice"},
      {"null for a tensor", R"({"a":null})", 0, "\"a\": expected an object, got null"},
      {"a lower-case dtype", one("f32", "[1]", "[0,4]"), 4,
       "expected a dtype of the format, got \"f32\""},
      {"an unknown dtype", one("F128", "[1]", "[0,16]"), 16, "tensor \"a\": dtype"},
      {"a dtype that is no string", R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", 4,
       "dtype: expected a string, got the integer 5"},
      {"a dtype that is an array", R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4,
       "dtype: expected a string, got an array"},
      {"a shape that is no array", one("F32", "1", "[0,4]"), 4,
       "shape: expected an array of integers"},
      {"offsets in an object", one("F32", "[1]", "{}"), 4,
       "data_offsets: expected an array of integers, got an object"},
      {"a negative size", one("F32", "[-1]", "[0,4]"), 4,
       "shape: expected unsigned integers, got the integer -1"},
      {"minus zero", one("F32", "[-0]", "[0,0]"), 0, "shape: expected unsigned integers"},
      {"a size with a point", one("F32", "[1.0]", "[0,4]"), 4,
       "shape: expected unsigned integers, got the number 1.0"},
      {"a size with an exponent", one("F32", "[1e0]", "[0,4]"), 4,
       "shape: expected unsigned integers"},
      {"a size in a string", one("F32", "[\"1\"]", "[0,4]"), 4,
       "shape: expected unsigned integers, got the string"},
      {"a size beyond 2^48", one("U8", "[0,281474976710657]", "[0,0]"), 0, "at most 2^48"},
      {"a size beyond 2^64", one("U8", "[18446744073709551616]", "[0,0]"), 0,
       "shape: expected unsigned integers"},
      {"one offset", one("F32", "[1]", "[0]"), 4, "data_offsets: expected 2 integers, got 1"},
      {"three offsets", one("F32", "[1]", "[0,4,4]"), 4,
       "data_offsets: expected 2 integers, got more"},
      {"nested sizes", one("F32", "[[1]]", "[0,4]"), 4,
       "shape: expected unsigned integers, got an array"},
      {"four levels", R"({"a":{"x":[[1]]}})", 0, "at most 3 levels of nesting"},
      {"very deep", R"({"a":{"x":)" + std::string(1'000'000, '['), 0,
       "at most 3 levels of nesting"},
  };
  for (const Illegal& c : cases) expect_refused(c);
}

TEST(Header, RefusesWrongLayouts) {
  const std::string a = entry("a", "F32", "[1]", "[0,4]");
  const std::string huge = "[281474976710656,281474976710656]";
  const Illegal cases[] = {
      {"a hole", '{' + a + ',' + entry("b", "U8", "[1]", "[5,6]") + '}', 6,
       "tensor \"b\": data_offsets: expected to begin at 4, where the tensor before it ends, got "
       "5: a hole"},
      {"a hole at the start", one("F32", "[1]", "[4,8]"), 8, "expected to begin at 0"},
      {"an overlap", '{' + a + ',' + entry("b", "U8", "[2]", "[3,5]") + '}', 5,
       "got 3: an overlap"},
      {"the same bytes twice", '{' + a + ',' + entry("b", "F32", "[1]", "[0,4]") + '}', 4,
       "got 0: an overlap"},
      {"trailing bytes", '{' + a + '}', 5,
       "tensor \"a\": expected the tensors to end where the data ends, at 5, got 4"},
      {"beyond the data", '{' + a + '}', 3, "at 3, got 4"},
      {"data without tensors", "{}", 1,
       "header: expected the tensors to end where the data ends, at 1, got 0"},
      {"the end before the begin", one("F32", "[1]", "[4,0]"), 4,
       "expected the end at or after 4, got 0"},
      {"too few bytes", one("F32", "[2]", "[0,4]"), 4,
       "expected 8 bytes for F32 [2], got data_offsets of 4 bytes"},
      {"too many bytes", one("F32", "[1]", "[0,8]"), 8,
       "expected 4 bytes for F32 [1], got data_offsets of 8 bytes"},
      {"half a byte", one("F4", "[3]", "[0,1]"), 1, "expected whole bytes"},
      {"a product that overflows", one("F32", huge, "[0,4]"), 4,
       "expected whole bytes, fewer than 2^60"},
      {"a product that wraps to 4", one("U8", "[4294967296,4294967296,4]", "[0,4]"), 4,
       "expected whole bytes, fewer than 2^60"},
      {"an overflow beside a zero", one("U8", "[0,281474976710656,281474976710656]", "[0,0]"), 0,
       "expected whole bytes, fewer than 2^60"},
  };
  for (const Illegal& c : cases) expect_refused(c);
}

TEST(Header, SortsTensorsByOffset) {
  const std::string json = '{' + entry("z", "U8", "[2]", "[4,6]") + ',' +
                           entry("y", "F32", "[1]", "[0,4]") + ',' +
                           entry("e", "F16", "[3,0]", "[4,4]") + '}';
  SafetensorsHeader header;
  ASSERT_TRUE(parse_header(json, 6, &header).ok());
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "y");
  EXPECT_EQ(header.tensors[1].name, "e");
  EXPECT_EQ(std::vector<int64_t>(header.tensors[1].shape.begin(), header.tensors[1].shape.end()),
            (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(header.tensors[2].name, "z");
  EXPECT_EQ(header.tensors[2].begin, 4);
  EXPECT_EQ(header.tensors[2].end, 6);
}

TEST(Header, KnowsEveryType) {
  const struct {
    const char* name;
    int64_t bits;
  } types[] = {{"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
               {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
               {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
               {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
               {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
               {"I64", 64},    {"U64", 64}};
  for (const auto& type : types) {
    SCOPED_TRACE(type.name);
    SafetensorsHeader header;
    const std::string offsets = "[0," + std::to_string(type.bits) + "]";
    ASSERT_TRUE(parse_header(one(type.name, "[8]", offsets), type.bits, &header).ok());
    EXPECT_STREQ(to_string(header.tensors[0].type), type.name);
    EXPECT_EQ(bits_per_element(header.tensors[0].type), type.bits);
    DType dtype = DType::f32;
    if (to_dtype(header.tensors[0].type, &dtype)) {
      EXPECT_EQ(element_size(dtype) * 8, type.bits);
    }
  }
}

TEST(Shown, CutsBetweenCharacters) {
  EXPECT_EQ(shown("a\nb"), "\"a\\x0ab\"");
  const std::string umlauts(119, 'x');
  EXPECT_EQ(shown(umlauts + "\xC3\xA4" + "y"), '"' + umlauts + "\xC3\xA4\"... (122 bytes)");
}

// What is longer than any real file has it would fill the memory of whoever keeps it.
TEST(Header, RefusesWhatIsTooLong) {
  const auto with_name = [](size_t bytes) {
    return "{\"" + std::string(bytes, 'n') +
           R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  };
  SafetensorsHeader header;
  EXPECT_TRUE(parse_header(with_name(4096), 1, &header).ok());
  EXPECT_NE(
      parse_header(with_name(4097), 1, &header).message().find("at most 4096 bytes, got 4097"),
      std::string::npos);

  const auto with_dimensions = [](int count) {
    std::string shape = "1";
    for (int i = 1; i < count; ++i) shape += ",1";
    return R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})";
  };
  EXPECT_TRUE(parse_header(with_dimensions(64), 1, &header).ok());
  EXPECT_NE(parse_header(with_dimensions(65), 1, &header).message().find("at most 64 dimensions"),
            std::string::npos);

  // Escapes and quotes inside do not end a text; white space counts too.
  for (const std::string& filler : {std::string("x"), std::string("\\\""), std::string(",")}) {
    std::string text = R"({"__metadata__":{"a":")";
    while (text.size() < (size_t{16} << 20) - 100) text += filler;
    EXPECT_TRUE(parse_header(text + "\"}}", 0, &header).ok());
    while (text.size() < (size_t{16} << 20) + 100) text += filler;
    EXPECT_NE(parse_header(text + "\"}}", 0, &header).message().find("of at most 16777216 bytes"),
              std::string::npos);
  }
  EXPECT_FALSE(
      parse_header("{" + std::string((size_t{16} << 20) + 100, ' ') + "}", 0, &header).ok());
}

}  // namespace
}  // namespace rowscale::checkpoint
