// Files by hand: the length in front, what is no safetensors file at all, and reading the data.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

std::string length_bytes(uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> (8 * i) & 0xFFU);
  return out;
}

std::string file_of(const std::string& json, const std::string& data) {
  return length_bytes(json.size()) + json + data;
}

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/rowscale_safetensors_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/model.safetensors"; }

  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  void expect_refused(const std::string& bytes, const std::string& message) const {
    write(bytes);
    expect_refused_path(path(), message);
  }

  static void expect_refused_path(const std::string& at, const std::string& message) {
    SCOPED_TRACE(message);
    SafetensorsFile file;
    const Status status = SafetensorsFile::open(at, &file);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(status.message().rfind(at + ": ", 0), 0U) << status.message();
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_TRUE(file.tensors().empty());
  }

  std::string folder_;
};

TEST_F(File, ReadsTensorsAndMetadata) {
  write(file_of(R"({"__metadata__":{"format":"pt"},)"
                R"("odd":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("f":{"dtype":"F32","shape":[1,1],"data_offsets":[1,5]}})",
                std::string("\x2A\x00\x00\x80\x3F", 5)));
  SafetensorsFile file;
  const Status status = SafetensorsFile::open(path(), &file);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
  ASSERT_NE(file.find("odd"), nullptr);
  EXPECT_EQ(file.data(*file.find("odd"))[0], std::byte{0x2A});
  ASSERT_NE(file.find("f"), nullptr);
  float value = 0;
  std::memcpy(&value, file.data(*file.find("f")), sizeof value);  // at an odd address
  EXPECT_EQ(value, 1.0F);
  EXPECT_TRUE(file.check_unchanged().ok());
}

TEST_F(File, MovesWithItsMapping) {
  write(file_of(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "x"));
  SafetensorsFile file;
  {
    SafetensorsFile first;
    ASSERT_TRUE(SafetensorsFile::open(path(), &first).ok());
    SafetensorsFile second(std::move(first));
    file = std::move(second);
  }
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.data(*file.find("a"))[0], std::byte{'x'});
  ASSERT_TRUE(SafetensorsFile::open(path(), &file).ok()) << "a second open replaces the first";
  EXPECT_EQ(file.tensors().size(), 1U);
}

TEST_F(File, ReadsAFileWithoutTensors) {
  write(file_of("{}", ""));
  SafetensorsFile file;
  ASSERT_TRUE(SafetensorsFile::open(path(), &file).ok());
  EXPECT_TRUE(file.tensors().empty());
}

TEST_F(File, RefusesWrongLengths) {
  expect_refused("", "expected at least 8 bytes, got 0");
  expect_refused("1234567", "expected at least 8 bytes, got 7");
  expect_refused(length_bytes(0), "header: expected an object");
  expect_refused(length_bytes(3) + "{}", "expected at most the 2 bytes that follow it, got 3");
  expect_refused(length_bytes(100'000'001) + "{}", "expected at most 100000000 bytes");
  expect_refused(length_bytes(UINT64_MAX) + "{}", "got 18446744073709551615");
  expect_refused(length_bytes(uint64_t{1} << 63) + "{}", "got 9223372036854775808");
}

TEST_F(File, RefusesWrongData) {
  const std::string json = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  expect_refused(file_of(json, "123"), "tensor \"a\": expected the tensors to end");
  expect_refused(file_of(json, "12345"), "at 5, got 4");
}

TEST_F(File, ExplainsAGitLfsPointer) {
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull");
}

TEST_F(File, RefusesWhatIsNoRegularFile) {
  expect_refused_path(folder_, "expected a regular file");
  expect_refused_path(folder_ + "/absent", "cannot be opened: No such file");
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  expect_refused_path(fifo, "expected a regular file");  // and does not wait for a writer
}

TEST_F(File, NoticesAChange) {
  const std::string bytes =
      file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy");
  write(bytes);
  SafetensorsFile file;
  ASSERT_TRUE(SafetensorsFile::open(path(), &file).ok());
  ASSERT_EQ(truncate(path().c_str(), static_cast<off_t>(bytes.size() - 1)), 0);
  const Status status = file.check_unchanged();
  EXPECT_NE(status.message().find("was changed since"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace rowscale::checkpoint
