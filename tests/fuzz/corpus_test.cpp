// Every file of the fuzzer's corpus through the fuzzer's entry, with the compiler of the tests. The
// first word of a file's name is the verdict that must come out; make_corpus.py holds it to the
// reference implementation.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/safetensors_fuzz.hpp"

namespace rowscale::checkpoint {
namespace {

std::vector<uint8_t> bytes_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(FuzzCorpus, EachFileGetsTheVerdictOfItsName) {
  int accepted = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ROWSCALE_FUZZ_CORPUS)) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const std::string verdict = name.substr(0, name.find('_'));
    ASSERT_TRUE(verdict == "accept" || verdict == "reject" || verdict == "stricter") << name;
    const std::vector<uint8_t> bytes = bytes_of(entry.path());
    EXPECT_EQ(read_safetensors(bytes.data(), bytes.size()), verdict == "accept");
    (verdict == "accept" ? accepted : refused) += 1;
  }
  EXPECT_GE(accepted, 15);
  EXPECT_GE(refused, 50);
}

}  // namespace
}  // namespace rowscale::checkpoint
