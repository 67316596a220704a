// One rank's end of the control channel: what it sends, and what the process's link to the server
// has received for it. Agreement (agreement.h) is what the rest of Cinch uses.
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

#include "common/result.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/call_trail.h"
#include "interpose/agree/control_link.h"
#include "interpose/agree/decisions.h"

namespace cinch {

// What has been received and not been taken yet.
struct ControlInbox {
  // An error is the end of the connection: the server turned this rank away, or broke the protocol.
  Result<void> store(const Message& message);

  std::optional<Acknowledged> acknowledged;
  std::optional<Verdict> verdict;
};

class ControlClient final : public ControlLink::Listener,
                            public std::enable_shared_from_this<ControlClient> {
 public:
  static std::shared_ptr<ControlClient> make(const Endpoint& server, const HelloMessage& hello);
  // In a forked child this must not run: leak the object.
  ~ControlClient() override { leave("this rank has left"); }
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Connects, if this process has no connection to the server yet.
  Result<void> start(Deadline deadline);

  const Endpoint& server() const { return server_; }
  uint64_t nonce() const { return hello_.nonce; }
  bool isChild() const { return hello_.parent != kNoParent; }
  bool isForked() const { return owner_ != getpid(); }
  Error serverError(const std::string& cause) const;

  Result<void> send(const Message& message);
  // Waits until ready(inbox), which is called under a lock, or the connection ends.
  using Ready = std::function<bool(ControlInbox&)>;
  Result<void> waitFor(const char* what, Deadline deadline, const Ready& ready);

  Decisions& decisions() { return *decisions_; }
  CallTrail& trail() { return trail_; }

  // Ends this rank's part in the session, and every wait.
  void leave(const std::string& cause);

  void opened(const std::shared_ptr<ControlLink>& link, Channel channel) override;
  void deliver(const Message& message) override;
  void tick() override;
  void lost(const std::string& cause) override;

 private:
  // Where this rank's messages go; no link before start().
  struct Way {
    std::shared_ptr<ControlLink> link;
    Channel channel = 0;
  };

  ControlClient(const Endpoint& server, const HelloMessage& hello);
  Way way();
  std::optional<Error> failure();
  Result<void> receive(const Message& message);
  Result<void> answer(const Prepare& message);
  void propose(const Proposal& proposal, bool mayWait);
  bool endWith(const std::string& cause);

  const Endpoint server_;
  const HelloMessage hello_;
  const pid_t owner_ = getpid();
  std::optional<Decisions> decisions_;  // always, once it is made
  CallTrail trail_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Way way_;
  ControlInbox inbox_;
  std::optional<Error> failure_;  // the session is of no more use
};

}  // namespace cinch
