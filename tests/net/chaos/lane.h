// A lane at one end: it listens or connects, moves the messages of a life, closes, and begins
// again.
#pragma once

#include <memory>
#include <optional>

#include "tests/net/chaos/connection.h"
#include "tests/net/chaos/letters.h"

namespace cinch::chaos {

class Lane {
 public:
  Lane(Net& net, const Post& post, const Plan& plan, int round, int lane, int side,
       LaneProgress& progress);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Moves on; true where something happened.
  bool step();
  void take(const Letter& letter);
  // Ends it as soon as may be, with whatever is under way.
  void close();

  bool isOver() const { return stage_ == Stage::over; }
  int nDone() const { return nDone_ + (connection_ ? connection_->nDone() : 0); }
  // Where the plugin gave it up.
  const std::optional<std::string>& error() const { return error_; }

 private:
  bool begin();
  bool listen();
  bool accept();
  bool connect();
  bool move();
  void open(void* comm);
  void endLife();
  void give(const std::string& error);
  void closeListener();
  void enter(Stage stage);
  void tell(Letter::Kind kind, const Handle& handle = {});

  Net& net_;
  const Post& post_;
  const Plan plan_;
  const int round_;
  const int lane_;
  const int side_;
  LaneProgress& progress_;
  Stage stage_ = Stage::waiting;
  int life_ = 0;
  int nDone_ = 0;  // in former lives
  void* listener_ = nullptr;
  std::optional<Handle> handle_;  // of the peer's listener; also keeps what connect() remembers
  bool peerIsOver_ = false;
  bool closes_ = false;
  std::unique_ptr<Connection> connection_;
  std::optional<std::string> error_;
};

}  // namespace cinch::chaos
