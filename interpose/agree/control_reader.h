// One thread that receives for all control connections of this process, so that what arrives is
// answered while the program's own threads are busy, asleep or inside a kernel launch. It blocks
// all signals, ends with the process, and wakes once in kTickTime while nothing arrives. One
// descriptor.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "common/network/socket.h"
#include "common/result.h"

namespace cinch {

// How often this process's line of ancestors has forked: a number of before a fork tells an object
// that it is a copy in the child, whose locks may be held for ever by threads that are not here.
// Without a system call. Counts from the first ControlReader::ofProcess() on.
uint64_t forkGeneration();

// Much less than the minutes after which a watchdog ends a job, and so long that 16,384 ranks which
// have something to send each time are three messages in a millisecond to who serves them.
inline constexpr std::chrono::seconds kTickTime{5};

class ControlReader {
 public:
  // What the thread calls, for one connection at a time. No member may wait.
  class Connection {
   public:
    virtual ~Connection() = default;
    // There is something to receive, or the connection has ended. False: it is of no more use, and
    // the reader lets go of it.
    virtual bool onReadable() = 0;
    // Called only while watchOutput() is on.
    virtual void onWritable() = 0;
    // Once in kTickTime, whatever else happens.
    virtual void onTick() = 0;
    // Nothing will be received any more.
    virtual void onLost(const char* cause) = 0;
  };

  // This process's reader, started by the first call. A forked child starts one of its own.
  static Result<ControlReader*> ofProcess();

  // Watches `fd`, which the connection must keep open, until that is of no more use. The number
  // names it here and is never used again.
  Result<uint64_t> add(int fd, std::shared_ptr<Connection> connection);
  // Also calls onWritable() as soon as the kernel takes more, or no longer. Takes no lock.
  Result<void> watchOutput(uint64_t id, int fd, bool on);

 private:
  struct Watched {
    int fd = -1;
    std::shared_ptr<Connection> connection;
  };

  explicit ControlReader(Socket poller) : poller_(std::move(poller)) {}
  static Result<ControlReader*> start();
  void run();
  void handle(uint64_t id, uint32_t events);
  void tick();
  Watched find(uint64_t id);
  void loseAll(const char* cause);

  Socket poller_;
  std::atomic<bool> lost_ = false;  // the thread has ended: the program closed the descriptor

  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Watched> watched_;
  uint64_t nextId_ = 1;
};

}  // namespace cinch
