#include "interpose/real/loader_cache.h"

#include <cstdint>
#include <cstring>

namespace cinch {
namespace {

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";

// As in the file, in the byte order of the machine.
struct Header {
  char magic[20];
  uint32_t nEntries;
  uint32_t stringBytes;
  uint32_t unused[5];
};
static_assert(sizeof(Header) == 48);

struct Entry {
  int32_t flags;
  uint32_t name;  // offsets from the header's first byte
  uint32_t path;
  uint32_t osVersion;
  uint64_t hardware;
};
static_assert(sizeof(Entry) == 24);

// The text at `offset`, which ends with a null inside of `bytes`; else empty.
std::string_view textAt(std::string_view bytes, size_t offset) {
  if (offset >= bytes.size()) return {};
  const size_t end = bytes.find('\0', offset);
  return end == std::string_view::npos ? std::string_view() : bytes.substr(offset, end - offset);
}

}  // namespace

std::vector<std::string> findInLoaderCache(std::string_view cache, std::string_view library) {
  // Old formats put this one behind their own.
  const size_t start = cache.find(kMagic);
  if (start == std::string_view::npos || cache.size() - start < sizeof(Header)) return {};
  const std::string_view bytes = cache.substr(start);
  Header header;
  memcpy(&header, bytes.data(), sizeof header);
  if (header.nEntries > (bytes.size() - sizeof header) / sizeof(Entry)) return {};
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < header.nEntries; ++i) {
    Entry entry;
    memcpy(&entry, bytes.data() + sizeof header + i * sizeof entry, sizeof entry);
    const std::string_view path = textAt(bytes, entry.path);
    if (textAt(bytes, entry.name) == library && !path.empty()) paths.emplace_back(path);
  }
  return paths;
}

}  // namespace cinch
