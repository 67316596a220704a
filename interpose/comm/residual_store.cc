#include "interpose/comm/residual_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/log.h"
#include "kernels/core/call_state.h"

namespace cinch {
namespace {

namespace fs = std::filesystem;

ResidualEntry entryOf(const Slot& slot) {
  const ResidualRange& range = slot.residuals.range();
  return {.slot = slot.residualIdentity(),
          .name = slot.name,
          .type = slot.rule.residualType,
          .encodeBytes = range.encodeBytes,
          .reduceFirst = range.ownedFirst,
          .reduceBytes = range.ownedBytes()};
}

Result<void> copy(const DeviceTable& device, void* to, const void* from, uint64_t nBytes) {
  if (nBytes == 0) return {};
  CINCH_TRY_DEVICE(device, device.copyNow(to, from, nBytes), "cannot copy a residual");
  return {};
}

Result<void> makeFolderOf(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    return errorf(Status::systemError, "cannot make %s: %s", path.parent_path().c_str(),
                  error.message().c_str());
  return {};
}

// --- Saving.

// A call whose result was not finite has left residuals that the next one would have ignored: what
// is kept are the zeroes that `bytes` holds.
Result<void> fetch(const DeviceTable& device, const Slot& slot, std::span<uint8_t> bytes) {
  const ResidualEntry entry = entryOf(slot);
  const Residuals residuals = slot.residuals.pointers();
  SlotState state;
  CINCH_TRY(copy(device, &state, slot.state(), sizeof state));
  CINCH_TRY(copy(device, &bytes[entry.encodeBytes + entry.reduceBytes], residuals.probe->levels,
                 sizeof ProbeState::levels));
  if (core::isPoisoned(state)) return {};
  CINCH_TRY(copy(device, &bytes[0], residuals.encode, entry.encodeBytes));
  return copy(device, &bytes[entry.encodeBytes], residuals.reduce, entry.reduceBytes);
}

// Slots of an earlier step, or that nobody has used since their residuals were dropped, owe
// nothing; the job that goes on may never have them.
std::vector<const Slot*> owingSlots(const ResidualStore::Slots& slots) {
  const uint32_t epoch = latestEpoch(slots);
  std::vector<const Slot*> owing;
  for (const auto& slot : slots)
    if (slot->residuals.owes(epoch)) owing.push_back(slot.get());
  return owing;
}

Result<void> saveTo(const std::string& path, const ResidualOwner& owner, const DeviceTable& device,
                    const std::vector<const Slot*>& slots) {
  std::vector<ResidualEntry> entries;
  for (const Slot* slot : slots) entries.push_back(entryOf(*slot));
  CINCH_TRY(makeFolderOf(path));
  return saveResiduals(path, owner, entries, [&](size_t index, std::span<uint8_t> bytes) {
    return fetch(device, *slots[index], bytes);
  });
}

// --- Loading.

std::vector<Slot*> slotsWithResiduals(const ResidualStore::Slots& slots) {
  std::vector<Slot*> keeping;
  for (const auto& slot : slots)
    if (slot->residuals.areHeld()) keeping.push_back(slot.get());
  return keeping;
}

// Why the residuals of `loaded` cannot be those of `own`; null where they can. The part of stage 2
// may be another one: a residual stays with its value.
const char* difference(const ResidualEntry& loaded, const ResidualEntry& own) {
  if (loaded.type != own.type) return "is kept in another form there (CINCH_RESIDUAL)";
  if (loaded.encodeBytes != own.encodeBytes) return "has another size there";
  return nullptr;
}

// The entry of every slot, by its index; an error where one is missing, or too many.
Result<std::vector<size_t>> matchSlots(const std::vector<ResidualEntry>& entries,
                                       const std::vector<Slot*>& slots) {
  std::vector<size_t> matches;
  std::vector<bool> isTaken(entries.size());
  for (const Slot* slot : slots) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const ResidualEntry& e) {
      return e.slot == slot->residualIdentity();
    });
    const char* const why =
        found == entries.end() ? "is not there" : difference(*found, entryOf(*slot));
    if (why != nullptr)
      return errorf(Status::invalidUsage, "the slots differ: %s by %s %s", slot->name.c_str(),
                    slot->stats->codec.c_str(), why);
    matches.push_back(static_cast<size_t>(found - entries.begin()));
    isTaken[matches.back()] = true;
  }
  const auto spare = std::find(isTaken.begin(), isTaken.end(), false);
  if (spare == isTaken.end()) return matches;
  return errorf(Status::invalidUsage, "the slots differ: only the file has %s",
                entries[static_cast<size_t>(spare - isTaken.begin())].name.c_str());
}

