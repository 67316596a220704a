#include "interpose/comm/precision_tables.h"

#include <utility>

#include "interpose/comm/memory_reserve.h"

namespace cinch {

Result<void> PrecisionTables::allocate(const DeviceTable& device, uint32_t nRuns,
                                       const CollectivePlan& plan) {
  // The border of a shard or chunk may cut a run in two.
  const size_t nParts = size_t{plan.layout.nShards} * plan.nChunks();
  nBytes_ = nParts * sizeof(wire::MixedShard) + (nRuns + nParts) * sizeof(wire::Piece);
  auto tables = MemoryReserve::instance().allocate(device, nBytes_, Buffer::Where::device);
  if (!tables.ok()) return tables.error();
  auto first = makeStaging(device);
  if (!first.ok()) return first.error();
  tables_ = std::move(tables.value());
  staging_.push_back(std::move(first.value()));
  return {};
}

Result<PrecisionTables::Staging> PrecisionTables::makeStaging(const DeviceTable& device) const {
  auto memory = MemoryReserve::instance().allocate(device, nBytes_, Buffer::Where::host);
  if (!memory.ok()) return memory.error();
  auto event = Event::create(device);
  if (!event.ok()) return event.error();
  return Staging{std::move(memory.value()), std::move(event.value())};
}

// Changes are far apart: that the last one's copy is still under way is possible, and rare.
Result<size_t> PrecisionTables::freeStaging(const DeviceTable& device) {
  for (size_t i = 0; i < staging_.size(); ++i)
    if (staging_[i].copied.done()) return i;
  auto made = makeStaging(device);
  if (!made.ok()) return made.error();
  staging_.push_back(std::move(made.value()));
  return staging_.size() - 1;
}

Result<CollectivePlan> PrecisionTables::change(const DeviceTable& device,
                                               const CollectivePlan& plan,
                                               std::span<const wire::Segment> runs,
                                               uint32_t planId) {
  auto mixed = std::make_unique<const wire::MixedLayout>(plan.layout.count, plan.layout.nShards,
                                                         runs, plan.nChunks());
  if (mixed->tableBytes() > nBytes_)
    return errorf(Status::internalError, "a plan of precisions has more runs than were agreed");
  const auto staging = freeStaging(device);
  if (!staging.ok()) return staging.error();
  current_ = staging.value();
  mixed->copyTables(staging_[current_].memory.as<void>());
  layout_ = std::move(mixed);
  return withPrecision(plan, *layout_, tables_.as<void>(), planId);
}

Result<void> PrecisionTables::upload(const DeviceTable& device, void* stream) {
  Staging& staging = staging_[current_];
  CINCH_TRY_DEVICE(device,
                   device.copyAsync(tables_.as<void>(), staging.memory.as<void>(),
                                    layout_->tableBytes(), stream),
                   "cannot change a slot's precision");
  return staging.copied.record(stream);
}

void PrecisionTables::giveUp(std::vector<Buffer>& buffers) {
  buffers.push_back(std::move(tables_));
  for (Staging& staging : staging_) buffers.push_back(std::move(staging.memory));
  staging_.clear();
}

}  // namespace cinch
