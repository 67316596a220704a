#include "interpose/real/elf_file.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "interpose/real/nccl_content.h"
#include "interpose/real/shared_object.h"

namespace cinch {
namespace {

class ElfFileTest : public testing::Test {
 protected:
  ~ElfFileTest() override { unlink(path_.c_str()); }

  const std::string& write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return path_;
  }

  const std::string path_ = testing::TempDir() + "elf_file_test." + std::to_string(getpid());
};

std::string readAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

// A small library that every machine has.
std::string someLibrary() {
  return pathOf(dlsym(RTLD_DEFAULT, "cbrt"));
}

bool defines(const std::vector<ElfSymbol>& symbols, const std::string& name) {
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](const ElfSymbol& s) { return s.name == name && s.defined; });
}

TEST_F(ElfFileTest, ReadsALibraryAndAProgram) {
  const auto library = ElfFile::open(someLibrary());
  ASSERT_TRUE(library.ok()) << library.error().message;
  EXPECT_FALSE(library.value().isProgram());
  const auto symbols = library.value().dynamicSymbols();
  ASSERT_TRUE(symbols.ok()) << symbols.error().message;
  EXPECT_TRUE(defines(symbols.value(), "cbrt"));
  EXPECT_FALSE(defines(symbols.value(), "ncclAllReduce"));

  const auto program = ElfFile::open("/proc/self/exe");
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_TRUE(program.value().isProgram());
  EXPECT_FALSE(program.value().sections().empty());
}

TEST_F(ElfFileTest, WhatIsNoElfFileIsRefused) {
  for (const std::string& bytes : {std::string(), std::string("#!/bin/sh\nexit 0\n"),
                                   std::string("\x7f"
                                               "ELF"),
                                   std::string(4096, 'x')})
    EXPECT_FALSE(ElfFile::open(write(bytes)).ok()) << bytes.substr(0, 10);
  EXPECT_FALSE(ElfFile::open("").ok());
  EXPECT_FALSE(ElfFile::open("/").ok());
  EXPECT_FALSE(ElfFile::open("/dev/zero").ok());
  const auto missing = ElfFile::open("/nowhere/lib.so");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("/nowhere/lib.so"), std::string::npos);
}

TEST_F(ElfFileTest, AFifoDoesNotBlock) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(ElfFile::open(path_).ok());
}

TEST_F(ElfFileTest, EveryCutIsAnErrorOrHarmless) {
  const std::string whole = readAll("/proc/self/exe");
  ASSERT_GT(whole.size(), 4096u);
  for (const size_t length : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4000},
                              whole.size() / 2, whole.size() - 1}) {
    const auto cut = ElfFile::open(write(whole.substr(0, length)));
    EXPECT_FALSE(cut.ok()) << length;  // the table of sections is at the end
  }
}

// The tables that lead everywhere else are what is worth damaging.
TEST_F(ElfFileTest, DamagedTablesAreAnErrorOrHarmless) {
  const std::string whole = readAll(someLibrary());
  Elf64_Ehdr header;
  memcpy(&header, whole.data(), sizeof header);
  const size_t tables[] = {0, header.e_phoff, header.e_shoff};
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 4; ++i) {
      const size_t at = tables[random() % 3] + random() % 512;
      damaged[std::min(at, damaged.size() - 1)] = static_cast<char>(random());
    }
    refused += !readNcclContent(write(damaged)).ok();
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace cinch
