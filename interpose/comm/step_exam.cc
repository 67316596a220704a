#include "interpose/comm/step_exam.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
#include "kernels/element/element_traits.h"

namespace cinch {
namespace {

// Copies of one buffer: few, since each costs some microseconds; and each long enough to show that
// a tile of a codec is zero, where there is room.
constexpr uint32_t kMaxRuns = 16;
constexpr uint64_t kRunLength = 1024;
// Too few of a site to judge it by.
constexpr uint64_t kMinValues = 64;

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

StepExam::StepExam(uint32_t period, TrainingStep step, const CommResources& resources, int rank,
                   int nRanks)
    : period(period),
      device_(*resources.device),
      cudaDevice_(resources.cudaDevice),
      rank_(rank),
      nRanks_(nRanks),
      evidence_(std::move(step)),
      sites_(evidence_.step().nSlots()) {}

// What is still being written to must not be given out.
StepExam::~StepExam() {
  if (!memory_) return;
  std::vector<Buffer> buffers;
  buffers.push_back(std::move(memory_));
  if (hasArrived())
    MemoryReserve::instance().keep(cudaDevice_, std::move(buffers), Event());
  else
    MemoryReserve::instance().strand(std::move(buffers));
}

bool StepExam::note(uint32_t position, Caller caller, const CallerCounts& ever) {
  const std::lock_guard lock(mutex_);
  const TrainingStep::Call& call = evidence_.step().calls[position];
  bool contradicts = false;
  if (call.isReduction) {
    const Site& site = sites_[call.slot];
    contradicts = site.phase == Phase::decided && isGradient(site.outcome) &&
                  !evidence_.hasSeen(call.slot, caller);
  }
  evidence_.note(position, caller, ever);
  return contradicts;
}

void StepExam::decide(uint32_t site, Evidence outcome) {
  sites_[site].phase = Phase::decided;
  sites_[site].outcome = outcome;
}

void StepExam::measureAgain(uint32_t site) {
  const std::lock_guard lock(mutex_);
  Site& again = sites_[site];
  again.phase = Phase::measuring;
  again.nCalls = 0;
  ++again.attempt;
  for (Sample& sample : again.samples) sample = {};
}

void StepExam::reopen(uint32_t nextEpoch) {
  const std::lock_guard lock(mutex_);
  epoch = nextEpoch;
  evidence_.forgetCallers();
  for (uint32_t site = 0; site < sites_.size(); ++site) {
    Site& again = sites_[site];
    again.oldest = sampleOf(site, 1);
    again.phase = Phase::measuring;
    again.nCalls = kCalls - 1;
    again.attempt = 0;
    again.isOpen = again.mustVote = again.hasVotedYes = false;
    again.gate.reset();
  }
}

void StepExam::begin(uint32_t site, uint32_t sample, const DeviceValues& input, void* stream) {
  const RelaxedCapture relaxed(device_);
  const CurrentDevice current(device_, cudaDevice_);
  if (!allocate()) return;
  sites_[site].samples[sample] = {};
  sites_[site].samples[sample].input = copy(input, memoryOf(site, sample, false), stream);
}

void StepExam::close(uint32_t site, uint32_t sample, const DeviceValues& output, void* stream) {
  if (!memory_) return;
  const RelaxedCapture relaxed(device_);
  const CurrentDevice current(device_, cudaDevice_);
  Sample& closed = sites_[site].samples[sample];
  closed.output = copy(output, memoryOf(site, sample, true), stream);
  auto arrived = Event::create(device_);
  if (arrived.ok()) closed.arrived = std::move(arrived.value());
  closed.isClosed = arrived.ok() && closed.arrived.record(stream).ok();
}

void StepExam::beginCall(uint32_t site, const DeviceValues& input, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& measured = sites_[site];
  if (measured.phase != Phase::measuring || std::exchange(measured.isOpen, true)) return;
  begin(site, sampleOf(site, measured.nCalls), input, stream);
}

void StepExam::endCall(uint32_t site, const DeviceValues& output, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& measured = sites_[site];
  if (!std::exchange(measured.isOpen, false)) return;
  close(site, sampleOf(site, measured.nCalls), output, stream);
  if (++measured.nCalls < kCalls) return;
  measured.phase = Phase::voting;
  measured.mustVote = true;
}

void StepExam::beginAudit(uint32_t site, const DeviceValues& input, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& audited = sites_[site];
  const Sample& oldest = audited.samples[audited.oldest];
  const RelaxedCapture relaxed(device_);
  const bool isFree = !oldest.isClosed || oldest.arrived.done();
  if (audited.phase != Phase::decided || !memory_ || !isFree) return;
  begin(site, audited.oldest, input, stream);
  audited.isOpen = true;
}

void StepExam::endAudit(uint32_t site, const DeviceValues& output, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& audited = sites_[site];
  if (!std::exchange(audited.isOpen, false)) return;
  close(site, audited.oldest, output, stream);
  audited.oldest = sampleOf(site, 1);
}

void StepExam::takeBack() {
  const std::lock_guard lock(mutex_);
  for (Site& site : sites_) site.isOpen = false;
}

std::vector<uint32_t> StepExam::takeUnvoted(bool isUrgent) {
  const std::lock_guard lock(mutex_);
  const auto isMeasuring = [](const Site& site) { return site.phase == Phase::measuring; };
  std::vector<uint32_t> unvoted;
  if (!isUrgent && std::ranges::any_of(sites_, isMeasuring)) return unvoted;
  for (uint32_t site = 0; site < sites_.size(); ++site)
    if (std::exchange(sites_[site].mustVote, false)) unvoted.push_back(site);
  return unvoted;
}

bool StepExam::hasArrived() const {
  const std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(device_);
  for (const Site& site : sites_)
    for (const Sample& sample : site.samples)
      if (sample.isClosed && !sample.arrived.done()) return false;
  return true;
}

Evidence StepExam::evidence(uint32_t site, const ProcessFacts& process) {
  const std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(device_);
  for (uint32_t other = 0; other < sites_.size(); ++other) evidence_.judge(other, valuesOf(other));
  return evidence_.of(site, process);
}

void StepExam::noteVote(uint32_t site, Evidence voted, bool yes) {
  const std::lock_guard lock(mutex_);
  sites_[site].voted = voted;
  sites_[site].hasVotedYes = yes;
}

bool StepExam::hasVotedYes(uint32_t site) const {
  const std::lock_guard lock(mutex_);
  return sites_[site].hasVotedYes;
}

Evidence StepExam::voted(uint32_t site) const {
  const std::lock_guard lock(mutex_);
  return sites_[site].voted;
}

bool StepExam::allocate() {
  if (memory_ || hasNoMemory_) return !hasNoMemory_;
  auto memory = MemoryReserve::instance().allocate(device_, kMaxBytes, Buffer::Where::host);
  hasNoMemory_ = !memory.ok();
  if (memory.ok())
    memory_ = std::move(memory.value());
  else
    CINCH_INFO("POLICY", "no memory to look at values with: %s", memory.error().message.c_str());
  return memory.ok();
}

// Of every site alike, so that each has its share of the memory.
StepExam::Runs StepExam::runsOf(uint64_t count) const {
  constexpr size_t kParts = kCalls * 2;  // before and after each call
  const uint64_t room = kMaxBytes / sizeof(float) / kParts / std::max<size_t>(sites_.size(), 1);
  if (count <= room) return {count, 1};
  const uint64_t n = std::clamp<uint64_t>(room / kRunLength, 1, kMaxRuns);
  return {std::min(room / n, count / n), static_cast<uint32_t>(n)};
}

char* StepExam::memoryOf(uint32_t site, uint32_t sample, bool isOutput) const {
  const size_t part = (site * kCalls + sample) * 2 + (isOutput ? 1 : 0);
  const size_t nParts = sites_.size() * kCalls * 2;
  return memory_.as<char>() + part * (kMaxBytes / sizeof(float) / nParts) * sizeof(float);
}

// Nothing where it fails, or where there are too few values.
std::optional<ncclDataType_t> StepExam::copy(const DeviceValues& values, char* to,
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

std::vector<float> StepExam::read(uint32_t site, uint32_t call, bool isOutput) const {
  const uint32_t index = sampleOf(site, call);
  const Sample& sample = sites_[site].samples[index];
  const auto type = isOutput ? sample.output : sample.input;
  if (!type || !sample.isClosed || !sample.arrived.done()) return {};
  const Runs runs = runsOf(evidence_.reductionOf(site).signature.count);
  std::vector<float> values(runs.length * runs.n);
  const char* const from = memoryOf(site, index, isOutput);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = loadFloat(from + i * bytesOf(*type), *type);
  return values;
}

ValueVerdict StepExam::valuesOf(uint32_t site) const {
  std::vector<SampledCall> calls;
  for (uint32_t call = 0; call < sites_[site].nCalls; ++call) {
    SampledCall sampled{read(site, call, false), read(site, call, true)};
    if (sampled.input.size() == sampled.output.size()) calls.push_back(std::move(sampled));
  }
  const SampledRuns runs{runsOf(evidence_.reductionOf(site).signature.count).length};
  return judgeValues(calls, runs, nRanks_);
}

}  // namespace cinch
