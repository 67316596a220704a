#include "net_plugin/ib/channel_control.h"

#include <chrono>
#include <thread>

namespace cinch::net::ib {
namespace {

constexpr auto kClosingPatience = std::chrono::milliseconds(50);

}  // namespace

ChannelControl::~ChannelControl() {
  if (out_ == nullptr) return;
  const auto end = std::chrono::steady_clock::now() + kClosingPatience;
  while (!toSay_.empty() && moveOut().ok() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

Result<void> ChannelControl::say(std::span<const uint8_t> message) {
  toSay_.emplace_back(message.begin(), message.end());
  return moveOut();
}

Result<void> ChannelControl::moveOut() {
  while (out_ != nullptr && !toSay_.empty()) {
    std::vector<uint8_t>& first = toSay_.front();
    if (sending_ == nullptr) {
      const Result<Request*> sent = out_->send(first.data(), first.size(), 0, nullptr);
      if (!sent) return sent.error();
      sending_ = sent.value();
    }
    if (sending_ == nullptr) return {};
    size_t nBytes = 0;
    const Result<bool> isDone = sending_->test(&nBytes);
    if (!isDone) return isDone.error();
    if (!isDone.value()) return {};
    sending_ = nullptr;
    toSay_.pop_front();
  }
  return {};
}

Result<std::optional<std::vector<uint8_t>>> ChannelControl::hear() {
  CINCH_TRY(moveOut());
  if (in_ == nullptr) return std::optional<std::vector<uint8_t>>();
  if (hearing_ == nullptr) {
    const Buffer buffer = {.data = heard_.data(), .capacity = heard_.size()};
    const Result<Request*> posted = in_->receive({&buffer, 1});
    if (!posted) return posted.error();
    hearing_ = posted.value();
  }
  if (hearing_ == nullptr) return std::optional<std::vector<uint8_t>>();
  size_t nBytes = 0;
  const Result<bool> isDone = hearing_->test(&nBytes);
  if (!isDone) return isDone.error();
  if (!isDone.value()) return std::optional<std::vector<uint8_t>>();
  hearing_ = nullptr;
  return std::optional(std::vector<uint8_t>(heard_.begin(), heard_.begin() + nBytes));
}

}  // namespace cinch::net::ib
