#include "tests/net/chaos/conductor.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "net_plugin/socket/handle.h"
#include "tests/net/chaos/worker.h"

namespace cinch::chaos {
namespace {

// With no message done. One takes milliseconds; with faults and under a sanitizer, some seconds.
constexpr auto kPatience = std::chrono::seconds(45);
constexpr auto kSettlingPatience = std::chrono::seconds(15);
constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 200'000};

const char* const kNames[kSides] = {"side 0", "side 1"};

}  // namespace

Conductor::Conductor() : progress_{makeProgress(), makeProgress()} {
  for (int i = 0; i < kSides; ++i) start(i);
}

void Conductor::start(int side) {
  sides_[side].reset();
  sides_[side] = std::make_unique<Process>(
      kNames[side], *progress_[side],
      [side](const Post& post, Progress& progress) { runWorker(side, post, progress); });
}

void Conductor::replacePeer(const net::Faults* faults, uint32_t seed) {
  nFaultsBefore_ = nFaults();
  for (auto& path : paths_) path.reset();
  faults_ = faults;
  faultSeed_ = seed;
  start(1);
}

void Conductor::retirePeer() {
  side(1).post().send({.kind = Letter::Kind::retire});
  const Clock::time_point deadline = Clock::now() + kSettlingPatience;
  while (!side(1).ended() && Clock::now() < deadline) ppoll(nullptr, 0, &kPause, nullptr);
  const std::optional<int> status = side(1).ended();
  ASSERT_TRUE(status) << "hangs at its end:\n" << side(1).whereabouts();
  EXPECT_EQ(*status, 0) << "side 1: " << describeEnd(*status);
}

int Conductor::nDone() const {
  return progress_[0]->nDone + progress_[1]->nDone;
}

int Conductor::nFaults() const {
  int n = nFaultsBefore_;
  for (const auto& path : paths_) n += path == nullptr ? 0 : path->nFaults();
  return n;
}

std::string Conductor::whereabouts() const {
  return sides_[0]->whereabouts() + "\n" + sides_[1]->whereabouts();
}

// The handle says where the listener is: from now on, behind the faulty path.
void Conductor::leadAstray(int listener, Handle& handle) {
  std::optional<net::Invitation> invitation = net::unpackInvitation(handle);
  ASSERT_TRUE(invitation);
  auto& path = paths_[listener];
  if (path == nullptr) {
    path = std::make_unique<net::FaultyPath>(invitation->endpoints[0], *faults_,
                                             faultSeed_ + listener);
  }
  invitation->endpoints = {path->endpoint()};
  net::packInvitation(*invitation, handle);
}

void Conductor::deliver(int from, Letter letter) {
  if (letter.round != round_) return;
  switch (letter.kind) {
    case Letter::Kind::handle:
      if (onHandle) onHandle(letter.handle);
      if (faults_ != nullptr) leadAstray(from, letter.handle);
      [[fallthrough]];
    case Letter::Kind::laneOver:
      side(1 - from).post().send(letter);
      return;
    case Letter::Kind::finished:
      tallies_[from] = letter.tally;
      return;
    case Letter::Kind::child:
      forked_ = letter.pid;
      return;
    default:
      ADD_FAILURE() << "a letter that no process sends";
  }
}

void Conductor::killPeer() {
  side(1).kill();
  killedAt_ = Clock::now();
  tallies_[1] = Tally{};
  for (int lane = 0; lane < plan_.nLanes; ++lane) {
    side(0).post().send({.kind = Letter::Kind::laneOver, .round = round_, .lane = lane});
  }
}

void Conductor::conductStop(const Stop& stop) {
  side(stop.side).stop();
  const Clock::time_point until = Clock::now() + stop.length;
  resumeAt_[stop.side] = std::max(resumeAt_[stop.side], until);
}

void Conductor::conduct() {
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < kSides; ++i) {
    if (resumeAt_[i] == Clock::time_point{} || now < resumeAt_[i]) continue;
    resumeAt_[i] = {};
    side(i).resume();
  }
  while (nStopped_ < events_.stops.size() && nDone() >= events_.stops[nStopped_].after) {
    conductStop(events_.stops[nStopped_++]);
  }
  const bool kills = events_.killAfter != kNever && killedAt_ == Clock::time_point{};
  if (kills && nDone() >= events_.killAfter) killPeer();
}

// The round is over where nobody is stopped any more, either.
bool Conductor::isOver() const {
  return tallies_[0] && tallies_[1] && resumeAt_[0] == Clock::time_point{} &&
         resumeAt_[1] == Clock::time_point{};
}

void Conductor::step() {
  for (int i = 0; i < kSides; ++i) {
    while (const std::optional<Letter> letter = side(i).post().receive()) deliver(i, *letter);
    if (paths_[i] != nullptr) paths_[i]->step();
  }
  conduct();
  if (faults_ != nullptr) return;
  pollfd targets[] = {{side(0).post().fd(), POLLIN, 0}, {side(1).post().fd(), POLLIN, 0}};
  ppoll(targets, tallies_[1] ? 1 : 2, &kPause, nullptr);
}

void Conductor::checkAlive() {
  for (int i = 0; i < kSides; ++i) {
    const bool wasKilled = i == 1 && killedAt_ != Clock::time_point{};
    const std::optional<int> status = side(i).ended();
    ASSERT_TRUE(wasKilled || !status) << kNames[i] << ": " << describeEnd(*status);
  }
}

void Conductor::run(const Plan& plan, const Events& events) {
  ++round_;
  plan_ = plan;
  events_ = events;
  nStopped_ = 0;
  resumeAt_ = {};
  killedAt_ = {};
  tallies_ = {};
  for (int i = 0; i < kSides; ++i) {
    progress_[i]->reset();
    ASSERT_TRUE(side(i).post().send({.kind = Letter::Kind::begin, .round = round_, .plan = plan}));
  }
  Clock::time_point deadline = Clock::now() + kPatience;
  while (!isOver()) {
    const auto before = nDone();
    step();
    checkAlive();
    if (testing::Test::HasFatalFailure()) return;
    if (nDone() != before) deadline = Clock::now() + kPatience;  // slow is no hang
    ASSERT_LT(Clock::now(), deadline) << "hangs:\n" << whereabouts();
  }
}

Resources Conductor::measure(int side) {
  this->side(side).post().send({.kind = Letter::Kind::measure});
  while (const std::optional<Letter> letter = this->side(side).post().wait()) {
    if (letter->kind == Letter::Kind::measured) return letter->resources;
  }
  ADD_FAILURE() << kNames[side] << " does not answer:\n" << this->side(side).whereabouts();
  return {};
}

Resources Conductor::settle(int side, int mostDescriptors) {
  const Clock::time_point deadline = Clock::now() + kSettlingPatience;
  Resources found = measure(side);
  while (found.descriptors > mostDescriptors && Clock::now() < deadline) {
    ppoll(nullptr, 0, &kPause, nullptr);
    found = measure(side);
  }
  EXPECT_LE(found.descriptors, mostDescriptors) << kNames[side] << " holds " << found.text();
  return found;
}

}  // namespace cinch::chaos
