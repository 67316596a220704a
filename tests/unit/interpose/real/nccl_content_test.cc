#include "interpose/real/nccl_content.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "interpose/real/elf_file.h"

namespace cinch {
namespace {

// An ELF file with one section of constants at `offset`, and no symbols.
std::string objectWith(const std::string& constants, const char* section = ".rodata.str1.1") {
  const std::string names = std::string("\0.shstrtab\0", 11) + section + '\0';
  Elf64_Ehdr header{};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof header;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = names.size();
  sections[2].sh_name = 11;
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_offset = sections[1].sh_offset + names.size();
  sections[2].sh_size = constants.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         std::string(reinterpret_cast<const char*>(sections), sizeof sections) + names + constants;
}

std::string versionOf(const std::string& bytes) {
  const std::string path = testing::TempDir() + "nccl_content_test." + std::to_string(getpid());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  const auto content = readNcclContent(path);
  unlink(path.c_str());
  return content.ok() ? content.value().version : "error: " + content.error().message;
}

TEST(NcclContent, TheVersionIsWhatReleasesAnnounce) {
  const std::string noise(100, 'n');
  EXPECT_EQ(versionOf(objectWith(noise + "NCCL version 2.28.9+cuda13.0")), "2.28.9");
  EXPECT_EQ(versionOf(objectWith("NCCL version 2.7.8+cuda10.2" + noise)), "2.7.8");
  EXPECT_EQ(versionOf(objectWith("NCCL version 2.x\nNCCL version 2.18.5-rc1+cuda12.1\n")),
            "2.18.5");
}

TEST(NcclContent, OtherTextsAboutNcclAreNone) {
  for (const char* text :
       {"", "NCCL version 2.", "NCCL version 2.18", "NCCL version 2.18.", "NCCL version 2..5",
        "NCCL version %d.%d.%d", "nccl version 2.18.5+cuda12.1",
        "NCCL version 2.99999999999.99999999999999999999+cuda", "NCCL version 3.1.1+cuda",
        "NCCL version 2.27.0 or newer is needed", "NCCL version 2.27.0"})
    EXPECT_EQ(versionOf(objectWith(text)), "") << text;
  EXPECT_EQ(versionOf(objectWith("NCCL version 2.18.5+cuda12", ".nv_fatbin")), "");
  // The end of one text and another one behind it.
  EXPECT_EQ(versionOf(objectWith(std::string("NCCL version 2.27.0\0+cuda12.1", 29))), "");
}

// Constants are read in chunks of 1 MB.
TEST(NcclContent, AVersionAcrossChunksIsFound) {
  const std::string text = "NCCL version 2.30.7+cuda13.1";
  for (size_t before = (1 << 20) - text.size() - 2; before < (1 << 20) + 2; ++before)
    ASSERT_EQ(versionOf(objectWith(std::string(before, '\0') + text + std::string(99, '\0'))),
              "2.30.7")
        << before;
}

TEST(NcclContent, HiddenMeansThatNoLibraryCanReachIt) {
  NcclContent content;
  EXPECT_FALSE(content.hidesNccl());  // nothing to do with NCCL
  content.importsNccl = true;
  EXPECT_FALSE(content.hidesNccl());  // linked to another's
  content = {.version = "2.18.5"};
  EXPECT_TRUE(content.hidesNccl());
  EXPECT_NE(hiddenNcclText("/x/libhvd.so", content).find("/x/libhvd.so has NCCL 2.18.5"),
            std::string::npos);
  content.exportsNccl = true;
  EXPECT_TRUE(content.hidesNccl());  // exported, but its own calls do not look there
  content.bindsNccl = true;
  EXPECT_FALSE(content.hidesNccl());
  content.bindsNccl = false;
  content.isNccl = true;
  EXPECT_FALSE(content.hidesNccl());  // for others to call
  content.isNccl = false;
  content.bindsNccl = content.isProgram = true;
  EXPECT_TRUE(content.hidesNccl());  // a program's own symbols win
}

TEST(NcclContent, ThisProgramHasNone) {
  const auto content = readNcclContent("/proc/self/exe");
  ASSERT_TRUE(content.ok()) << content.error().message;
  EXPECT_TRUE(content.value().isProgram);
  EXPECT_FALSE(content.value().exportsNccl);
  EXPECT_FALSE(content.value().importsNccl);
  EXPECT_FALSE(content.value().isCinch);
}

}  // namespace
}  // namespace cinch
