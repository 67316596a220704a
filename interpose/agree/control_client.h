// One rank's end of the control channel: what it sends, and what the process's ControlReader has
// received for it. Agreement (agreement.h) is what the rest of Cinch uses.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/call_gate.h"
#include "interpose/agree/control_reader.h"

namespace cinch {

// The sending half of a connection, which program threads and the reader share. It owns the socket.
class ControlOutput {
 public:
  explicit ControlOutput(Socket socket) : socket_(std::move(socket)) {}

  // `reader` sends what the kernel does not take at once. Call before the first message.
  void attach(ControlReader* reader, uint64_t id);

  // Returns when the kernel has taken all, an error where that takes longer than until `deadline`.
  Result<void> send(const Bytes& frame, Deadline deadline);
  // The same without waiting: what the kernel does not take is kept, up to a limit.
  Result<void> enqueue(const Bytes& frame);
  // Sends what is kept.
  Result<void> flush();

  // Ends the connection for both sides, and every wait. More than once is harmless.
  void end();
  // Closes the descriptor; the reader must be done with it.
  void close();

  const Socket& socket() const { return socket_; }

 private:
  Result<void> append(const Bytes& frame);
  Result<void> flushLocked();

  std::mutex mutex_;  // guards what follows, and is never held while anybody waits
  std::condition_variable drained_;
  Socket socket_;
  ControlReader* reader_ = nullptr;
  uint64_t id_ = 0;
  bool ended_ = false;
  bool watched_ = false;  // the reader calls flush() as soon as the kernel takes more
  Bytes kept_;
  uint64_t queued_ = 0;  // bytes, ever
};

// What has been received and not been taken yet.
struct ControlInbox {
  // An error is the end of the connection: the server turned this rank away, or broke the protocol.
  Result<void> store(const Message& message);

  bool acknowledged = false;
  std::optional<Verdict> verdict;
  std::map<uint64_t, bool> outcomes;
  std::map<uint64_t, Bytes> published;
  size_t publishedBytes = 0;
  std::map<uint64_t, std::vector<uint64_t>> pooled;
  bool publisherLeft = false;
};

class ControlClient final : public ControlReader::Connection,
                            public std::enable_shared_from_this<ControlClient> {
 public:
  ControlClient(Socket connected, const Endpoint& server, const HelloMessage& hello);
  // In a forked child this must not run: leak the object.
  ~ControlClient() override { end(); }
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // From here on the reader receives.
  Result<void> start();

  const Endpoint& server() const { return server_; }
  uint64_t nonce() const { return nonce_; }
  bool isChild() const { return isChild_; }
  bool isForked() const { return owner_ != getpid(); }
  Error serverError(const std::string& cause) const;

  Result<void> send(const Message& message);
  // Waits until ready(inbox), which is called under a lock, or the connection ends.
  using Ready = std::function<bool(ControlInbox&)>;
  Result<void> waitFor(const char* what, Deadline deadline, const Ready& ready);

  std::shared_ptr<CallGate> openGate(uint64_t topic) { return gates_->open(topic); }

  // Ends the connection and every wait.
  void leave(const std::string& cause);
  // Leaves, and gives the descriptor back. Waits for the reader, which waits for nobody.
  void end();

  bool onReadable() override;
  bool onWritable() override;
  void onLost(const char* cause) override { leave(cause); }

 private:
  std::optional<Error> failure();
  Result<void> receive(const Message& message);
  Result<void> answer(const ClosePrepare& message);
  void propose(const CloseProposal& proposal, bool mayWait);

  const Endpoint server_;
  const uint64_t nonce_;
  const bool isChild_;
  const pid_t owner_ = getpid();
  // What receives for it, and its number there; null before start().
  struct Watch {
    ControlReader* reader = nullptr;
    uint64_t id = 0;
  } watch_;
  ControlOutput output_;
  MessageReader input_;             // the reader's
  std::optional<GateTable> gates_;  // from start() on

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ControlInbox inbox_;
  std::optional<Error> failure_;  // the connection is of no more use
};

}  // namespace cinch
