#include "tests/net/chaos/lane.h"

#include "tests/net/chaos/failure.h"

namespace cinch::chaos {

Lane::Lane(Net& net, const Post& post, const Plan& plan, int round, int lane, int side,
           LaneProgress& progress)
    : net_(net),
      post_(post),
      plan_(plan),
      round_(round),
      lane_(lane),
      side_(side),
      progress_(progress) {}

void Lane::enter(Stage stage) {
  progress_.stage = stage_ = stage;
}

void Lane::tell(Letter::Kind kind, const Handle& handle) {
  post_.send({.kind = kind, .round = round_, .lane = lane_, .life = life_, .handle = handle});
}

void Lane::take(const Letter& letter) {
  if (letter.kind == Letter::Kind::laneOver) peerIsOver_ = true;
  if (letter.kind == Letter::Kind::handle) handle_ = letter.handle;
}

void Lane::closeListener() {
  if (listener_ == nullptr) return;
  CINCH_CHECK(net_(&PluginCalls::closeListen, listener_), "closeListen fails");
  listener_ = nullptr;
}

void Lane::close() {
  // The table has nothing to end an attempt with: it is seen through, so that nothing is left.
  closes_ = true;
  if (isOver() || stage_ == Stage::connecting) return;
  nDone_ = nDone();
  connection_.reset();
  closeListener();
  enter(Stage::over);
  if (life_ < plan_.nLives) tell(Letter::Kind::laneOver);
}

void Lane::give(const std::string& error) {
  error_ = error;
  close();
}

bool Lane::listen() {
  Handle handle{};
  CINCH_CHECK(net_(&PluginCalls::listen, 0, handle.data(), &listener_), "listen fails: %s",
              lastWarning().c_str());
  enter(Stage::accepting);
  tell(Letter::Kind::handle, handle);
  return true;
}

// Where the peer has given up nobody will ever connect, or send the handle.
bool Lane::begin() {
  if (senderOf(plan_, lane_) != side_) return listen();
  if (handle_) {
    enter(Stage::connecting);
    return true;
  }
  if (peerIsOver_) close();
  return peerIsOver_;
}

void Lane::open(void* comm) {
  enter(Stage::moving);
  connection_ =
      std::make_unique<Connection>(net_, plan_, Spot{lane_, life_, 0}, side_, comm, progress_);
  if (closes_) close();
}

bool Lane::accept() {
  void* comm = nullptr;
  CINCH_CHECK(net_(&PluginCalls::accept, listener_, &comm), "accept fails: %s",
              lastWarning().c_str());
  if (comm == nullptr) {
    if (peerIsOver_) close();
    return peerIsOver_;
  }
  closeListener();
  open(comm);
  return true;
}

bool Lane::connect() {
  void* comm = nullptr;
  if (!net_(&PluginCalls::connect, 0, handle_->data(), &comm)) {
    enter(Stage::waiting);
    give(lastWarning());
    return true;
  }
  if (comm == nullptr) return false;
  handle_.reset();
  open(comm);
  return true;
}

void Lane::endLife() {
  nDone_ = nDone();
  connection_.reset();
  progress_.nDone = progress_.nPosted = 0;
  progress_.life = ++life_;
  enter(Stage::waiting);
  if (life_ == plan_.nLives) close();
}

bool Lane::move() {
  const bool moved = connection_->visit();
  if (connection_->state() == Connection::State::done)
    endLife();
  else if (connection_->state() == Connection::State::failed)
    give(lastWarning());
  return moved;
}

bool Lane::step() {
  switch (stage_) {
    case Stage::waiting:
      return begin();
    case Stage::accepting:
      return accept();
    case Stage::connecting:
      return connect();
    case Stage::moving:
      return move();
    case Stage::over:
      return false;
  }
  return false;
}

}  // namespace cinch::chaos