// What is of both parts of stage 2: the values that this rank still owns.
struct Shared {
  uint64_t first, end;
  uint64_t bytes() const { return end > first ? end - first : 0; }
};
Shared sharedBy(const ResidualEntry& loaded, const ResidualEntry& own) {
  return {std::max(loaded.reduceFirst, own.reduceFirst),
          std::min(loaded.reduceEnd(), own.reduceEnd())};
}

Result<void> putReduce(const DeviceTable& device, const Slot& slot, const ResidualEntry& loaded,
                       const uint8_t* bytes) {
  const ResidualEntry own = entryOf(slot);
  const auto [first, end] = sharedBy(loaded, own);
  if (first >= end) return {};
  auto* const to = static_cast<uint8_t*>(slot.residuals.pointers().reduce);
  return copy(device, to + (first - own.reduceFirst), bytes + (first - loaded.reduceFirst),
              end - first);
}

// As if one call of the slot had been probed.
Result<void> putProfile(const DeviceTable& device, const Slot& slot, const uint8_t* levels) {
  ProbeState probe{};
  probe.nCalls = 1;
  std::copy_n(levels, sizeof probe.levels, reinterpret_cast<uint8_t*>(probe.levels));
  return copy(device, slot.residuals.pointers().probe, &probe, sizeof probe);
}

Result<void> put(const DeviceTable& device, Slot& slot, const ResidualEntry& loaded,
                 const std::vector<uint8_t>& bytes) {
  CINCH_TRY(slot.residuals.resume(device));
  CINCH_TRY(copy(device, slot.residuals.pointers().encode, bytes.data(), loaded.encodeBytes));
  CINCH_TRY(putReduce(device, slot, loaded, &bytes[loaded.encodeBytes]));
  return putProfile(device, slot, &bytes[loaded.encodeBytes + loaded.reduceBytes]);
}

// Gives the bytes of stage 2 that are nobody's here.
Result<uint64_t> loadFrom(const std::string& path, const ResidualOwner& owner,
                          const DeviceTable& device, const std::vector<Slot*>& slots) {
  uint64_t nDropped = 0;
  auto file = ResidualFile::open(path, owner);
  CINCH_TRY(file);
  const std::vector<ResidualEntry>& entries = file.value().entries();
  const auto matches = matchSlots(entries, slots);
  CINCH_TRY(matches);
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t entry = matches.value()[i];
    const auto bytes = file.value().read(entry);
    CINCH_TRY(bytes);
    const Shared shared = sharedBy(entries[entry], entryOf(*slots[i]));
    nDropped += entries[entry].reduceBytes - shared.bytes();
    CINCH_TRY(put(device, *slots[i], entries[entry], bytes.value()));
  }
  return nDropped;
}

}  // namespace

uint32_t latestEpoch(const ResidualStore::Slots& slots) {
  uint32_t epoch = 0;
  for (const auto& slot : slots) epoch = std::max(epoch, slot->residuals.epoch());
  return epoch;
}

void ResidualStore::save(const DeviceTable& device, const Slots& slots) const {
  const char* const path = path_.text().c_str();
  const std::vector<const Slot*> owing = owingSlots(slots);
  if (const auto saved = saveTo(path, owner_, device, owing); !saved.ok())
    CINCH_WARN("EXEC", "%s: residuals not saved to %s: %s", name_.c_str(), path,
               saved.error().message.c_str());
  else
    CINCH_INFO("EXEC", "%s: residuals of %zu slots saved to %s", name_.c_str(), owing.size(), path);
}

void ResidualStore::load(const DeviceTable& device, const Slots& slots) const {
  const char* const path = path_.text().c_str();
  std::error_code ignored;
  const Result<void> hasFolder = makeFolderOf(path);
  if (hasFolder.ok() && !fs::exists(path, ignored)) {
    CINCH_INFO("EXEC", "%s: residuals start from zero: there is no %s", name_.c_str(), path);
    return;
  }
  const std::vector<Slot*> keeping = slotsWithResiduals(slots);
  const auto loaded = hasFolder.ok() ? loadFrom(path, owner_, device, keeping)
                                     : Result<uint64_t>(hasFolder.error());
  if (loaded.ok()) {
    CINCH_INFO("EXEC", "%s: residuals of %zu slots go on from %s", name_.c_str(), keeping.size(),
               path);
    if (loaded.value() > 0)
      CINCH_INFO("EXEC",
                 "%s: %llu bytes of them are dropped: this rank sums up other values than then, "
                 "or none",
                 name_.c_str(), static_cast<unsigned long long>(loaded.value()));
    return;
  }
  for (Slot* slot : keeping) slot->residuals.drop();
  CINCH_WARN("EXEC", "%s: residuals start from zero, not from %s: %s", name_.c_str(), path,
             loaded.error().message.c_str());
}

}  // namespace cinch
