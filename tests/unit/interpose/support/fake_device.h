// A device table on plain memory: every stream runs at once, every call is recorded, and the Nth
// call can be made to fail. Launches run the host codec, so results are real.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/device_table.h"
#include "kernels/host/host_codec.h"

namespace cinch::test {

inline constexpr int kInjected = 719;  // what a failing call returns

struct FakeDevice {
  std::vector<std::string> calls;
  std::map<void*, size_t> memory;  // live allocations
  int events = 0;                  // live ones
  int device = 0;
  int failAt = -1;  // index of the call that fails
  bool capturing = false;
  bool eventsPending = false;

  // Clears everything; memory that is still alive is a leak of the test before.
  void reset() {
    for (const auto& [pointer, size] : memory) free(pointer);
    *this = FakeDevice();
  }
  size_t count(const std::string& name) const {
    size_t n = 0;
    for (const auto& call : calls) n += call == name;
    return n;
  }
};

inline FakeDevice& fakeDevice() {
  static FakeDevice device;
  return device;
}

namespace fake {

inline int record(const char* name) {
  FakeDevice& device = fakeDevice();
  device.calls.push_back(name);
  return static_cast<int>(device.calls.size()) - 1 == device.failAt ? kInjected : 0;
}

inline int allocate(void** memory, size_t nBytes) {
  if (const int error = record("allocate")) return error;
  *memory = malloc(nBytes);
  memset(*memory, 0xa5, nBytes);
  fakeDevice().memory[*memory] = nBytes;
  return 0;
}
inline int release(void* memory) {
  fakeDevice().memory.erase(memory);
  free(memory);
  return record("release");
}
inline int copy(void* to, const void* from, size_t nBytes, void*) {
  if (const int error = record("copy")) return error;
  memcpy(to, from, nBytes);
  return 0;
}
inline int clear(void* memory, size_t nBytes, void*) {
  if (const int error = record("clear")) return error;
  memset(memory, 0, nBytes);
  return 0;
}
inline int eventCreate(void** event) {
  if (const int error = record("eventCreate")) return error;
  ++fakeDevice().events;
  *event = &fakeDevice();
  return 0;
}
inline int eventDestroy(void*) {
  --fakeDevice().events;
  return record("eventDestroy");
}
inline int eventQuery(void*) {
  const int error = record("eventQuery");
  return error == 0 && fakeDevice().eventsPending ? kNotReady : error;
}
inline int isCapturing(void*, int* capturing) {
  *capturing = fakeDevice().capturing;
  return record("isCapturing");
}
inline int getDevice(int* device) {
  *device = fakeDevice().device;
  return 0;
}
inline int setDevice(int device) {
  fakeDevice().device = device;
  return record("setDevice");
}
template <class Launch, void (*host::HostCodec::*run)(const Launch&)>
int launch(const char* name, const Launch* arguments) {
  if (const int error = record(name)) return error;
  (host::fastestHostCodec().*run)(*arguments);
  return 0;
}

}  // namespace fake

inline const DeviceTable& fakeDeviceTable() {
  static const DeviceTable table = [] {
    DeviceTable t{};
    t.version = kDeviceTableVersion;
    t.size = sizeof t;
    t.name = "fake";
    t.initialise = [] { return 0; };
    t.errorName = [](int error) { return error == kInjected ? "injectedError" : "otherError"; };
    t.getDevice = fake::getDevice;
    t.setDevice = fake::setDevice;
    t.pciBusId = [](char* text, int size) {
      return snprintf(text, size, "0000:01:00.0") > 0 ? 0 : kInjected;
    };
    t.allocate = fake::allocate;
    t.release = fake::release;
    t.allocateHost = fake::allocate;
    t.releaseHost = fake::release;
    t.copyAsync = fake::copy;
    t.clearAsync = fake::clear;
    t.streamIsCapturing = fake::isCapturing;
    t.streamSynchronize = [](void*) { return fake::record("streamSynchronize"); };
    t.exchangeCaptureMode = [](int* mode) {
      *mode = 0;
      return 0;
    };
    t.eventCreate = fake::eventCreate;
    t.eventDestroy = fake::eventDestroy;
    t.eventQuery = fake::eventQuery;
    t.eventSynchronize = [](void*) { return fake::record("eventSynchronize"); };
    t.eventRecord = [](void*, void*) { return fake::record("eventRecord"); };
    t.streamWaitEvent = [](void*, void*) { return fake::record("streamWaitEvent"); };
    t.encode = [](const EncodeLaunch* l, void*) {
      return fake::launch<EncodeLaunch, &host::HostCodec::encodeShards>("encode", l);
    };
    t.reduce = [](const ReduceLaunch* l, void*) {
      return fake::launch<ReduceLaunch, &host::HostCodec::reduceShard>("reduce", l);
    };
    t.decode = [](const DecodeLaunch* l, void*) {
      return fake::launch<DecodeLaunch, &host::HostCodec::decodeShards>("decode", l);
    };
    return t;
  }();
  return table;
}

}  // namespace cinch::test
