#include "interpose/comm/examiner.h"

#include <utility>

#include "interpose/comm/memory_reserve.h"

namespace cinch {

Result<void> Examiner::allocate(const DeviceTable& device, uint64_t nTiles) {
  MemoryReserve& reserve = MemoryReserve::instance();
  nTiles_ = nTiles;
  auto tallies = reserve.allocate(device, tallyBytes(), Buffer::Where::device);
  if (!tallies.ok()) return tallies.error();
  auto host = reserve.allocate(device, tallyBytes(), Buffer::Where::host);
  if (!host.ok()) return host.error();
  auto states = reserve.allocate(device, 2 * sizeof(SlotState), Buffer::Where::host);
  if (!states.ok()) return states.error();
  auto event = Event::create(device);
  if (!event.ok()) return event.error();
  device_ = std::move(tallies.value());
  host_ = std::move(host.value());
  states_ = std::move(states.value());
  done_ = std::move(event.value());
  return {};
}

Result<void> Examiner::noteInput(const DeviceTable& device, const TallyLaunch& input,
                                 const SlotState* state, void* stream) {
  TallyLaunch launch = input;
  launch.tallies = tallies();
  CINCH_TRY_DEVICE(device, device.tally(&launch, stream), "cannot examine a bucket");
  CINCH_TRY_DEVICE(device, device.copyAsync(before(), state, sizeof(SlotState), stream),
                   "cannot read a slot's figures");
  return {};
}

Result<void> Examiner::noteResult(const DeviceTable& device, const TallyLaunch& result,
                                  const SlotState* state, void* stream) {
  TallyLaunch launch = result;
  launch.tallies = tallies() + nTiles_;
  CINCH_TRY_DEVICE(device, device.tally(&launch, stream), "cannot examine a result");
  CINCH_TRY_DEVICE(device, device.copyAsync(after(), state, sizeof(SlotState), stream),
                   "cannot read a slot's figures");
  // Either buffer may be larger, having served another slot.
  CINCH_TRY_DEVICE(device, device.copyAsync(host_.as<void>(), tallies(), tallyBytes(), stream),
                   "cannot read what was examined");
  return done_.record(stream);
}

void Examiner::giveUp(std::vector<Buffer>& buffers) {
  for (Buffer* buffer : {&device_, &host_, &states_}) buffers.push_back(std::move(*buffer));
}

}  // namespace cinch
