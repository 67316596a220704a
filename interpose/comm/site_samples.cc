#include "interpose/comm/site_samples.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/policy/signature.h"
#include "kernels/element/element_traits.h"

namespace cinch {
namespace {

// Copies of one buffer: few, since each costs some microseconds; and each long enough to show that
// a tile of a codec is zero, where there is room.
constexpr uint32_t kMaxRuns = 16;
constexpr uint64_t kRunLength = 1024;
// Too few of a site to judge it by.
constexpr uint64_t kMinValues = 64;
// Before and after each call.
constexpr size_t kParts = SiteSamples::kCalls * 2;

template <class T>
T loadAt(const char* memory) {
  T value;
  memcpy(&value, memory, sizeof value);
  return value;
}

float loadFloat(const char* memory, ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return ElementTraits<ElementType::fp16>::toFloat(loadAt<uint16_t>(memory));
    case ncclBfloat16:
      return ElementTraits<ElementType::bf16>::toFloat(loadAt<uint16_t>(memory));
    default:
      return loadAt<float>(memory);
  }
}

}  // namespace

SiteSamples::SiteSamples(const CommResources& resources, std::vector<uint64_t> counts)
    : device_(*resources.device),
      cudaDevice_(resources.cudaDevice),
      counts_(std::move(counts)),
      samples_(counts_.size()) {}

// What is still being written to must not be given out.
SiteSamples::~SiteSamples() {
  if (!memory_) return;
  std::vector<Buffer> buffers;
  buffers.push_back(std::move(memory_));
  if (hasArrived())
    MemoryReserve::instance().keep(cudaDevice_, std::move(buffers), Event());
  else
    MemoryReserve::instance().strand(std::move(buffers));
}

void SiteSamples::begin(uint32_t site, uint32_t sample, const DeviceValues& input, void* stream) {
  const RelaxedCapture relaxed(device_);
  const CurrentDevice current(device_, cudaDevice_);
  if (!allocate()) return;
  samples_[site][sample] = {};
  samples_[site][sample].input = copy(input, memoryOf(site, sample, false), stream);
}

void SiteSamples::end(uint32_t site, uint32_t sample, const DeviceValues& output, void* stream) {
  if (!memory_) return;
  const RelaxedCapture relaxed(device_);
  const CurrentDevice current(device_, cudaDevice_);
  Sample& closed = samples_[site][sample];
  closed.output = copy(output, memoryOf(site, sample, true), stream);
  auto arrived = Event::create(device_);
  if (arrived.ok()) closed.arrived = std::move(arrived.value());
  closed.isClosed = arrived.ok() && closed.arrived.record(stream).ok();
}

void SiteSamples::forget(uint32_t site) {
  for (Sample& sample : samples_[site]) sample = {};
}

bool SiteSamples::isFree(uint32_t site, uint32_t sample) const {
  const RelaxedCapture relaxed(device_);
  const Sample& asked = samples_[site][sample];
  return !asked.isClosed || asked.arrived.done();
}

bool SiteSamples::hasArrived() const {
  for (uint32_t site = 0; site < samples_.size(); ++site)
    for (uint32_t sample = 0; sample < kCalls; ++sample)
      if (!isFree(site, sample)) return false;
  return true;
}

std::vector<SampledCall> SiteSamples::read(uint32_t site, uint32_t first, uint32_t n) const {
  std::vector<SampledCall> calls;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t sample = (first + i) % kCalls;
    SampledCall call{readPart(site, sample, false), readPart(site, sample, true)};
    if (call.input.size() == call.output.size()) calls.push_back(std::move(call));
  }
  return calls;
}

bool SiteSamples::allocate() {
  if (memory_ || hasNoMemory_) return !hasNoMemory_;
  auto memory = MemoryReserve::instance().allocate(device_, kMaxBytes, Buffer::Where::host);
  hasNoMemory_ = !memory.ok();
  if (memory.ok())
    memory_ = std::move(memory.value());
  else
    CINCH_INFO("POLICY", "no memory to look at values with: %s", memory.error().message.c_str());
  return memory.ok();
}

// Every site has the same share of the memory.
SiteSamples::Runs SiteSamples::runsOf(uint64_t count) const {
  const uint64_t room = kMaxBytes / sizeof(float) / kParts / std::max<size_t>(counts_.size(), 1);
  if (count <= room) return {count, 1};
  const uint64_t n = std::clamp<uint64_t>(room / kRunLength, 1, kMaxRuns);
  return {std::min(room / n, count / n), static_cast<uint32_t>(n)};
}

char* SiteSamples::memoryOf(uint32_t site, uint32_t sample, bool isOutput) const {
  const size_t part = (site * kCalls + sample) * 2 + (isOutput ? 1 : 0);
  const size_t nParts = counts_.size() * kParts;
  return memory_.as<char>() + part * (kMaxBytes / sizeof(float) / nParts) * sizeof(float);
}

// Nothing where it fails, or where there are too few values.
std::optional<ncclDataType_t> SiteSamples::copy(const DeviceValues& values, char* to,
                                                void* stream) const {
  const Runs runs = runsOf(values.count);
  if (values.data_dev == nullptr || runs.length * runs.n < kMinValues) return std::nullopt;
  const uint32_t width = bytesOf(values.type);
  for (uint32_t run = 0; run < runs.n; ++run) {
    const char* const from =
        static_cast<const char*>(values.data_dev) + values.count / runs.n * run * width;
    const size_t nBytes = runs.length * width;
    if (device_.copyAsync(to + run * nBytes, from, nBytes, stream) != 0) return std::nullopt;
  }
  return values.type;
}

std::vector<float> SiteSamples::readPart(uint32_t site, uint32_t sample, bool isOutput) const {
  const Sample& from = samples_[site][sample];
  const auto type = isOutput ? from.output : from.input;
  if (!type || !from.isClosed || !isFree(site, sample)) return {};
  const Runs runs = runsOf(counts_[site]);
  std::vector<float> values(runs.length * runs.n);
  const char* const memory = memoryOf(site, sample, isOutput);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = loadFloat(memory + i * bytesOf(*type), *type);
  return values;
}

}  // namespace cinch
