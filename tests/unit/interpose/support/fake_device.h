// A device table on plain memory: every stream runs at once, every call is recorded, and the Nth
// call can be made to fail. Launches run the host codec, so results are real. Captures obey CUDA's
// rules on events; what is launched in one runs at once, as a graph would at its first launch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/device_table.h"

namespace cinch::test {

inline constexpr int kInjected = 719;  // what a failing call returns
inline constexpr int kIllegal = 905;   // what CUDA forbids in, or of, captures

// A call that orders work: "eventRecord", "streamWaitEvent" or one of their graph forms; or work:
// a launch, or what NCCL has launched.
struct Ordering {
  std::string call;
  const void* stream;
  const void* event;   // null: work
  uint64_t captureId;  // of the stream, 0 for none
};

struct FakeDevice {
  std::vector<std::string> calls;
  std::vector<Ordering> orderings;
  std::map<void*, size_t> memory;            // live allocations
  size_t nFree = size_t{1} << 40;            // bytes, as far as it says
  std::map<const void*, uint64_t> events;    // live ones, and the capture they were recorded in
  std::map<const void*, uint64_t> captures;  // of streams
  std::set<void*> streams;                   // live ones that Cinch made
  std::vector<std::string> ranges;           // open ones
  int device = 0;
  std::set<int> devicesUsed;  // current at any call that a null stream or an allocation depends on
  int failAt = -1;            // index of the call that fails
  int captureMode = 0;
  double milliseconds = 0;                    // what the device's clock shows
  std::map<std::string, double> costs;        // of calls to either fake, in milliseconds
  std::map<const void*, double> recordTimes;  // of events
  bool eventsPending = false;                 // all of them
  std::set<const void*> pendingEvents;        // or these

  FakeDevice() = default;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(FakeDevice&&) = default;

  // Clears everything; memory that is still alive is a leak of the test before.
  void reset();
  size_t count(const std::string& name) const;
};

FakeDevice& fakeDevice();
// From now on, calls to either fake take so many milliseconds of the device's clock.
void setCosts(const std::map<std::string, double>& costs);
// Whether no event is done from now on.
void setEventsPending(bool arePending);
// So much memory is free from now on.
void setFree(size_t nBytes);
// A call to either fake takes its time.
void passTime(const std::string& call);
const DeviceTable& fakeDeviceTable();

// What both fakes were asked to do, in order: "encode", "GroupStart", ... without questions.
std::vector<std::string>& timeline();

}  // namespace cinch::test
