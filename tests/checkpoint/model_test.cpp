// Model folders: what is found, and each refusal with what it says.
#include "checkpoint/model.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "checkpoint/failure.hpp"
#include "checkpoint/scale_names.hpp"
#include "tests/support/model_folder.hpp"

namespace rowscale::checkpoint {
namespace {

using test::bf16_tensor;
using test::safetensors;
using test::TempFolder;
using test::write_bytes;

constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
constexpr const char* kShard2 = "model-00002-of-00002.safetensors";

void write_two_shards(const TempFolder& folder) {
  write_bytes(folder / "config.json", "{}");
  write_bytes(folder / kShard1, safetensors({bf16_tensor("a", {2}, 1)}));
  write_bytes(folder / kShard2, safetensors({bf16_tensor("b", {2}, 1)}));
  write_bytes(
      folder / "model.safetensors.index.json",
      R"({"metadata":{"total_size":8},"weight_map":{"b":"model-00002-of-00002.safetensors",)"
      R"("a":"model-00001-of-00002.safetensors"}})");
}

void expect_refused(const std::string& path, const std::string& part) {
  SCOPED_TRACE(part);
  try {
    Model::open(path);
    ADD_FAILURE() << "was read";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), FailureKind::input);
    EXPECT_NE(std::string(failure.what()).find(part), std::string::npos) << failure.what();
  }
}

TEST(Model, ReadsShardsByTheirIndex) {
  const TempFolder folder;
  write_two_shards(folder);
  write_bytes(folder / "consolidated.safetensors", safetensors({bf16_tensor("x", {2}, 1)}));
  const Model model = Model::open(folder.path());
  ASSERT_EQ(model.tensors().size(), 2U);
  EXPECT_EQ(model.entry(model.tensors()[0]).name, "a");
  EXPECT_EQ(model.shard_name(model.tensors()[1].shard), kShard2);
  EXPECT_EQ(model.find("x"), std::nullopt);
  ASSERT_TRUE(model.find("b").has_value());
}

TEST(Model, FollowsLinksAsTheHubsCacheHasThem) {
  const TempFolder folder;
  write_bytes(folder / "blobs/1", safetensors({bf16_tensor("a", {2}, 1)}));
  write_bytes(folder / "blobs/2", "{}");
  std::filesystem::create_directories(folder / "snapshot");
  std::filesystem::create_symlink("../blobs/1", folder / "snapshot/model.safetensors");
  std::filesystem::create_symlink("../blobs/2", folder / "snapshot/config.json");
  EXPECT_EQ(Model::open(folder / "snapshot").tensors().size(), 1U);

  std::filesystem::create_symlink("../blobs/3", folder / "snapshot/tokenizer.json");
  expect_refused(folder / "snapshot", "a symbolic link to nothing");
}

TEST(Model, RefusesWhatAnIndexMayNotSay) {
  const TempFolder folder;
  write_two_shards(folder);
  const auto with_map = [&](const std::string& map) {
    write_bytes(folder / "model.safetensors.index.json", R"({"weight_map":)" + map + "}");
  };
  for (const char* name : {"../model.safetensors", "x/model.safetensors", "..", "model.bin", ""}) {
    with_map(std::string(R"({"a":")") + name + "\"}");
    expect_refused(folder.path(), "expected the plain name of a .safetensors file");
  }
  with_map(R"({"a":"m.safetensors","a":"m.safetensors"})");
  expect_refused(folder.path(), "appears twice");
  with_map("[]");
  expect_refused(folder.path(), "weight_map: expected an object");
  with_map(R"({"a":["m.safetensors"]})");
  expect_refused(folder.path(), "expected a file name, got an array");
  with_map(R"({"a":{"b":"m.safetensors"}})");
  expect_refused(folder.path(), "expected a file name, got an object");
  with_map("{\"" + std::string(4097, 'n') + R"(":"m.safetensors"})");
  expect_refused(folder.path(), "expected a name of at most 4096 bytes, got 4097");
  with_map("{}");
  expect_refused(folder.path(), "names no tensor");
  write_bytes(folder / "model.safetensors.index.json", R"({"metadata":{}})");
  expect_refused(folder.path(), "expected a member \"weight_map\"");
  with_map(R"({"a":"model-00001-of-00002.safetensors"})");
  EXPECT_EQ(Model::open(folder.path()).tensors().size(), 1U);
  with_map(R"({"a":"model-00001-of-00002.safetensors","c":"model-00001-of-00002.safetensors"})");
  expect_refused(folder.path(), "expected tensor \"c\"");
  with_map(R"({"c":"model-00001-of-00002.safetensors"})");
  expect_refused(folder.path(), "which does not name it");
}

