#include "interpose/comm/residual_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr ResidualOwner kOwner{4, 1};

const std::vector<ResidualEntry> kEntries = {
    {7, "AllReduce fp32 Sum x 1000", ResidualType::fp32, 4000, 3000, 1000},
    {0xfedcba9876543210, "", ResidualType::int8, 33, 33, 0},
    {9, "empty", ResidualType::bf16, 0, 0, 0},
};

uint8_t valueOf(size_t entry, size_t i) {
  return static_cast<uint8_t>(31 * entry + 7 * i + i / 256);
}

Result<void> fill(size_t entry, std::span<uint8_t> bytes) {
  EXPECT_EQ(bytes.size(), kEntries[entry].bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = valueOf(entry, i);
  return {};
}

class ResidualFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void save() { ASSERT_TRUE(saveResiduals(path_, kOwner, kEntries, fill).ok()); }
  Bytes content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const Bytes& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  size_t nFiles() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // How many entries of the file can be read, all of which are as they were saved; null where the
  // file is refused.
  std::optional<size_t> nReadable() const {
    auto file = ResidualFile::open(path_, kOwner);
    if (!file.ok()) return {};
    EXPECT_EQ(file.value().entries(), kEntries);
    size_t n = 0;
    for (size_t entry = 0; entry < kEntries.size(); ++entry) {
      const auto read = file.value().read(entry);
      if (!read.ok()) continue;
      ++n;
      EXPECT_EQ(read.value().size(), kEntries[entry].bytes());
      for (size_t i = 0; i < read.value().size(); ++i)
        EXPECT_EQ(read.value()[i], valueOf(entry, i));
    }
    return n;
  }

  const std::string folder_ = testing::TempDir() + "cinch_residual_file_" +
                              testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = folder_ + "/residuals";
};

TEST_F(ResidualFileTest, WhatIsSavedIsLoaded) {
  save();
  EXPECT_EQ(nReadable(), kEntries.size());
  EXPECT_EQ(nFiles(), 1u);
  auto file = ResidualFile::open(path_, kOwner);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file.value().read(1).ok()) << "in any order";
  EXPECT_TRUE(file.value().read(0).ok());
}

TEST_F(ResidualFileTest, NoSlotsAreAListToo) {
  ASSERT_TRUE(saveResiduals(path_, kOwner, {}, fill).ok());
  const auto file = ResidualFile::open(path_, kOwner);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file.value().entries().empty());
}

TEST_F(ResidualFileTest, OtherRanksAreRefused) {
  save();
  for (const ResidualOwner& other : {ResidualOwner{4, 0}, ResidualOwner{5, 1}, ResidualOwner{}}) {
    const auto file = ResidualFile::open(path_, other);
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.error().message.find("it is of rank 1 of 4"), std::string::npos);
  }
}

TEST_F(ResidualFileTest, AFailureLeavesTheOldFile) {
  save();
  const Bytes before = content();
  const auto failing = [](size_t entry, std::span<uint8_t>) -> Result<void> {
    if (entry == 1) return errorf(Status::cudaError, "no device");
    return {};
  };
  const auto saved = saveResiduals(path_, kOwner, kEntries, failing);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().message, "no device");
  EXPECT_EQ(content(), before);
  EXPECT_EQ(nFiles(), 1u);
  EXPECT_FALSE(saveResiduals(folder_ + "/missing/file", kOwner, kEntries, fill).ok());
  EXPECT_FALSE(ResidualFile::open(folder_ + "/missing", kOwner).ok());
  EXPECT_FALSE(ResidualFile::open(folder_, kOwner).ok());
}

TEST_F(ResidualFileTest, ATruncatedOrLongerFileIsRefused) {
  save();
  Bytes bytes = content();
  bytes.push_back(0);
  write(bytes);
  EXPECT_EQ(nReadable(), std::nullopt);
  for (size_t nBytes = bytes.size() - 1; nBytes-- > 0; nBytes -= nBytes % 50) {
    bytes.resize(nBytes);
    write(bytes);
    EXPECT_EQ(nReadable(), std::nullopt) << nBytes;
  }
}

TEST_F(ResidualFileTest, DamageIsNoticed) {
  save();
  const Bytes right = content();
  for (size_t at = 0; at < right.size(); at += at < 160 ? 1 : 97) {
    Bytes wrong = right;
    wrong[at] ^= static_cast<uint8_t>(1u << at % 8);
    write(wrong);
    EXPECT_LT(nReadable().value_or(0), kEntries.size()) << at;
  }
}

// Lists that promise the impossible, with hashes that fit.
TEST_F(ResidualFileTest, GarbageIsRefusedWhateverItSays) {
  save();
  const Bytes right = content();
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    Bytes wrong = right;
    for (int i = 0; i < 3; ++i) wrong[random() % 134] = static_cast<uint8_t>(random());
    if (wrong == right) continue;
    const uint32_t nListBytes = loadLittle<uint32_t>(&wrong[20]);
    if (24 + uint64_t{nListBytes} + 8 <= wrong.size())
      storeLittle(hashBytes(wrong.data(), 24 + nListBytes), &wrong[24 + nListBytes]);
    write(wrong);
    auto file = ResidualFile::open(path_, kOwner);
    if (!file.ok()) continue;  // names and identities may be others
    for (size_t i = 0; i < file.value().entries().size(); ++i) (void)file.value().read(i);
    EXPECT_LE(file.value().entries().size(), kEntries.size());
  }
}

}  // namespace
}  // namespace cinch
