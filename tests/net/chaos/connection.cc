#include "tests/net/chaos/connection.h"

#include <sys/mman.h>

#include <algorithm>

#include "tests/net/chaos/failure.h"

extern "C" {
#include "tests/net/conformance/pattern.h"
}

namespace cinch::chaos {
namespace {

constexpr size_t kMargin = 64;

size_t largestOf(const Plan& plan, Spot spot) {
  size_t largest = 0;
  for (spot.message = 0; spot.message < plan.nMessages; ++spot.message) {
    largest = std::max(largest, capacityOf(plan, spot));
  }
  return largest;
}

}  // namespace

Connection::Connection(Net& net, const Plan& plan, const Spot& first, int side, void* comm,
                       LaneProgress& progress)
    : net_(net),
      plan_(plan),
      first_(first),
      sends_(senderOf(plan, first.lane) == side),
      comm_(comm),
      progress_(progress),
      stride_(largestOf(plan, first) + 2 * kMargin),
      slots_(windowOf(plan, first, side)),
      side_(side) {
  const size_t nBytes = stride_ * slots_.size();
  // Mapped on its own, so that whoever touches it after it was taken back is caught.
  void* memory = mmap(nullptr, nBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CINCH_CHECK(memory != MAP_FAILED, "out of memory");
  memory_ = static_cast<uint8_t*>(memory);
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i] = {memory_ + i * stride_, nullptr};
  CINCH_CHECK(net_(&PluginCalls::regMr, comm_, memory, nBytes, &registration_), "regMr fails");
  late_ = latenessOf(plan_, spot(0), side_);
}

Connection::~Connection() {
  CINCH_CHECK(net_(&PluginCalls::deregMr, comm_, registration_), "deregMr fails");
  munmap(memory_, stride_ * slots_.size());
  const auto close = sends_ ? &PluginCalls::closeSend : &PluginCalls::closeRecv;
  CINCH_CHECK(net_(close, comm_), "closing fails");
}

Spot Connection::spot(int message) const {
  return {first_.lane, first_.life, message};
}

// Once for each message, however often the plugin puts it off.
void Connection::prepare(int message) {
  if (message < nPrepared_) return;
  nPrepared_ = message + 1;
  uint8_t* memory = slotOf(message).memory;
  if (sends_) {
    fillPattern(memory + kMargin, bytesOf(plan_, spot(message)), patternOf(plan_, spot(message)));
  } else {
    fillUntouched(memory, capacityOf(plan_, spot(message)) + 2 * kMargin);
  }
}

void Connection::failed(const char* call) {
  state_ = State::failed;
  CINCH_CHECK(lastWarning().find(net_.address()) != std::string::npos,
              "lane %d: %s fails and does not name the peer: %s", first_.lane, call,
              lastWarning().c_str());
}

bool Connection::post() {
  if (nPosted_ == plan_.nMessages || nPosted_ - nDone_ == static_cast<int>(slots_.size())) {
    return false;
  }
  if (late_ > 0) {
    --late_;
    return false;
  }
  prepare(nPosted_);
  Slot& slot = slotOf(nPosted_);
  const Spot where = spot(nPosted_);
  void* const data = slot.memory + kMargin;
  const size_t nBytes = sends_ ? bytesOf(plan_, where) : capacityOf(plan_, where);
  const auto start = sends_ ? &PluginCalls::isend : &PluginCalls::irecv;
  slot.request = nullptr;
  if (!net_(start, comm_, data, nBytes, registration_, &slot.request)) {
    failed(sends_ ? "isend" : "irecv");
    return true;
  }
  if (slot.request == nullptr) return false;
  progress_.nPosted = ++nPosted_;
  if (nPosted_ < plan_.nMessages) late_ = latenessOf(plan_, spot(nPosted_), side_);
  return true;
}

void Connection::check(int message, size_t nReported) {
  const Spot where = spot(message);
  const uint8_t* memory = slotOf(message).memory;
  const size_t nBytes = bytesOf(plan_, where);
  CINCH_CHECK(nReported == nBytes, "lane %d life %d message %d: %zu bytes are reported, not %zu",
              where.lane, where.life, message, nReported, nBytes);
  const size_t wrong = firstWrongByte(memory + kMargin, nBytes, patternOf(plan_, where));
  CINCH_CHECK(wrong == nBytes, "lane %d life %d message %d of %zu bytes: wrong from byte %zu",
              where.lane, where.life, message, nBytes, wrong);
  const uint8_t* behind = memory + kMargin + nBytes;
  const size_t nBehind = capacityOf(plan_, where) - nBytes + kMargin;
  CINCH_CHECK(isUntouched(memory, kMargin) && isUntouched(behind, nBehind),
              "lane %d life %d message %d of %zu bytes: bytes around it were written", where.lane,
              where.life, message, nBytes);
}

bool Connection::test() {
  if (nDone_ == nPosted_) return false;
  int done = 0, nReported = -1;
  if (!net_(&PluginCalls::test, slotOf(nDone_).request, &done, &nReported)) {
    failed("test");
    return true;
  }
  if (done == 0) return false;
  if (sends_) {
    // From here on it is ours: what the plugin still read of it would arrive wrong.
    fillUntouched(slotOf(nDone_).memory + kMargin, bytesOf(plan_, spot(nDone_)));
  } else {
    check(nDone_, static_cast<size_t>(nReported));
  }
  progress_.nDone = ++nDone_;
  if (nDone_ == plan_.nMessages) state_ = State::done;
  return true;
}

bool Connection::visit() {
  const bool posted = post();
  const bool tested = state_ == State::moving && test();
  return posted || tested;
}

}  // namespace cinch::chaos
