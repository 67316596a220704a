#include "examples/lm/rendezvous.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>

namespace lm {
namespace {

namespace fs = std::filesystem;

class RendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("rendezvous" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::future<std::string> start(int rank, int ranks, int timeoutSeconds) {
    const Rendezvous rendezvous{path(), rank, ranks, timeoutSeconds};
    return std::async(std::launch::async, [rendezvous] {
      try {
        return rendezvous.exchange([] { return std::string("\0id\n", 4); });
      } catch (const std::runtime_error& error) {
        return "error: " + std::string(error.what());
      }
    });
  }
  std::string path() const { return folder_ / "id"; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

TEST_F(RendezvousTest, AllRanksGetTheSameBytes) {
  std::vector<std::future<std::string>> ranks;
  for (int rank = 3; rank >= 0; --rank) ranks.push_back(start(rank, 4, 60));
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), std::string("\0id\n", 4));
  Rendezvous{path(), 0, 4, 60}.removeFiles();
  EXPECT_EQ(files(), 0u);
}

TEST_F(RendezvousTest, OneRankNeedsNoFile) {
  EXPECT_EQ(start(0, 1, 1).get(), std::string("\0id\n", 4));
  EXPECT_EQ(files(), 0u);
}

TEST_F(RendezvousTest, MissingRanksAreNamed) {
  auto present = start(2, 5, 2);
  const std::string error = start(0, 5, 1).get();
  EXPECT_NE(error.find("of 5 ranks these did not come within 1 s: 1 3 4 "), std::string::npos)
      << error;
  EXPECT_NE(present.get().find("rank 0 did not write"), std::string::npos);
}

TEST_F(RendezvousTest, FilesOfAnOldJobAreRefused) {
  std::ofstream(path()) << "old";
  const std::string error = start(0, 2, 60).get();
  EXPECT_NE(error.find("exists already"), std::string::npos) << error;
}

TEST_F(RendezvousTest, UnwritableFolderIsNamed) {
  const Rendezvous rendezvous{"/nonexistent/id", 1, 2, 60};
  try {
    rendezvous.exchange([] { return std::string(); });
    FAIL() << "an identifier came from nowhere";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/id"), std::string::npos);
  }
}

}  // namespace
}  // namespace lm
