#include "net_plugin/ib/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "common/text.h"
#include "net_plugin/ib/slots.h"

namespace cinch::net::ib {
namespace {

using Variable = const char* (*)(const char* name);

struct Range {
  long least;
  long most;
};

// Leaves `out` as it is where the variable is unset or empty.
template <class Number>
Result<void> readNumber(Variable variable, const char* name, Range range, Number& out) {
  const char* text = variable(name);
  if (text == nullptr || *text == 0) return {};
  std::string_view digits = trim(text);
  const bool isHex = digits.starts_with("0x") || digits.starts_with("0X");
  if (isHex) digits.remove_prefix(2);
  long value = 0;
  const auto [end, failure] = std::from_chars(digits.begin(), digits.end(), value, isHex ? 16 : 10);
  const bool isNumber = failure == std::errc() && end == digits.end();
  if (!isNumber || value < range.least || value > range.most) {
    return errorf(Status::invalidUsage, "%s=%s is not a number from %ld to %ld", name, text,
                  range.least, range.most);
  }
  out = static_cast<Number>(value);
  return {};
}

// The same where -1 is NCCL's way to say that nothing is chosen.
template <class Number>
Result<void> readChoice(Variable variable, const char* name, long most,
                        std::optional<Number>& out) {
  const char* text = variable(name);
  if (text == nullptr || *text == 0 || strcmp(text, "-1") == 0) return {};
  Number value = 0;
  CINCH_TRY(readNumber(variable, name, {0, most}, value));
  out = value;
  return {};
}

Result<void> readFamily(Variable variable, AddressFamily& out) {
  const char* text = variable("NCCL_IB_ADDR_FAMILY");
  if (text == nullptr || *text == 0) return {};
  if (strcmp(text, "AF_INET") != 0 && strcmp(text, "AF_INET6") != 0) {
    return errorf(Status::invalidUsage, "NCCL_IB_ADDR_FAMILY=%s is neither AF_INET nor AF_INET6",
                  text);
  }
  out = strcmp(text, "AF_INET") == 0 ? AddressFamily::ipv4 : AddressFamily::ipv6;
  return {};
}

Result<void> readGidWish(Variable variable, GidWish& wish) {
  CINCH_TRY(readChoice(variable, "NCCL_IB_GID_INDEX", long{kMostGidIndex}, wish.index));
  CINCH_TRY(readFamily(variable, wish.family));
  CINCH_TRY(readNumber(variable, "NCCL_IB_ROCE_VERSION_NUM", {1, 2}, wish.roceVersion));
  if (const char* range = variable("NCCL_IB_ADDR_RANGE"); range != nullptr) wish.range = range;
  return {};
}

}  // namespace

Result<Settings> readSettings(Variable variable) {
  constexpr long kMostQueuesOfNccl = 128;
  Settings settings;
  CINCH_TRY(readNumber(variable, "NCCL_IB_DISABLE", {0, 1}, settings.isDisabled));
  if (const char* list = variable("NCCL_IB_HCA"); list != nullptr) settings.devices = list;
  CINCH_TRY(readGidWish(variable, settings.gid));
  CINCH_TRY(
      readNumber(variable, "NCCL_IB_QPS_PER_CONNECTION", {0, kMostQueuesOfNccl}, settings.nQueues));
  settings.nQueues = std::clamp(settings.nQueues, size_t{1}, size_t{kMaxParts});
  CINCH_TRY(readNumber(variable, "NCCL_IB_SPLIT_DATA_ON_QPS", {0, 1}, settings.splits));
  CINCH_TRY(readNumber(variable, "NCCL_IB_TIMEOUT", {0, 31}, settings.timeout));
  CINCH_TRY(readNumber(variable, "NCCL_IB_RETRY_CNT", {0, 7}, settings.retries));
  CINCH_TRY(readNumber(variable, "NCCL_IB_PKEY", {0, UINT16_MAX}, settings.partition));
  CINCH_TRY(readChoice(variable, "NCCL_IB_SL", 15, settings.serviceLevel));
  CINCH_TRY(readChoice(variable, "NCCL_IB_TC", 255, settings.trafficClass));
  int relaxed = 2;
  CINCH_TRY(readNumber(variable, "NCCL_IB_PCI_RELAXED_ORDERING", {0, 2}, relaxed));
  settings.relaxedOrdering = relaxed != 0;
  CINCH_TRY(readNumber(variable, "NCCL_IB_ECE_ENABLE", {0, 1}, settings.ece));
  bool leavesOutFlushes = false;
  CINCH_TRY(readNumber(variable, "NCCL_GDR_FLUSH_DISABLE", {0, 1}, leavesOutFlushes));
  settings.flushes = !leavesOutFlushes;
  return settings;
}

bool isMeant(const std::string& list, const std::string& device, int port) {
  std::string_view rest = list;
  const bool excludes = rest.starts_with('^');
  if (excludes) rest.remove_prefix(1);
  const bool exact = rest.starts_with('=');
  if (exact) rest.remove_prefix(1);
  if (trim(rest).empty()) return true;
  while (!rest.empty()) {
    std::string_view item = takeUntil(rest, ",");
    const std::string_view name = takeUntil(item, ":");
    const bool named = exact ? device == name : device.starts_with(name);
    item = trim(item);
    const bool here = item.empty() || item == std::to_string(port);
    if (!name.empty() && named && here) return !excludes;
  }
  return excludes;
}

}  // namespace cinch::net::ib
