#include "examples/lm/text_corpus.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

namespace lm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kContext = 16;

// Every byte of block b is the character 'a' + b % 16: held-out blocks, and only they, are all 'p'.
TextCorpus stripedCorpus(size_t blocks) {
  std::string text;
  for (size_t block = 0; block < blocks; ++block)
    text.append(TextCorpus::kBlockBytes, static_cast<char>('a' + block % 16));
  return TextCorpus(text);
}

// The message with which `load` fails; empty where it does not.
std::string loadError(const std::string& path) {
  try {
    TextCorpus::load(path);
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

fs::path scratchFile(const std::string& name, const std::string& content) {
  const fs::path path = fs::path(testing::TempDir()) / (name + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(TextCorpus, TrainingNeverSeesHeldOutBlocks) {
  const TextCorpus corpus = stripedCorpus(64);
  std::set<uint8_t> seen;
  for (uint64_t step = 0; step < 50; ++step) {
    const Batch batch = corpus.trainingBatch(1, step, 0, 64, kContext);
    ASSERT_EQ(batch.size(), 64u);
    ASSERT_EQ(batch.contexts.size(), 64 * kContext);
    seen.insert(batch.contexts.begin(), batch.contexts.end());
    seen.insert(batch.targets.begin(), batch.targets.end());
  }
  EXPECT_EQ(seen.size(), 15u);
  EXPECT_FALSE(seen.contains('p'));
}

TEST(TextCorpus, EvaluationSeesHeldOutBlocksOnly) {
  for (const size_t blocks : {16, 17, 31, 32, 64}) {
    const Batch batch = stripedCorpus(blocks).heldOutBatch(1000, 0, 1, kContext);
    ASSERT_EQ(batch.size(), 1000u);
    for (const uint8_t byte : batch.contexts) ASSERT_EQ(byte, 'p');
    for (const uint8_t byte : batch.targets) ASSERT_EQ(byte, 'p');
  }
}

TEST(TextCorpus, SamplesAreConsecutiveText) {
  std::string text;
  for (size_t i = 0; i < TextCorpus::kMinBytes; ++i) text.push_back(static_cast<char>(i % 251));
  const Batch batch = TextCorpus(text).trainingBatch(1, 2, 3, 200, kContext);
  for (size_t i = 0; i < batch.size(); ++i) {
    const uint8_t first = batch.contexts[i * kContext];
    for (size_t k = 1; k < kContext; ++k)
      ASSERT_EQ(batch.contexts[i * kContext + k], (first + k) % 251);
    ASSERT_EQ(batch.targets[i], (first + kContext) % 251);
  }
}

TEST(TextCorpus, BatchesDependOnSeedStepAndRankAlone) {
  std::string text;
  for (size_t i = 0; i < 4 * TextCorpus::kMinBytes; ++i)
    text.push_back(static_cast<char>(i * i >> 7));
  const TextCorpus corpus(text);
  const Batch batch = corpus.trainingBatch(1, 2, 3, 64, kContext);
  EXPECT_EQ(batch.contexts, corpus.trainingBatch(1, 2, 3, 64, kContext).contexts);
  EXPECT_NE(batch.contexts, corpus.trainingBatch(9, 2, 3, 64, kContext).contexts);
  EXPECT_NE(batch.contexts, corpus.trainingBatch(1, 9, 3, 64, kContext).contexts);
  EXPECT_NE(batch.contexts, corpus.trainingBatch(1, 2, 0, 64, kContext).contexts);
}

TEST(TextCorpus, RanksShareTheEvaluationWithoutOverlap) {
  std::string text;
  for (size_t i = 0; i < 4 * TextCorpus::kMinBytes; ++i)
    text.push_back(static_cast<char>(i * i >> 7));
  const TextCorpus corpus(text);
  const Batch all = corpus.heldOutBatch(101, 0, 1, kContext);
  std::vector<uint8_t> targets(101);
  for (size_t rank = 0; rank < 4; ++rank) {
    const Batch part = corpus.heldOutBatch(101, rank, 4, kContext);
    for (size_t i = 0; i < part.size(); ++i) targets[rank + 4 * i] = part.targets[i];
  }
  EXPECT_EQ(targets, all.targets);
}

TEST(TextCorpus, ShortTextIsRefusedWithItsSize) {
  const fs::path path = scratchFile("short", std::string(TextCorpus::kMinBytes - 1, 'x'));
  const std::string error = loadError(path);
  EXPECT_NE(error.find(path.string()), std::string::npos) << error;
  EXPECT_NE(error.find("65535"), std::string::npos) << error;
  EXPECT_NE(error.find("65536"), std::string::npos) << error;
  fs::remove(path);
}

TEST(TextCorpus, ShortestTextIsAccepted) {
  const fs::path path = scratchFile("enough", std::string(TextCorpus::kMinBytes, 'x'));
  EXPECT_EQ(TextCorpus::load(path).bytes(), TextCorpus::kMinBytes);
  fs::remove(path);
}

TEST(TextCorpus, UnreadableTextIsNamed) {
  EXPECT_NE(loadError("/nonexistent/text").find("/nonexistent/text: No such file"),
            std::string::npos);
  EXPECT_NE(loadError(testing::TempDir()).find("not a regular file"), std::string::npos);
  // A pipe would block for ever.
  const fs::path pipe = fs::path(testing::TempDir()) / ("pipe" + std::to_string(getpid()));
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(loadError(pipe).find("not a regular file"), std::string::npos);
  fs::remove(pipe);
}

TEST(TextCorpus, HelpFilesAreFoundInOrder) {
  const fs::path share = fs::path(testing::TempDir()) / ("share" + std::to_string(getpid()));
  for (const char* name :
       {"cmake-3.99/Help/b/two.rst", "cmake-3.99/Help/a/one.rst", "cmake-3.99/Help/a/picture.png",
        "other/Help/no.rst", "cmake/none.rst"}) {
    fs::create_directories((share / name).parent_path());
    std::ofstream(share / name) << "text";
  }
  EXPECT_EQ(cmakeHelpFiles(share), (std::vector<std::string>{share / "cmake-3.99/Help/a/one.rst",
                                                             share / "cmake-3.99/Help/b/two.rst"}));
  fs::remove_all(share);
  EXPECT_TRUE(cmakeHelpFiles(share).empty());
}

}  // namespace
}  // namespace lm
