// The server's end of one connection: messages in, messages out, nothing ever waits.
#pragma once

#include <deque>
#include <memory>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

class AgreementConnection {
 public:
  explicit AgreementConnection(Accepted accepted);

  int fd() const { return socket_.fd(); }
  const IpAddress& from() const { return from_; }
  void shutdown() const { socket_.shutdown(); }

  // Lets messages be as long as those of a rank that has said hello.
  void trust() { input_.setLimit(kMaxRankBytes); }

  // Takes in what has arrived.
  Result<void> receive();
  // The next whole frame, none where bytes are missing.
  Result<std::optional<Frame>> next() { return input_.next(); }

  // Sends, or keeps what the kernel does not take until flush(); fails where the other side has not
  // read for so long that more than a fixed amount is kept. A frame may be that of many
  // connections.
  using SharedFrame = std::shared_ptr<const Bytes>;
  Result<void> send(SharedFrame frame);
  Result<void> flush();
  bool hasOutput() const { return !output_.empty(); }

 private:
  Socket socket_;
  IpAddress from_;
  MessageReader input_;
  std::deque<SharedFrame> output_;
  size_t nSent_ = 0;  // bytes of the first frame
  size_t nKept_ = 0;  // bytes of all, with those
};

}  // namespace cinch
