#include "tests/golden/golden_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace cinch::test {
namespace {

constexpr char kFileMagic[] = "CINCHGLD";
constexpr size_t kMagicBytes = 8;
constexpr size_t kNameBytes = 24;

struct SectionHeader {
  char name[kNameBytes];
  uint64_t nBytes;
};
static_assert(sizeof(SectionHeader) == 32);

}  // namespace

Result<GoldenFile> GoldenFile::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.compare(0, kMagicBytes, kFileMagic) != 0)
    return errorf(Status::systemError, "%s is missing or no golden file", path.c_str());
  GoldenFile golden;
  size_t at = kMagicBytes;
  while (at < text.size()) {
    SectionHeader header;
    if (text.size() - at < sizeof header)
      return errorf(Status::systemError, "%s is cut off", path.c_str());
    std::memcpy(&header, text.data() + at, sizeof header);
    at += sizeof header;
    if (text.size() - at < header.nBytes)
      return errorf(Status::systemError, "%s is cut off", path.c_str());
    const std::string name(header.name, strnlen(header.name, kNameBytes));
    golden.setSection(name, text.data() + at, header.nBytes);
    at += header.nBytes;
  }
  return golden;
}

Result<void> GoldenFile::writeNew(const std::string& path) const {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wbx"), std::fclose);
  if (!file)
    return errorf(Status::systemError, "cannot create %s: %s", path.c_str(), std::strerror(errno));
  bool written = std::fwrite(kFileMagic, kMagicBytes, 1, file.get()) == 1;
  for (const auto& [name, bytes] : sections_) {
    SectionHeader header{{}, bytes.size()};
    written = written && name.size() <= kNameBytes;
    std::memcpy(header.name, name.data(), std::min(name.size(), kNameBytes));
    written = written && std::fwrite(&header, sizeof header, 1, file.get()) == 1 &&
              std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  }
  if (!written) return errorf(Status::systemError, "cannot write %s", path.c_str());
  return {};
}

GoldenParameters GoldenFile::parameters() const {
  GoldenParameters parameters{};
  const std::vector<uint8_t>& bytes = section("parameters");
  if (bytes.size() == sizeof parameters) std::memcpy(&parameters, bytes.data(), sizeof parameters);
  return parameters;
}

wire::ShardLayout GoldenFile::layout() const {
  const GoldenParameters p = parameters();
  return {p.count, p.nShards, static_cast<wire::Codec>(p.codec), p.fixedShard};
}

ElementType GoldenFile::type() const {
  return static_cast<ElementType>(parameters().type);
}

InputFactor GoldenFile::inputFactor() const {
  InputFactor factor;
  const std::vector<uint8_t>& bytes = section("inputFactor");
  if (bytes.size() == sizeof factor.value) std::memcpy(&factor.value, bytes.data(), bytes.size());
  return factor;
}

const std::vector<uint8_t>& GoldenFile::section(const std::string& name) const {
  static const std::vector<uint8_t> none;
  const auto found = sections_.find(name);
  return found == sections_.end() ? none : found->second;
}

void GoldenFile::setParameters(const GoldenParameters& parameters) {
  setSection("parameters", &parameters, sizeof parameters);
}

void GoldenFile::setSection(const std::string& name, const void* bytes, size_t nBytes) {
  const auto* first = static_cast<const uint8_t*>(bytes);
  sections_[name].assign(first, first + nBytes);
}

}  // namespace cinch::test
