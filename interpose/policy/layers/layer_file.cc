#include "interpose/policy/layers/layer_file.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "common/text.h"

namespace cinch {

namespace {

std::optional<uint64_t> numberFrom(std::string_view field, uint64_t max) {
  uint64_t number = 0;
  const char* const end = field.data() + field.size();
  const auto [parsed, error] = std::from_chars(field.data(), end, number);
  if (error != std::errc() || parsed != end || number > max) return std::nullopt;
  return number;
}

constexpr uint64_t kMaxDims = 64;
constexpr size_t kMaxLayers = 1 << 16;

class Parser {
 public:
  Result<void> addLine(std::string_view line) {
    ++lineNumber_;
    const std::string_view content = takeUntil(line, "#");
    if (content.empty()) return {};
    const bool isFirst = !std::exchange(hasContent_, true);
    return isFirst && content.starts_with("bucket") ? Result<void>() : addLayer(content);
  }

  Result<std::vector<BucketLayout>> finish() {
    if (buckets_.empty())
      return errorf(Status::invalidUsage, "no layers: each line is bucket,elements[,dims[,name]]");
    return std::move(buckets_);
  }

 private:
  Result<void> addLayer(std::string_view fields) {
    const std::string_view bucket = takeUntil(fields, ","), elements = takeUntil(fields, ","),
                           dims = takeUntil(fields, ",");
    CINCH_TRY(enterBucket(bucket));
    const auto count = numberFrom(elements, kMaxLayerCount);
    if (!count || *count == 0)
      return wrong(elements, "elements: a whole number from 1 to 17592186044416");
    const auto nDims = dims.empty() ? kUnknownDims : numberFrom(dims, kMaxDims);
    if (!nDims) return wrong(dims, "dims: a whole number from 0 to 64, or nothing");
    if (++nLayers_ > kMaxLayers) return wrong(bucket, "no more: 65536 layers are the most");
    buckets_.back().push_back({*count, static_cast<uint8_t>(*nDims)});
    return {};
  }

  Result<void> enterBucket(std::string_view field) {
    const auto bucket = numberFrom(field, kMaxLayers);
    if (!bucket) return wrong(field, "a bucket: a whole number from 0");
    if (*bucket + 1 == buckets_.size()) return {};
    if (*bucket != buckets_.size()) return wrong(field, nextBuckets());
    buckets_.emplace_back();
    return {};
  }

  std::string nextBuckets() const {
    const std::string next = std::to_string(buckets_.size());
    if (buckets_.empty()) return "bucket " + next + ": they count from 0, without gaps";
    return "bucket " + std::to_string(buckets_.size() - 1) + " or " + next +
           ": they count from 0, without gaps";
  }

  Error wrong(std::string_view field, const std::string& wanted) const {
    constexpr size_t kShown = 40;
    return errorf(Status::invalidUsage, "line %zu: '%s' should be %s", lineNumber_,
                  std::string(field.substr(0, kShown)).c_str(), wanted.c_str());
  }

  size_t lineNumber_ = 0;
  size_t nLayers_ = 0;
  bool hasContent_ = false;
  std::vector<BucketLayout> buckets_;
};

}  // namespace

Result<std::vector<BucketLayout>> parseLayerFile(std::string_view text) {
  Parser parser;
  while (!text.empty()) CINCH_TRY(parser.addLine(takeUntil(text, "\n")));
  return parser.finish();
}

}  // namespace cinch
