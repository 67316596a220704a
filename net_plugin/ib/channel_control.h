// Control over two connections of another transport, one for each direction.
#pragma once

#include <deque>

#include "net_plugin/ib/control.h"

namespace cinch::net::ib {

class ChannelControl final : public Control {
 public:
  ChannelControl() = default;
  ~ChannelControl() override;  // waits a moment for what was said to be on its way
  ChannelControl(const ChannelControl&) = delete;
  ChannelControl& operator=(const ChannelControl&) = delete;

  // What is said before there is a way out waits for it.
  void setOut(std::unique_ptr<SendConnection> out) { out_ = std::move(out); }
  void setIn(std::unique_ptr<ReceiveConnection> in) { in_ = std::move(in); }
  bool hasOut() const { return out_ != nullptr; }
  bool hasIn() const { return in_ != nullptr; }

  Result<void> say(std::span<const uint8_t> message) override;
  // An error once the way out is of no use any more.
  Result<void> checkOut();
  Result<std::optional<std::vector<uint8_t>>> hear() override;

 private:
  void moveOut();
  Result<bool> sendFirst();
  Result<std::optional<std::vector<uint8_t>>> hearNext();

  std::unique_ptr<SendConnection> out_;
  std::unique_ptr<ReceiveConnection> in_;
  std::deque<std::vector<uint8_t>> toSay_;  // the first is under way where sending_ is not null
  Request* sending_ = nullptr;
  Request* hearing_ = nullptr;
  // Why a way is of no use any more; nothing is asked of it after.
  std::optional<Error> outLost_;
  std::optional<Error> inLost_;
  std::array<uint8_t, kMaxControlBytes> heard_{};
};

}  // namespace cinch::net::ib
