// One end of a connection over verbs: its lanes, of which one is in use, and how both ends go on to
// the next one when that is lost. What is sent, and what arrives, is Sender's and Receiver's.
//
// Going on takes three steps, and no byte is lost or doubted in any:
// 1. Whoever finds a lane broken, or hears so from the peer, ends its own queues of it. Then the
// peer
//    can write nothing there any more; what had arrived before still counts.
// 2. Each side says LaneLost when it is that far.
// 3. When the receiving side has heard it, it writes the grants of all its waiting buffers over the
//    next lane and says which parts are there (Standing). The sending side sends what is not, and
//    says (Confirmed) what it knows to be there all the same.
#pragma once

#include "net_plugin/ib/control.h"
#include "net_plugin/ib/lane.h"

namespace cinch::net::ib {

// Memory that was made known at the port of each lane.
struct Region {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  struct Part {
    Port* port = nullptr;
    ibv_mr* known = nullptr;
  };
  std::vector<Part> parts;  // by lane
  bool isDmabuf = false;    // its parts are its own, not of Port::regions()

  bool holds(const void* data, size_t nBytes) const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return address >= begin && nBytes <= end - begin && address - begin <= end - begin - nBytes;
  }
};

struct Wiring {
  std::vector<std::unique_ptr<Lane>> lanes;  // at least one, connected
  Card peer;
  std::unique_ptr<Control> control;
};

class Stream : public LaneUser {
 public:
  explicit Stream(Wiring wiring);
  ~Stream() override;

  // Memory stays known until it is forgotten. After forget() nothing here touches it any more:
  // where something of it was under way, the connection has failed.
  Result<Region*> know(void* data, size_t nBytes, MemoryKind kind);
  Result<Region*> knowDmabuf(void* data, size_t nBytes, const Dmabuf& source);
  Result<void> forget(Region* region);

  // Moves on what can be moved on; never waits. An error is the connection's end, for good.
  Result<void> progress();

 protected:
  using Clock = Lane::Clock;

  // Posts what waits to be posted, to lane().
  virtual void postWaiting() = 0;
  // The old lane is dead at both ends, lane() is the next one.
  virtual void goOn() = 0;
  // Moves on what needs no peer, at ownLane().
  virtual void goOnAlone() {}
  // What the receiving side says that it has, and what the sending side says to that.
  virtual void hear(const Standing& standing);
  virtual void hear(const Confirmed& confirmed);
  // Whether work that touches the region is under way.
  virtual bool isUsing(const Region& region) const = 0;

  bool hasFailed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  void fail(Error error);
  void say(const ControlMessage& message);

  // Takes what the lane has completed.
  void drain(Lane& lane);

  bool isMoving() const { return isMoving_; }
  void endMoving() { isMoving_ = false; }
  size_t laneIndex() const { return current_; }
  Lane& laneAt(size_t index) { return *wiring_.lanes[index]; }
  // For what needs this side alone: the lane in use, or, once that has ended, the next one that has
  // not failed, though the peer may take long to say that it goes on to it. None meanwhile, and
  // where isStranded().
  std::optional<size_t> ownLane() const;
  // There is no such lane any more.
  bool isStranded() const { return isMoving_ && saidLost_ && !ownLane(); }
  Error strandedError() const;
  Lane& lane() { return *wiring_.lanes[current_]; }
  const PortCard& peerPort() const { return wiring_.peer.ports[current_]; }
  uint64_t peerRing() const { return wiring_.peer.ringAddress; }
  // Ends all traffic, so that no device touches anything of the connection.
  void endLanes() { wiring_.lanes.clear(); }

 private:
  void moveOn(Clock::time_point now);
  void closeLanes();
  bool isLastLane() const { return current_ + 1 == wiring_.lanes.size(); }
  void look(Clock::time_point now);
  void listen();
  void hear(const LaneLost& lost);
  void beginMove(Clock::time_point now);
  void advanceMove(Clock::time_point now);
  template <class Add>
  Result<Region*> keep(Region known, const Add& add);
  static void releaseParts(const Region& region);

  Wiring wiring_;
  size_t current_ = 0;
  bool isMoving_ = false;  // to the next lane
  bool saidLost_ = false;  // of the current lane
  bool heardLost_ = false;
  Clock::time_point moveBegan_{};
  Clock::time_point nextLook_{};
  std::vector<std::unique_ptr<Region>> regions_;
  std::optional<Error> error_;
};

}  // namespace cinch::net::ib
