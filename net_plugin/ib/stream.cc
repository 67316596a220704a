#include "net_plugin/ib/stream.h"

#include <algorithm>
#include <ctime>

#include "net_plugin/log.h"

namespace cinch::net::ib {
namespace {

// How long the end of the last lane waits for the peer's word, which may be that all is there.
constexpr auto kLastWord = std::chrono::seconds(2);

// How often events of the devices and messages of the peer are looked for: some ten calls to the
// kernel, while a thread that waits asks a million times a second.
constexpr auto kLookEvery = std::chrono::milliseconds(10);

// At a time: a peer that sends more than it may does not keep its victim from saying so.
constexpr int kMostPolls = 4096;

// To the kernel's last tick. It is read in any process without a call to the kernel, which the
// finer clock is not: on some virtual machines that one costs microseconds.
std::chrono::steady_clock::time_point coarseNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

Stream::Stream(Wiring wiring) : wiring_(std::move(wiring)) {}

// Derived classes have ended their lanes, which hold their memory.
Stream::~Stream() {
  for (const auto& region : regions_) releaseParts(*region);
}

Result<Region*> Stream::know(void* data, size_t nBytes, MemoryKind kind) {
  constexpr const char* kElse = "NCCL_NET_GDR_LEVEL=LOC goes by way of host memory";
  const Port& port = lane().port();
  const bool isOfDevice = kind == MemoryKind::device;
  if (isOfDevice && !port.deviceMemory().byAddress) {
    return errorf(Status::invalidUsage,
                  "%s: %zu bytes at %p are a GPU's, and the kernel does not resolve its addresses: "
                  "load nvidia_peermem; %s",
                  port.name().c_str(), nBytes, data, kElse);
  }
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const Result<Region*> region = keep({begin, begin + nBytes, {}},
                                      [&](Port& it) { return it.regions().acquire(data, nBytes); });
  if (region || !isOfDevice) return region;
  return errorf(region.error().status,
                "%s They are a GPU's: does nvidia_peermem fit its driver, is its BAR1 memory "
                "(nvidia-smi -q) large enough? %s",
                region.error().message.c_str(), kElse);
}

Result<Region*> Stream::knowDmabuf(void* data, size_t nBytes, const Dmabuf& source) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return keep({begin, begin + nBytes, {}, true},
              [&](Port& it) { return it.addDmabuf(data, nBytes, source); });
}

// At the port of each lane, or at none.
template <class Add>
Result<Region*> Stream::keep(Region known, const Add& add) {
  auto region = std::make_unique<Region>(std::move(known));
  for (const auto& lane : wiring_.lanes) {
    const Result<ibv_mr*> added = add(lane->port());
    if (!added) {
      releaseParts(*region);
      return added.error();
    }
    region->parts.push_back({&lane->port(), added.value()});
  }
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

void Stream::releaseParts(const Region& region) {
  for (const auto& [port, known] : region.parts) {
    const Result<void> released =
        region.isDmabuf ? port->removeRegion(known) : port->regions().release(known);
    if (!released) CINCH_NET_WARN("%s", released.error().message.c_str());
  }
}

Result<void> Stream::forget(Region* region) {
  const auto found = std::find_if(regions_.begin(), regions_.end(),
                                  [&](const auto& it) { return it.get() == region; });
  if (found == regions_.end()) {
    return errorf(Status::invalidArgument, "memory that was not registered here");
  }
  if (isUsing(*region)) {
    fail(errorf(Status::invalidUsage, "memory was taken back during a transfer"));
    for (const auto& lane : wiring_.lanes) lane->close();
  }
  releaseParts(*region);
  regions_.erase(found);
  return {};
}

void Stream::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void Stream::say(const ControlMessage& message) {
  const Result<void> said = wiring_.control->say(encodeControl(message));
  if (!said) fail(said.error());
}

Result<void> Stream::progress() {
  if (error_) return *error_;
  moveOn(coarseNow());
  if (error_) {
    // Whoever hears of the error may use the memory again, or give it back.
    closeLanes();
    return *error_;
  }
  goOnAlone();
  return {};
}

void Stream::moveOn(Clock::time_point now) {
  drain(lane());
  if (now >= nextLook_) look(now);
  if (isMoving_) {
    advanceMove(now);
  } else if (lane().hasFailed()) {
    beginMove(now);
  } else {
    postWaiting();
  }
}

void Stream::closeLanes() {
  for (const auto& lane : wiring_.lanes) lane->closeToPeer();
}

// A port may be back in a moment. Where there is another it takes over after a while; where there
// is none, the queue pairs try again for as long as they are told to.
void Stream::look(Clock::time_point now) {
  nextLook_ = now + kLookEvery;
  const Settings& settings = lane().port().settings();
  lane().lookAtPort(isLastLane() ? settings.lastPortPatience : settings.portPatience);
  listen();
}

void Stream::drain(Lane& lane) {
  for (int i = 0; i < kMostPolls && lane.poll(*this); ++i) {
  }
}

void Stream::listen() {
  while (!error_) {
    const auto heard = wiring_.control->hear();
    if (!heard) {
      // What is there already has arrived before the peer was gone.
      drain(lane());
      return fail(heard.error());
    }
    if (!heard.value()) return;
    const Result<ControlMessage> message = parseControl(*heard.value());
    if (!message) return fail(message.error());
    std::visit([this](const auto& it) { hear(it); }, message.value());
  }
}

void Stream::hear(const Standing&) {
  fail(errorf(Status::remoteError, "the peer receives at the end that it sends over"));
}

void Stream::hear(const Confirmed&) {
  fail(errorf(Status::remoteError, "the peer sends over the end that it receives at"));
}

void Stream::hear(const LaneLost& lost) {
  if (lost.lane != current_ || heardLost_) {
    return fail(errorf(Status::remoteError, "the peer lost a way that is not in use"));
  }
  heardLost_ = true;
  lane().fail("the peer's end is lost: " + lost.why);
  // Before the next message is read, which may already count on it.
  if (isMoving_) advanceMove(coarseNow());
}

void Stream::beginMove(Clock::time_point now) {
  isMoving_ = true;
  moveBegan_ = now;
  CINCH_NET_WARN("%s; %s%s", lane().failure().c_str(),
                 isLastLane() ? "there is no other device to go on over" : "going on over ",
                 isLastLane() ? "" : wiring_.lanes[current_ + 1]->port().name().c_str());
  lane().stop(now);
  advanceMove(now);
}

std::optional<size_t> Stream::ownLane() const {
  if (isMoving_ && !saidLost_) return std::nullopt;
  for (size_t i = current_ + (isMoving_ ? 1 : 0); i < wiring_.lanes.size(); ++i) {
    if (!wiring_.lanes[i]->hasFailed()) return i;
    if (!isMoving_) break;  // it has not ended yet
  }
  return std::nullopt;
}

Error Stream::strandedError() const {
  return errorf(Status::systemError, "%s; there is no other device to go on over",
                wiring_.lanes.back()->failure().c_str());
}

void Stream::advanceMove(Clock::time_point now) {
  if (!saidLost_ && lane().isStopped(now)) {
    saidLost_ = true;
    say(LaneLost{static_cast<uint8_t>(current_), lane().failure()});
  }
  if (!saidLost_) return;
  if (isLastLane()) {
    if (heardLost_ || now - moveBegan_ > kLastWord) {
      fail(errorf(Status::remoteError, "%s", lane().failure().c_str()));
    }
    return;
  }
  if (!heardLost_) return;
  saidLost_ = heardLost_ = false;
  ++current_;
  goOn();
}

}  // namespace cinch::net::ib
