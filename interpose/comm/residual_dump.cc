#include "interpose/comm/residual_dump.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/log.h"
#include "common/param.h"

namespace cinch {
namespace {

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

Result<File> create(const std::string& path) {
  File file(fopen(path.c_str(), "wb"), &fclose);
  if (!file) return errorf(Status::systemError, "cannot write %s: %m", path.c_str());
  return file;
}

// Appends `nBytes` of device memory (or zeroes, for no memory) to `file`.
Result<void> append(FILE* file, const DeviceTable& device, const void* memory_dev, size_t nBytes) {
  std::vector<char> bytes(nBytes);
  if (memory_dev != nullptr) {
    CINCH_TRY_DEVICE(device, device.copyAsync(bytes.data(), memory_dev, nBytes, nullptr),
                     "cannot read a residual");
    CINCH_TRY_DEVICE(device, device.streamSynchronize(nullptr), "cannot read a residual");
  }
  if (fwrite(bytes.data(), 1, nBytes, file) != nBytes)
    return errorf(Status::systemError, "cannot write a residual: %m");
  return {};
}

const char* nameOf(ResidualType type) {
  switch (type) {
    case ResidualType::fp32:
      return "fp32";
    case ResidualType::bf16:
      return "bf16";
    default:
      return "int8";
  }
}

Result<nlohmann::json> appendSlot(FILE* file, const DeviceTable& device, const Slot& slot) {
  const CollectivePlan& plan = slot.planInForce();
  const ResidualType type = slot.rule.residualType;
  const uint32_t owned = plan.isPair ? 0 : plan.rank;
  const long offset = ftell(file);
  CINCH_TRY(append(file, device, slot.residuals.pointers().encode, plan.encodeResidualBytes(type)));
  CINCH_TRY(append(file, device, slot.residuals.pointers().reduce, plan.reduceResidualBytes(type)));
  return nlohmann::json{{"name", slot.name},
                        {"rank", plan.rank},
                        {"ranks", plan.nRanks()},
                        {"count", plan.layout.count},
                        {"shard_first", plan.layout.firstElem(owned)},
                        {"shard_count", plan.isPair ? 0 : plan.layout.shardElems(owned)},
                        {"gain", slot.rule.gain},
                        {"residual_type", nameOf(type)},
                        {"factor", plan.factor},
                        {"calls", slot.calls},
                        {"offset", offset}};
}

Result<void> dump(const std::string& path, const DeviceTable& device,
                  const std::vector<std::unique_ptr<Slot>>& slots) {
  auto data = create(path + ".bin");
  if (!data.ok()) return data.error();
  nlohmann::json list = nlohmann::json::array();
  for (const auto& slot : slots) {
    if (slot->calls == 0 || !slot->plan.hasResiduals() || slot->plan.hosts) continue;
    auto entry = appendSlot(data.value().get(), device, *slot);
    if (!entry.ok()) return entry.error();
    list.push_back(std::move(entry.value()));
  }
  auto index = create(path + ".json");
  if (!index.ok()) return index.error();
  const std::string text = nlohmann::json{{"slots", list}}.dump(1) + "\n";
  if (fwrite(text.data(), 1, text.size(), index.value().get()) != text.size())
    return errorf(Status::systemError, "cannot write %s.json: %m", path.c_str());
  return {};
}

}  // namespace

void dumpResiduals(const std::string& pattern, const DeviceTable& device,
                   const std::vector<std::unique_ptr<Slot>>& slots) {
  if (pattern.empty()) return;
  if (const auto done = dump(expandPath(pattern), device, slots); !done.ok())
    CINCH_WARN("STATS", "no residual dump: %s", done.error().message.c_str());
}

}  // namespace cinch
