#include "interpose/real/elf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cinch {
namespace {

Error damaged(const char* what) {
  return errorf(Status::invalidArgument, "damaged ELF file: %s", what);
}

// The bytes of `text` as values of T; what is left over at the end does not count.
template <class T>
std::vector<T> valuesOf(const std::string& text) {
  std::vector<T> values(text.size() / sizeof(T));
  if (!values.empty()) memcpy(values.data(), text.data(), values.size() * sizeof(T));
  return values;
}

std::string textAt(const std::string& table, uint64_t offset) {
  if (offset >= table.size()) return {};
  return std::string(table.c_str() + offset);
}

bool fitsThisMachine(const Elf64_Ehdr& header) {
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == ELFDATA2LSB;
}

}  // namespace

ElfFile::ElfFile(ElfFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      isProgram_(other.isProgram_),
      sections_(std::move(other.sections_)) {}

ElfFile::~ElfFile() {
  if (fd_ >= 0) close(fd_);
}

Result<ElfFile> ElfFile::open(const std::string& path) {
  // A fifo must not keep the reader waiting.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return errorf(Status::systemError, "cannot open %s: %s", path.c_str(), strerror(errno));
  struct stat status {};
  fstat(fd, &status);
  ElfFile file(fd, S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0);
  CINCH_TRY(file.readHeaders());
  return file;
}

Result<std::string> ElfFile::read(uint64_t offset, uint64_t nBytes) const {
  if (nBytes > size_ || offset > size_ - nBytes) return damaged("something lies behind its end");
  std::string bytes(nBytes, '\0');
  size_t done = 0;
  while (done < nBytes) {
    const ssize_t got = pread(fd_, bytes.data() + done, nBytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return errorf(Status::systemError, "cannot read: %s", strerror(errno));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

Result<void> ElfFile::readHeaders() {
  const auto bytes = read(0, sizeof(Elf64_Ehdr));
  if (!bytes.ok()) return errorf(Status::invalidArgument, "not an ELF file");
  Elf64_Ehdr header;
  memcpy(&header, bytes.value().data(), sizeof header);
  if (!fitsThisMachine(header)) return errorf(Status::invalidArgument, "not a 64-bit ELF file");
  CINCH_TRY(readSegments(header));
  return readSections(header);
}

Result<void> ElfFile::readSegments(const Elf64_Ehdr& header) {
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) return damaged("segments");
  const auto table = read(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  if (!table.ok()) return table.error();
  for (const Elf64_Phdr& segment : valuesOf<Elf64_Phdr>(table.value()))
    isProgram_ |= segment.p_type == PT_INTERP;
  isProgram_ |= header.e_type == ET_EXEC;
  return {};
}

Result<void> ElfFile::readSections(const Elf64_Ehdr& header) {
  if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) return damaged("sections");
  const auto table = read(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  if (!table.ok()) return table.error();
  const auto headers = valuesOf<Elf64_Shdr>(table.value());
  if (header.e_shstrndx >= headers.size()) return {};  // nothing can be told apart
  const Elf64_Shdr& nameTable = headers[header.e_shstrndx];
  const auto names = read(nameTable.sh_offset, nameTable.sh_size);
  if (!names.ok()) return names.error();
  for (const Elf64_Shdr& section : headers)
    sections_.push_back({textAt(names.value(), section.sh_name), section});
  return {};
}

Result<std::vector<ElfSymbol>> ElfFile::dynamicSymbols() const {
  const auto isSymbols = [](const ElfSection& s) { return s.header.sh_type == SHT_DYNSYM; };
  const auto table = std::find_if(sections_.begin(), sections_.end(), isSymbols);
  if (table == sections_.end()) return std::vector<ElfSymbol>();
  if (table->header.sh_link >= sections_.size()) return damaged("its symbols have no names");
  const Elf64_Shdr& nameTable = sections_[table->header.sh_link].header;
  const auto names = read(nameTable.sh_offset, nameTable.sh_size);
  if (!names.ok()) return names.error();
  const auto bytes = read(table->header.sh_offset, table->header.sh_size);
  if (!bytes.ok()) return bytes.error();
  std::vector<ElfSymbol> symbols;
  for (const Elf64_Sym& symbol : valuesOf<Elf64_Sym>(bytes.value()))
    symbols.push_back({textAt(names.value(), symbol.st_name), symbol.st_shndx != SHN_UNDEF});
  CINCH_TRY(markBound(symbols));
  return symbols;
}

Result<void> ElfFile::markBound(std::vector<ElfSymbol>& symbols) const {
  for (const ElfSection& section : sections_) {
    if (section.header.sh_type != SHT_RELA) continue;
    const auto bytes = read(section.header.sh_offset, section.header.sh_size);
    if (!bytes.ok()) return bytes.error();
    for (const Elf64_Rela& relocation : valuesOf<Elf64_Rela>(bytes.value()))
      if (const uint64_t i = ELF64_R_SYM(relocation.r_info); i < symbols.size())
        symbols[i].bound = true;
  }
  return {};
}

}  // namespace cinch
