// What the test and its processes tell one another outside the plugin.
#pragma once

#include <optional>

#include "tests/net/chaos/net.h"
#include "tests/net/chaos/plan.h"
#include "tests/net/chaos/resources.h"

namespace cinch::chaos {

// What became of a round at one side.
struct Tally {
  int nMessages = 0;  // done, and right if they were received
  int nErrors = 0;    // connections that the plugin gave up
  int nWhole = 0;     // lanes that moved all their messages
  char firstError[256] = "";
};

struct Letter {
  enum class Kind : int {
    begin,     // to a process: this plan
    handle,    // from the side that listens to the one that connects
    laneOver,  // from either side to the other: nothing more comes on this lane
    finished,  // from a process: all lanes are over
    child,     // from a process: it has forked this one
    measure,   // to a process: what do you hold when all is closed?
    measured,
    retire,  // to a process: end
  };
  Kind kind = Kind::begin;
  int round = 0;
  int lane = 0;
  int life = 0;
  int pid = 0;
  Plan plan{};
  Handle handle{};
  Tally tally{};
  Resources resources{};
};

// One end of the way between the test and a process. Owns its descriptor.
class Post {
 public:
  explicit Post(int fd) : fd_(fd) {}
  ~Post();
  Post(Post&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

  int fd() const { return fd_; }
  // False where nobody is there any more.
  bool send(const Letter& letter) const;
  // What is there; never waits.
  std::optional<Letter> receive() const;
  // Waits. Nothing where nobody is there any more; the test waits for ten seconds only.
  std::optional<Letter> wait() const;

 private:
  std::optional<Letter> take(int flags) const;

  int fd_;
};

struct PostPair {
  Post test;
  Post process;
};
PostPair makePost();

}  // namespace cinch::chaos
