// The connection of this process to another one that serves: one, whatever the number of ranks and
// communicators that have to do with that process. What arrives is handed out by channel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/control_reader.h"

namespace cinch {

// The sending half of a connection, which program threads and the reader share. It owns the socket.
class ControlOutput {
 public:
  explicit ControlOutput(Socket socket) : socket_(std::move(socket)) {}

  // `reader` sends what the kernel does not take at once. Call before the first message.
  void attach(ControlReader* reader, uint64_t id);

  // Returns when the kernel has taken all, or isWanted(), which is called under a lock, is false;
  // an error where that takes longer than until `deadline`.
  Result<void> send(const Bytes& frame, Deadline deadline, const std::function<bool()>& isWanted);
  // The same without waiting: what the kernel does not take is kept, up to a limit.
  Result<void> enqueue(const Bytes& frame);
  // Sends what is kept.
  Result<void> flush();

  // Ends the connection for both sides, and every wait. More than once is harmless.
  void end();
  // Closes the descriptor; the reader must be done with it.
  void close();
  bool hasEnded();

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

class ControlLink final : public ControlReader::Connection,
                          public std::enable_shared_from_this<ControlLink> {
 public:
  // One rank's use of the link. Called by the reader's thread, or by whoever notices that the link
  // has ended; must not wait.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Before anything else, under the link's lock.
    virtual void opened(const std::shared_ptr<ControlLink>& link, Channel channel) = 0;
    virtual void deliver(const Message& message) = 0;
    // Once in kTickTime.
    virtual void tick() = 0;
    virtual void lost(const std::string& cause) = 0;
  };

  // A channel to `server` for a listener, over the link that there is, or over one that is made
  // now. A server that could not be reached is not tried again: nothing that a communicator does
  // later would change that, and each would wait for it.
  static Result<void> open(const Endpoint& server, const std::shared_ptr<Listener>& listener,
                           Deadline deadline);

  ~ControlLink() override { output_.close(); }
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  // Nothing is delivered to the channel's listener any more, but for what is on its way to it now.
  // With the last one the connection ends.
  void close(Channel channel);

  // As ControlOutput's. After an error the link is ending: half a message may be on its way. Its
  // listeners learn of that when all that has arrived is delivered.
  Result<void> send(const Message& message, Channel channel, Deadline deadline,
                    const std::function<bool()>& isWanted);
  Result<void> enqueue(const Message& message, Channel channel);

  bool onReadable() override;
  void onWritable() override;
  void onTick() override;
  void onLost(const char* cause) override { fail(cause); }

 private:
  explicit ControlLink(Socket connected);
  static Result<std::shared_ptr<ControlLink>> to(const Endpoint& server, Deadline deadline);
  Result<void> start();
  bool add(const std::shared_ptr<Listener>& listener);
  Result<void> deliverAll();
  Result<void> checked(Result<void> sent);
  void fail(const std::string& cause);
  bool isEnding();

  ControlOutput output_;
  MessageReader input_;  // the reader's

  std::mutex mutex_;  // guards what follows; no listener is called under it but opened()
  std::map<Channel, std::weak_ptr<Listener>> listeners_;
  Channel next_ = kFirstChannel;
  std::string failure_;  // why it has ended; empty: it has not
};

}  // namespace cinch
