#include "examples/lm/gradient_dump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

namespace lm {
namespace {

namespace fs = std::filesystem;

template <class T>
std::vector<T> readAll(const std::string& path) {
  std::vector<T> values(fs::file_size(path) / sizeof(T));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

class GradientDumpTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ = testing::TempDir() + "dump" + std::to_string(getpid());
    options_.dumpGradients = base_ + ".gradients";
    options_.dumpSums = base_ + ".sums";
    options_.dumpSteps = {2, 0};
  }
  void TearDown() override {
    fs::remove(base_ + ".gradients");
    fs::remove(base_ + ".sums");
  }

  std::string base_;
  Options options_;
};

TEST_F(GradientDumpTest, WritesChosenStepsAndSumsOfAll) {
  GradientDump dump(options_, 2);
  for (int step = 0; step < 3; ++step) {
    const auto value = static_cast<float>(step);
    dump.addSent(step, std::vector<float>{value, -1});
    dump.addReduced(std::vector<float>{10 * value, 0.5f});
  }
  dump.finish();
  EXPECT_EQ(readAll<float>(options_.dumpGradients), (std::vector<float>{0, -1, 2, -1}));
  EXPECT_EQ(readAll<double>(options_.dumpSums), (std::vector<double>{3, -3, 30, 1.5}));
}

TEST_F(GradientDumpTest, SumsAreExact) {
  options_.dumpGradients.clear();
  options_.dumpSteps.clear();
  GradientDump dump(options_, 1);
  // In fp32 the small one would be lost.
  dump.addSent(0, std::vector<float>{1e8f});
  for (int step = 1; step <= 100; ++step) dump.addSent(step, std::vector<float>{1});
  dump.finish();
  EXPECT_EQ(readAll<double>(options_.dumpSums), (std::vector<double>{100000100.0, 0}));
}

TEST_F(GradientDumpTest, WritesNothingUnasked) {
  GradientDump dump(Options{}, 2);
  dump.addSent(0, std::vector<float>{1, 2});
  dump.addReduced(std::vector<float>{1, 2});
  dump.finish();
  EXPECT_FALSE(fs::exists(base_ + ".gradients"));
}

TEST_F(GradientDumpTest, UnwritableFileIsNamed) {
  options_.dumpSums = "/nonexistent/sums";
  try {
    GradientDump dump(options_, 2);
    FAIL() << "opened a file in a folder that does not exist";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/sums"), std::string::npos);
  }
}

}  // namespace
}  // namespace lm
