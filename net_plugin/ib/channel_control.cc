#include "net_plugin/ib/channel_control.h"

#include <chrono>
#include <thread>

namespace cinch::net::ib {
namespace {

constexpr auto kClosingPatience = std::chrono::milliseconds(50);

}  // namespace

ChannelControl::~ChannelControl() {
  const auto end = std::chrono::steady_clock::now() + kClosingPatience;
  for (moveOut(); out_ != nullptr && !toSay_.empty(); moveOut()) {
    if (std::chrono::steady_clock::now() >= end) break;
    std::this_thread::yield();
  }
  // Before the bytes that they may still read or write.
  out_.reset();
  in_.reset();
}

Result<void> ChannelControl::say(std::span<const uint8_t> message) {
  if (message.size() > kMaxControlBytes) {
    return errorf(Status::internalError,
                  "%zu bytes are too many for a control message, the most is %zu", message.size(),
                  kMaxControlBytes);
  }
  if (outLost_) return {};
  toSay_.emplace_back(message.begin(), message.end());
  moveOut();
  return {};
}

Result<void> ChannelControl::checkOut() {
  moveOut();
  if (outLost_) return *outLost_;
  return out_ == nullptr ? Result<void>() : out_->check();
}

void ChannelControl::moveOut() {
  while (out_ != nullptr && !toSay_.empty()) {
    const Result<bool> isSent = sendFirst();
    if (isSent && !isSent.value()) return;
    sending_ = nullptr;
    if (isSent) {
      toSay_.pop_front();
    } else {
      outLost_ = isSent.error();
      toSay_.clear();
    }
  }
}

// True once it is on its way for good.
Result<bool> ChannelControl::sendFirst() {
  if (sending_ == nullptr) {
    const std::vector<uint8_t>& first = toSay_.front();
    const Result<Request*> sent = out_->send(first.data(), first.size(), 0, nullptr);
    if (!sent) return sent.error();
    sending_ = sent.value();
  }
  if (sending_ == nullptr) return false;
  size_t nBytes = 0;
  return sending_->test(&nBytes);
}

// What the peer said before the way was lost is worth more than that it is: it may be that all has
// arrived.
Result<std::optional<std::vector<uint8_t>>> ChannelControl::hear() {
  moveOut();
  if (inLost_) return *inLost_;
  auto heard = hearNext();
  if (!heard) {
    hearing_ = nullptr;
    inLost_ = heard.error();
  } else if (!heard.value() && outLost_) {
    return *outLost_;
  }
  return heard;
}

Result<std::optional<std::vector<uint8_t>>> ChannelControl::hearNext() {
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
