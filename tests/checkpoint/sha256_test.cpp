// SHA-256 against the vectors of FIPS 180-4 and of NIST's examples, on both of its paths, in pieces
// of every length.
#include "checkpoint/sha256.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <string>

namespace rowscale::checkpoint {
namespace {

std::string hash_of(const std::string& text, Sha256Path path) {
  Sha256 hash(path);
  hash.update(text.data(), text.size());
  return hash.hex();
}

class Hash : public testing::TestWithParam<Sha256Path> {};
INSTANTIATE_TEST_SUITE_P(Paths, Hash, testing::Values(Sha256Path::best, Sha256Path::portable));

TEST_P(Hash, PublishedVectors) {
  EXPECT_EQ(hash_of("", GetParam()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc", GetParam()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", GetParam()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a'), GetParam()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around the ends of blocks, and the place of the length behind the padding.
TEST_P(Hash, PiecesOfEveryLengthGiveTheSame) {
  for (size_t length = 0; length <= 200; ++length) {
    const std::string text(length, 'x');
    const std::string whole = hash_of(text, GetParam());
    for (size_t piece = 1; piece <= 130; piece += 7) {
      Sha256 hash(GetParam());
      for (size_t at = 0; at < length; at += piece) {
        hash.update(text.data() + at, std::min(piece, length - at));
      }
      EXPECT_EQ(hash.hex(), whole) << length << " in pieces of " << piece;
    }
    EXPECT_EQ(whole, hash_of(text, Sha256Path::portable));
  }
}

}  // namespace
}  // namespace rowscale::checkpoint