// vllm-project/vllm #54230: the same name in two shards; the index says which counts.
TEST(Model, LeavesOutWhatTheIndexAssignsElsewhere) {
  const TempFolder folder;
  write_two_shards(folder);
  write_bytes(folder / kShard1, safetensors({bf16_tensor("a", {2}, 1), bf16_tensor("b", {2}, 9)}));
  const Model model = Model::open(folder.path());
  EXPECT_EQ(model.shard_name(model.find("b")->shard), kShard2);
  ASSERT_EQ(model.stale().size(), 1U);
  EXPECT_EQ(model.shard_name(model.stale()[0].shard), kShard1);
}

TEST(Model, SaysWhatToDoWithoutSafetensors) {
  const TempFolder folder;
  expect_refused(folder / "absent", "no such folder");
  expect_refused("meta-llama/Llama-3.1-8B", "hf download meta-llama/Llama-3.1-8B");
  expect_refused(folder.path(), "expected safetensors files, got none");
  write_bytes(folder / "model.gguf", "GGUF");
  expect_refused(folder.path(), "llama.cpp");
  write_bytes(folder / "pytorch_model.bin", "PK");
  expect_refused(folder.path(), "a pickle");
  write_bytes(folder / kShard1, safetensors({}));
  expect_refused(folder.path(), "expected model.safetensors.index.json");
  write_bytes(folder / "model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  expect_refused(folder.path(), "git lfs pull");
  write_bytes(folder / "model.safetensors", std::string("PK\x03\x04 pickle"));
  expect_refused(folder.path(), "a zip archive");
}

TEST(Model, ListsWhatLiesBesideTheShards) {
  const TempFolder folder;
  write_two_shards(folder);
  for (const char* name :
       {"tokenizer.json", "sub/deep/code.py", ".git/HEAD", ".cache/x", "a.bin",
        "original/params.json", "m.gguf", "stray.safetensors", "rowscale.json", ".rowscale-journal",
        ".rowscale-part", ".rowscale-work/x", "sub/.rowscale-part", "x.rowscale-part"}) {
    write_bytes(folder / name, "text");
  }
  const Model model = Model::open(folder.path());
  std::string listed;
  for (const SideFile& file : model.side_files()) {
    listed += file.name + (file.fate == Fate::copied      ? "+ "
                           : file.fate == Fate::rewritten ? "* "
                                                          : "- ");
  }
  EXPECT_EQ(
      listed,
      ".cache/- .git/- .rowscale-journal- .rowscale-part- .rowscale-work/- a.bin- config.json* "
      "m.gguf- model.safetensors.index.json* original/- "
      "rowscale.json- stray.safetensors- sub/.rowscale-part+ sub/deep/code.py+ "
      "tokenizer.json+ x.rowscale-part+ ");
}

TEST(Model, FindsScalesUnderEverySpelling) {
  const TempFolder folder;
  write_bytes(
      folder / "model.safetensors",
      safetensors({bf16_tensor("a.weight", {2}, 1), bf16_tensor("a.weight_scale", {1}, 1),
                   bf16_tensor("b.weight", {2}, 1), bf16_tensor("b.weight_scale_inv", {1}, 1),
                   bf16_tensor("c.weight", {2}, 1), bf16_tensor("c.scale", {1}, 1),
                   bf16_tensor("d.weight", {2}, 1)}));
  const Model model = Model::open(folder.path());
  EXPECT_EQ(find_scale(model, "a.weight")->spelling, ScaleSpelling::weight_scale);
  EXPECT_EQ(find_scale(model, "b.weight")->spelling, ScaleSpelling::weight_scale_inv);
  EXPECT_EQ(find_scale(model, "c.weight")->spelling, ScaleSpelling::scale);
  EXPECT_FALSE(find_scale(model, "d.weight").has_value());
  EXPECT_EQ(weight_of_scale("b.weight_scale_inv"), "b.weight");
}

TEST(Model, NoticesAShardThatWasChangedWhileReleased) {
  const TempFolder folder;
  write_two_shards(folder);
  Model model = Model::open(folder.path());
  EXPECT_TRUE(model.shards()[0].acquire().ok());
  model.shards()[0].release();
  write_bytes(folder / kShard1, safetensors({bf16_tensor("a", {4}, 1)}));
  EXPECT_NE(model.shards()[0].acquire().message().find("was changed"), std::string::npos);
}

}  // namespace
}  // namespace rowscale::checkpoint
