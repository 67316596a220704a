#include "tests/golden/golden_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "kernels/codec/registry.h"

namespace cinch::test {
namespace {

// Of no size where no codec has the id.
wire::CodecFormat formatOf(uint64_t id) {
  const codec::CodecInfo* const codec = codec::findCodec(static_cast<uint8_t>(id));
  return codec ? codec->format : wire::CodecFormat{};
}

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
  golden.makeMixedLayout();
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
  if (mixed_) return mixed_->layout();
  const GoldenParameters p = parameters();
  const wire::CodecFormat codec = formatOf(p.codec);
  if (codec == wire::CodecFormat{}) return {};
  return {p.count, p.nShards, codec, p.fixedShard};
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

CodingRule GoldenFile::rule() const {
  CodingRule rule{.gain = parameters().gain};
  GoldenRule stored;
  const std::vector<uint8_t>& bytes = section("rule");
  if (bytes.size() != sizeof stored) return rule;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  rule.decay = stored.decay;
  rule.residualType = static_cast<ResidualType>(stored.residualType);
  rule.rounding = static_cast<Rounding>(stored.rounding);
  rule.seed = stored.seed;
  return rule;
}

const std::vector<uint8_t>& GoldenFile::section(const std::string& name) const {
  static const std::vector<uint8_t> none;
  const auto found = sections_.find(name);
  return found == sections_.end() ? none : found->second;
}

void GoldenFile::setParameters(const GoldenParameters& parameters) {
  setSection("parameters", &parameters, sizeof parameters);
}

void GoldenFile::setRule(const CodingRule& rule) {
  const GoldenRule stored{rule.decay, static_cast<uint32_t>(rule.residualType),
                          static_cast<uint32_t>(rule.rounding), 0, rule.seed};
  setSection("rule", &stored, sizeof stored);
}

void GoldenFile::setSegments(std::span<const wire::Segment> segments) {
  std::vector<GoldenSegment> stored;
  for (const wire::Segment& segment : segments)
    stored.push_back({segment.nTiles, segment.codec.id});
  setSection("segments", stored.data(), stored.size() * sizeof(GoldenSegment));
  makeMixedLayout();
}

void GoldenFile::makeMixedLayout() {
  const std::vector<uint8_t>& bytes = section("segments");
  std::vector<GoldenSegment> stored(bytes.size() / sizeof(GoldenSegment));
  if (stored.empty()) return;
  std::memcpy(stored.data(), bytes.data(), stored.size() * sizeof(GoldenSegment));
  std::vector<wire::Segment> segments;
  for (const GoldenSegment& segment : stored) {
    const wire::CodecFormat codec = formatOf(segment.codec);
    if (codec == wire::CodecFormat{}) return;
    segments.push_back({segment.nTiles, codec});
  }
  const GoldenParameters p = parameters();
  mixed_ = std::make_shared<wire::MixedLayout>(p.count, p.nShards, segments);
}

void GoldenFile::setSection(const std::string& name, const void* bytes, size_t nBytes) {
  const auto* first = static_cast<const uint8_t*>(bytes);
  sections_[name].assign(first, first + nBytes);
}

}  // namespace cinch::test
