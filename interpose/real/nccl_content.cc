#include "interpose/real/nccl_content.h"

#include <algorithm>
#include <string_view>

#include "common/log.h"
#include "interpose/real/elf_file.h"
#include "interpose/real/shared_object.h"

namespace cinch {
namespace {

// Every release announces itself with this text, followed by minor number, patch, perhaps a suffix,
// and the CUDA it was built with. Frameworks say "NCCL version 2.27.0" in messages of their own,
// but not the rest.
constexpr std::string_view kAnnouncement = "NCCL version 2.";
constexpr std::string_view kBuiltWith = "+cuda";
constexpr size_t kLongestVersion = 32;
constexpr uint64_t kChunk = 1 << 20;

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

size_t digitsAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && isDigit(text[end])) ++end;
  return end - at;
}

// "28.9" at the start of `text`, if "+cuda" comes soon after it; else empty.
std::string_view minorAndPatch(std::string_view text) {
  text = text.substr(0, kLongestVersion);
  const size_t minor = digitsAt(text, 0);
  if (minor == 0 || minor >= text.size() || text[minor] != '.') return {};
  const size_t patch = digitsAt(text, minor + 1);
  const size_t end = text.find(kBuiltWith);
  const bool complete = patch > 0 && end < text.find('\0');
  return complete ? text.substr(0, minor + 1 + patch) : std::string_view();
}

std::string versionIn(std::string_view text) {
  for (size_t at = text.find(kAnnouncement); at != std::string_view::npos;
       at = text.find(kAnnouncement, at + 1))
    if (const auto found = minorAndPatch(text.substr(at + kAnnouncement.size())); !found.empty())
      return "2." + std::string(found);
  return {};
}

// Device code lies elsewhere, and is the bulk of such files.
bool holdsConstants(const ElfSection& section) {
  return section.header.sh_type == SHT_PROGBITS && section.name.starts_with(".rodata");
}

Result<std::string> versionIn(const ElfFile& file, const Elf64_Shdr& section) {
  // Chunks overlap, so that no text is cut.
  constexpr uint64_t kOverlap = kAnnouncement.size() + kLongestVersion;
  for (uint64_t at = 0; at < section.sh_size; at += kChunk) {
    const uint64_t nBytes = std::min(kChunk + kOverlap, section.sh_size - at);
    const auto bytes = file.read(section.sh_offset + at, nBytes);
    if (!bytes.ok()) return bytes.error();
    if (std::string version = versionIn(bytes.value()); !version.empty()) return version;
  }
  return std::string();
}

void addSymbol(const ElfSymbol& symbol, NcclContent& content) {
  content.bindsNccl |= symbol.bound && symbol.name.starts_with("nccl");
  content.isCinch |= symbol.defined && symbol.name == kDropInMarker;
  if (symbol.name == kNcclProbe || symbol.name == kNcclProbe + 1)
    (symbol.defined ? content.exportsNccl : content.importsNccl) = true;
}

}  // namespace

Result<NcclContent> readNcclContent(const std::string& path) {
  const auto file = ElfFile::open(path);
  if (!file.ok()) return file.error();
  NcclContent content;
  content.isProgram = file.value().isProgram();
  content.isNccl = path.substr(path.rfind('/') + 1).starts_with("libnccl.so");
  const auto symbols = file.value().dynamicSymbols();
  if (!symbols.ok()) return symbols.error();
  for (const ElfSymbol& symbol : symbols.value()) addSymbol(symbol, content);
  for (const ElfSection& section : file.value().sections()) {
    if (!content.version.empty() || !holdsConstants(section)) continue;
    auto version = versionIn(file.value(), section.header);
    if (!version.ok()) return version.error();
    content.version = std::move(version.value());
  }
  return content;
}

std::string hiddenNcclText(const std::string& path, const NcclContent& content) {
  return path + " has NCCL " + content.version +
         " linked into it statically: Cinch cannot reach its calls. Use a build that is linked to "
         "libnccl.so.2";
}

void warnOfHiddenNccl() {
  for (const std::string& path : mappedObjects()) {
    const auto content = readNcclContent(path.empty() ? "/proc/self/exe" : path);
    if (content.ok() && content.value().hidesNccl())
      CINCH_WARN("INIT", "%s", hiddenNcclText(path, content.value()).c_str());
  }
}

}  // namespace cinch
