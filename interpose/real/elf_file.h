// A 64-bit ELF file, opened to look at: its sections and its dynamic symbols. Whatever the file
// says is checked against its size; nothing of it is mapped or run.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"

namespace cinch {

struct ElfSection {
  std::string name;
  Elf64_Shdr header{};
};

struct ElfSymbol {
  std::string name;
  bool defined = false;
  bool bound =
      false;  // the loader binds uses of it inside of this file, to whoever defines it first
};

class ElfFile {
 public:
  // Errors: not a file that can be read, not ELF of this machine's kind, or damaged.
  static Result<ElfFile> open(const std::string& path);

  ElfFile(ElfFile&& other) noexcept;
  ElfFile(const ElfFile&) = delete;
  ~ElfFile();

  // Whether a kernel can start it: a program, also a position-independent one.
  bool isProgram() const { return isProgram_; }
  const std::vector<ElfSection>& sections() const { return sections_; }

  // Of the dynamic symbol table; empty where it has none.
  Result<std::vector<ElfSymbol>> dynamicSymbols() const;

  // `nBytes` bytes at `offset` of the file; an error where it is shorter.
  Result<std::string> read(uint64_t offset, uint64_t nBytes) const;

 private:
  explicit ElfFile(int fd, uint64_t size) : fd_(fd), size_(size) {}
  Result<void> markBound(std::vector<ElfSymbol>& symbols) const;
  Result<void> readHeaders();
  Result<void> readSections(const Elf64_Ehdr& header);
  Result<void> readSegments(const Elf64_Ehdr& header);

  int fd_;
  uint64_t size_;
  bool isProgram_ = false;
  std::vector<ElfSection> sections_;
};

}  // namespace cinch
