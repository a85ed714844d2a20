// Which file is taken for cuBLASLt, and what is said of one that is not. Files are made for it by
// the build: the functions' names with a version, and nothing behind them. Needs no GPU.
#include "cuda/matmul/cublaslt_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace rowscale::cuda {
namespace {

testing::AssertionResult refuses(const char* file, const std::string& part) {
  const CublasLtSearch search = find_cublaslt(file);
  if (search.library != nullptr) return testing::AssertionFailure() << file << " was taken";
  if (search.refusal.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "expected '" << part << "' in: " << search.refusal;
}

TEST(CublasLtLibrary, TakesTheForcedFile) {
  const CublasLtSearch search = find_cublaslt(FAKE_CUBLASLT);
  ASSERT_NE(search.library, nullptr) << search.refusal;
  EXPECT_EQ(search.refusal, "");
  EXPECT_EQ(search.library->version, size_t{120900});
  EXPECT_EQ(search.library->file, FAKE_CUBLASLT);
  EXPECT_EQ(search.library->status_name(CUBLAS_STATUS_SUCCESS), std::string("fake"));
  EXPECT_EQ(to_string(*search.library), std::string("cuBLASLt 12.9.0 (") + FAKE_CUBLASLT + ")");
}

TEST(CublasLtLibrary, RefusesAMissingFile) {
  EXPECT_TRUE(refuses("/nonexistent/libcublasLt.so", "/nonexistent/libcublasLt.so"));
}

TEST(CublasLtLibrary, RefusesAFileThatIsNoLibrary) {
  EXPECT_TRUE(refuses(NO_LIBRARY, "CMakeLists.txt"));
}

TEST(CublasLtLibrary, RefusesALibraryOfSomethingElse) {
  EXPECT_TRUE(refuses(OTHER_LIBRARY, "has no function cublasLtMatmulAlgoConfigGetAttribute"));
}

TEST(CublasLtLibrary, RefusesAnOldOne) {
  EXPECT_TRUE(refuses(OLD_CUBLASLT, "expected version 12.9.0 or newer, got 12.8.5"));
  EXPECT_TRUE(refuses(OLD_CUBLASLT, OLD_CUBLASLT));
}

// The packages beside a libtorch that is loaded. What was taken stays loaded, so that this test
// comes before the next: of two that are loaded .13 is the first.
TEST(CublasLtLibrary, TakesTheOneBesideTorch) {
  void* torch = dlopen(LOADED_TORCH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(torch, nullptr) << dlerror();
  const CublasLtSearch search = find_cublaslt(nullptr);
  ASSERT_NE(search.library, nullptr) << search.refusal;
  EXPECT_NE(search.library->file.find("site-packages"), std::string::npos) << search.library->file;
  dlclose(torch);
}

// A library that the process has loaded comes before what the loader would find.
TEST(CublasLtLibrary, TakesALoadedOneFirst) {
  void* loaded = dlopen(LOADED_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << dlerror();
  const CublasLtSearch search = find_cublaslt(nullptr);
  ASSERT_NE(search.library, nullptr) << search.refusal;
  EXPECT_EQ(search.library->file, LOADED_CUBLASLT);
  dlclose(loaded);
}

// The process' own choice, made once: in a process of its own.
TEST(CublasLtLibraryDeathTest, AsksTheEnvironment) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("ROWSCALE_CUBLASLT", "/nonexistent", 1);
        std::string refusal;
        const bool is_refused =
            cublaslt(&refusal) == nullptr &&
            refusal.find("ROWSCALE_CUBLASLT: /nonexistent") != std::string::npos;
        std::exit(is_refused ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rowscale::cuda
