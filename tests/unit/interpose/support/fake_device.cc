#include "tests/unit/interpose/support/fake_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "kernels/host/host_codec.h"

namespace cinch::test {
namespace {

// The program's thread and the background thread come here.
std::recursive_mutex mutex;
const std::thread::id programThread = std::this_thread::get_id();

int record(const char* name) {
  const std::lock_guard lock(mutex);
  FakeDevice& device = fakeDevice();
  device.calls.push_back(name);
  passTime(name);
  device.devicesUsed.insert(device.device);
  return static_cast<int>(device.calls.size()) - 1 == device.failAt ? kInjected : 0;
}

uint64_t captureOf(const void* stream) {
  const auto found = fakeDevice().captures.find(stream);
  return found == fakeDevice().captures.end() ? 0 : found->second;
}

int recordOrdering(const char* name, const void* event, const void* stream) {
  const uint64_t id = captureOf(stream);
  fakeDevice().orderings.push_back({name, stream, event, id});
  return record(name);
}

int allocate(void** memory, size_t nBytes) {
  const std::lock_guard lock(mutex);
  if (const int error = record("allocate")) return error;
  if (!fakeDevice().captures.empty() && fakeDevice().captureMode != 2) return kIllegal;
  *memory = malloc(nBytes);
  memset(*memory, 0xa5, nBytes);
  fakeDevice().memory[*memory] = nBytes;
  return 0;
}

int release(void* memory) {
  const std::lock_guard lock(mutex);
  fakeDevice().memory.erase(memory);
  free(memory);
  return record("release");
}

int memoryInfo(size_t* nFree, size_t* nTotal) {
  *nFree = fakeDevice().nFree;
  *nTotal = *nFree;
  return record("memoryInfo");
}

// All streams have run by then.
int giveBack(void* memory, void* stream) {
  const std::lock_guard lock(mutex);
  fakeDevice().memory.erase(memory);
  free(memory);
  return recordOrdering("giveBack", nullptr, stream);
}

// Memory whose beginning is given must be large enough.
bool isWithin(const void* memory, size_t nBytes) {
  const std::lock_guard lock(mutex);
  const auto found = fakeDevice().memory.find(const_cast<void*>(memory));
  return found == fakeDevice().memory.end() || nBytes <= found->second;
}

int copy(void* to, const void* from, size_t nBytes, void*) {
  if (const int error = record("copy")) return error;
  if (!isWithin(to, nBytes) || !isWithin(from, nBytes)) return kIllegal;
  memcpy(to, from, nBytes);
  return 0;
}

int clear(void* memory, size_t nBytes, void*) {
  if (const int error = record("clear")) return error;
  memset(memory, 0, nBytes);
  return 0;
}

int clearNow(void* memory, size_t nBytes) {
  if (const int error = record("clearNow")) return error;
  if (fakeDevice().captureMode != 2) return kIllegal;
  memset(memory, 0, nBytes);
  return 0;
}

int copyNow(void* to, const void* from, size_t nBytes) {
  if (const int error = record("copyNow")) return error;
  if (fakeDevice().captureMode != 2) return kIllegal;
  memcpy(to, from, nBytes);
  return 0;
}

int captureId(void* stream, uint64_t* id) {
  *id = captureOf(stream);
  return record("captureId");
}

int streamCreate(void** stream) {
  const std::lock_guard lock(mutex);
  if (const int error = record("streamCreate")) return error;
  *stream = malloc(1);
  fakeDevice().streams.insert(*stream);
  return 0;
}

int streamDestroy(void* stream) {
  const std::lock_guard lock(mutex);
  fakeDevice().streams.erase(stream);
  free(stream);
  return record("streamDestroy");
}

// Each thread has a mode of its own; tests look at the program's.
int exchangeCaptureMode(int* mode) {
  if (std::this_thread::get_id() != programThread) return 0;
  std::swap(*mode, fakeDevice().captureMode);
  return 0;
}

int eventCreate(void** event) {
  const std::lock_guard lock(mutex);
  if (const int error = record("eventCreate")) return error;
  *event = malloc(1);
  fakeDevice().events[*event] = 0;
  return 0;
}

int timedEventCreate(void** event) {
  return eventCreate(event);
}

int eventDestroy(void* event) {
  const std::lock_guard lock(mutex);
  fakeDevice().events.erase(event);
  free(event);
  return record("eventDestroy");
}

int eventQuery(void* event) {
  const std::lock_guard lock(mutex);
  if (const int error = record("eventQuery")) return error;
  if (fakeDevice().events.at(event) != 0) return kIllegal;
  const bool isPending = fakeDevice().eventsPending || fakeDevice().pendingEvents.contains(event);
  return isPending ? kNotReady : 0;
}

int eventRecord(void* event, void* stream) {
  const std::lock_guard lock(mutex);
  if (const int error = recordOrdering("eventRecord", event, stream)) return error;
  fakeDevice().events.at(event) = captureOf(stream);
  fakeDevice().recordTimes[event] = fakeDevice().milliseconds;
  return 0;
}

int eventElapsed(float* milliseconds, void* start, void* end) {
  const std::lock_guard lock(mutex);
  if (fakeDevice().eventsPending) return kNotReady;
  const std::map<const void*, double>& times = fakeDevice().recordTimes;
  *milliseconds = static_cast<float>(times.at(end) - times.at(start));
  return record("eventElapsed");
}

// Work of one capture cannot wait for work outside of it by an ordinary event, nor the reverse.
int streamWaitEvent(void* stream, void* event) {
  const std::lock_guard lock(mutex);
  if (const int error = recordOrdering("streamWaitEvent", event, stream)) return error;
  return fakeDevice().events.at(event) == captureOf(stream) ? 0 : kIllegal;
}

int eventRecordInGraph(void* event, void* stream) {
  if (const int error = recordOrdering("eventRecordInGraph", event, stream)) return error;
  return captureOf(stream) != 0 ? 0 : kIllegal;
}

int streamWaitEventInGraph(void* stream, void* event) {
  if (const int error = recordOrdering("streamWaitEventInGraph", event, stream)) return error;
  return captureOf(stream) != 0 ? 0 : kIllegal;
}

int getDevice(int* device) {
  *device = fakeDevice().device;
  return 0;
}

int setDevice(int device) {
  if (std::this_thread::get_id() != programThread) return 0;
  fakeDevice().device = device;
  fakeDevice().calls.push_back("setDevice");
  return 0;
}

template <class Launch>
int launchAll(const char* name, void (*host::HostCodec::*run)(const Launch&), const Launch* first,
              uint32_t n, const void* stream) {
  if (const int error = recordOrdering(name, nullptr, stream)) return error;
  timeline().push_back(name);
  for (const Launch& each : std::span(first, n)) (host::fastestHostCodec().*run)(each);
  return 0;
}

template <class Launch>
int launch(const char* name, void (*host::HostCodec::*run)(const Launch&), const Launch* arguments,
           const void* stream) {
  return launchAll(name, run, arguments, 1, stream);
}

DeviceTable makeTable() {
  DeviceTable t{};
  t.version = kDeviceTableVersion;
  t.size = sizeof t;
  t.name = "fake";
  t.chunkValues = uint64_t{1} << 40;
  t.initialise = [] { return 0; };
  t.errorName = [](int error) { return error == kInjected ? "injectedError" : "otherError"; };
  t.getDevice = getDevice;
  t.setDevice = setDevice;
  t.pciBusId = [](char* text, int size) {
    return snprintf(text, static_cast<size_t>(size), "0000:01:00.0") > 0 ? 0 : kInjected;
  };
  t.deviceName = [](char* text, int size) {
    return snprintf(text, static_cast<size_t>(size), "a GPU") > 0 ? 0 : kInjected;
  };
  t.loadKernels = [](uint32_t, SmShare*) { return record("loadKernels"); };
  t.nvlinks = [](int*) { return kInjected; };  // not known
  t.allocate = allocate;
  t.release = release;
  t.memoryInfo = memoryInfo;
  t.allocateReturnable = allocate;
  t.giveBack = giveBack;
  t.allocateHost = allocate;
  t.releaseHost = release;
  t.copyAsync = copy;
  t.clearAsync = clear;
  t.clearNow = clearNow;
  t.copyNow = copyNow;
  t.captureId = captureId;
  t.streamSynchronize = [](void*) { return record("streamSynchronize"); };
  t.streamCreate = streamCreate;
  t.streamDestroy = streamDestroy;
  t.exchangeCaptureMode = exchangeCaptureMode;
  t.eventCreate = eventCreate;
  t.timedEventCreate = timedEventCreate;
  t.eventDestroy = eventDestroy;
  t.eventQuery = eventQuery;
  t.eventRecord = eventRecord;
  t.eventElapsed = eventElapsed;
  t.streamWaitEvent = streamWaitEvent;
  t.eventRecordInGraph = eventRecordInGraph;
  t.streamWaitEventInGraph = streamWaitEventInGraph;
  t.rangePush = [](const char* name) { fakeDevice().ranges.push_back(name); };
  t.rangePop = [] { fakeDevice().ranges.pop_back(); };
  t.encode = [](const EncodeLaunch* first, uint32_t n, void* stream) {
    return launchAll("encode", &host::HostCodec::encodeShards, first, n, stream);
  };
  t.reduce = [](const ReduceLaunch* first, uint32_t n, void* stream) {
    return launchAll("reduce", &host::HostCodec::reduceShard, first, n, stream);
  };
  t.decode = [](const DecodeLaunch* first, uint32_t n, void* stream) {
    return launchAll("decode", &host::HostCodec::decodeShards, first, n, stream);
  };
  t.probe = [](const ProbeLaunch* l, void* stream) {
    return launch("probe", &host::HostCodec::probeInput, l, stream);
  };
  t.tally = [](const TallyLaunch* l, void* stream) {
    return launch("tally", &host::HostCodec::tallyTiles, l, stream);
  };
  t.sum = [](const SumLaunch* l, void* stream) {
    return launch("sum", &host::HostCodec::sumParts, l, stream);
  };
  return t;
}

}  // namespace

void setCosts(const std::map<std::string, double>& costs) {
  const std::lock_guard lock(mutex);
  fakeDevice().costs = costs;
}

void setEventsPending(bool arePending) {
  const std::lock_guard lock(mutex);
  fakeDevice().eventsPending = arePending;
}

void setFree(size_t nBytes) {
  const std::lock_guard lock(mutex);
  fakeDevice().nFree = nBytes;
}

void passTime(const std::string& call) {
  const std::lock_guard lock(mutex);
  const auto cost = fakeDevice().costs.find(call);
  if (cost != fakeDevice().costs.end()) fakeDevice().milliseconds += cost->second;
}

FakeDevice& fakeDevice() {
  static FakeDevice device;
  return device;
}

const DeviceTable& fakeDeviceTable() {
  static const DeviceTable table = makeTable();
  return table;
}

std::vector<std::string>& timeline() {
  static std::vector<std::string> calls;
  return calls;
}

void FakeDevice::reset() {
  for (const auto& [pointer, size] : memory) free(pointer);
  for (const auto& [event, capture] : events) free(const_cast<void*>(event));
  for (void* stream : streams) free(stream);
  *this = FakeDevice();
  timeline().clear();
}

size_t FakeDevice::count(const std::string& name) const {
  size_t n = 0;
  for (const auto& call : calls) n += call == name;
  return n;
}

}  // namespace cinch::test
