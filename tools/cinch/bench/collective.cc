#include "tools/cinch/bench/collective.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace cinch::bench {
namespace {

constexpr Collective kCollectives[] = {{CallKind::allReduce, "all_reduce"},
                                       {CallKind::reduceScatter, "reduce_scatter"},
                                       {CallKind::allGather, "all_gather"}};
constexpr Operation kOperations[] = {
    {ncclSum, "sum"}, {ncclProd, "prod"}, {ncclMax, "max"}, {ncclMin, "min"}, {ncclAvg, "avg"}};
constexpr const char* kAll = "all";
constexpr uint64_t kShardAlignment = 16;  // bytes

}  // namespace

const Collective* findCollective(std::string_view name) {
  for (const Collective& collective : kCollectives)
    if (name == collective.name) return &collective;
  return nullptr;
}

const Operation* findOperation(std::string_view name) {
  for (const Operation& operation : kOperations)
    if (name == operation.name) return &operation;
  return nullptr;
}

std::vector<Operation> operationsNamed(std::string_view name) {
  if (name == kAll) return {std::begin(kOperations), std::end(kOperations)};
  const Operation* operation = findOperation(name);
  return operation == nullptr ? std::vector<Operation>{} : std::vector{*operation};
}

std::vector<ElementType> typesNamed(std::string_view name) {
  if (name == kAll) return {elementTypes().begin(), elementTypes().end()};
  const ElementType* type = findElementType(name);
  return type == nullptr ? std::vector<ElementType>{} : std::vector{*type};
}

uint64_t Shape::bytes() const {
  return std::max(sendCount(), receiveCount()) * elementBytes;
}

uint64_t Shape::inPlaceOffset(int rank) const {
  return kind == CallKind::allReduce ? 0 : count * static_cast<uint64_t>(rank);
}

double Shape::ringBytes() const {
  const double phases = kind == CallKind::allReduce ? 2 : 1;
  return phases * (ranks - 1) / ranks * static_cast<double>(bytes());
}

Shape shapeOf(CallKind kind, uint64_t bytes, size_t elementBytes, int ranks) {
  uint64_t count = bytes / elementBytes;
  if (kind != CallKind::allReduce) {
    const uint64_t alignment = kShardAlignment / elementBytes;
    count = count / static_cast<uint64_t>(ranks) / alignment * alignment;
  }
  return {kind, ranks, elementBytes, count};
}

Bandwidth bandwidthOf(const Shape& shape, double microseconds) {
  if (!(microseconds > 0)) return {0, 0};
  constexpr double kPerGigabyte = 1e3;  // bytes per microsecond
  const double algorithm = static_cast<double>(shape.bytes()) / microseconds / kPerGigabyte;
  const double bus = shape.ringBytes() / microseconds / kPerGigabyte;
  return {algorithm, bus};
}

std::vector<uint64_t> Sweep::sizes() const {
  std::vector<uint64_t> sizes;
  for (uint64_t size = first; size <= last;) {
    sizes.push_back(size);
    const uint64_t next =
        factor > 1 ? std::max(size + 1, static_cast<uint64_t>(static_cast<double>(size) * factor))
                   : size + step;
    if (next <= size) break;  // no step
    size = next;
  }
  return sizes;
}

std::optional<uint64_t> parseSize(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0)) return std::nullopt;
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  if (suffix.size() > 1) return std::nullopt;
  constexpr std::string_view kSuffixes = "KMGT";
  double unit = 1;
  if (!suffix.empty()) {
    const size_t power = kSuffixes.find(static_cast<char>(std::toupper(suffix[0])));
    if (power == std::string_view::npos) return std::nullopt;
    unit = std::pow(1024.0, static_cast<double>(power + 1));
  }
  const double bytes = value * unit;
  if (bytes >= 0x1p60 || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

}  // namespace cinch::bench
