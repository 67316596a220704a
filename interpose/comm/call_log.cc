#include "interpose/comm/call_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/log.h"
#include "common/param.h"
#include "interpose/comm/background.h"
#include "interpose/policy/signature.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

// A line waits no longer for its call or its samples.
constexpr std::chrono::seconds kPatience{60};

// Values of a pool's samples: input and output. A step of a large model makes some hundred calls,
// which may all be on their way.
constexpr uint32_t kSamples = 512;
constexpr uint32_t kSampleBytes = 2 * ValueSample::kValues * 8;
constexpr uint32_t kMessages = 32;
constexpr uint32_t kMessageBytes = 32 << 10;

// Smaller buffers hold figures, not gradients.
constexpr uint64_t kFewestValues = 1024;

bool isSampledType(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32 || type == ncclFloat64;
}

bool isMessageType(ncclDataType_t type) {
  return type == ncclInt32 || type == ncclInt64;
}

bool isMessage(const CallRecord& call, const DeviceValues& output) {
  return (call.kind == "Broadcast" || call.kind == "AllGather") && isMessageType(output.type) &&
         output.count > 0 && output.count <= kMessageBytes / bytesOf(output.type);
}

bool isSampled(const DeviceValues& input, const DeviceValues& output) {
  const uint64_t most = std::max(input.count, output.count);
  return isSampledType(input.type) && most >= kFewestValues && most <= kMaxCount;
}

// What is captured must not be added to. An error: another stream captures, and this one, the null
// stream, cannot be used.
bool isCapturing(const CallPlace& place, uint64_t& id) {
  const CurrentDevice current(*place.device, place.cudaDevice);
  return place.device->captureId(place.stream, &id) != 0 || id != 0;
}

struct OpenCalls {
  int depth = 0;
  uint64_t group = 0;
  std::vector<CallLog::Handle> calls;
};
thread_local OpenCalls openCalls;

CallLog* openLog() {
  const Params& params = processParams().params;
  const std::string path = callLogPath(params);
  if (path.empty() || params.mode == Mode::off) return nullptr;
  auto log = std::make_unique<CallLog>(path + ".calls.jsonl");
  if (const auto opened = log->open(); !opened.ok()) {
    CINCH_WARN("STATS", "%s", opened.error().message.c_str());
    return nullptr;
  }
  std::atexit([] {
    if (CallLog* const own = CallLog::instance()) own->finish();
  });
  // Never destroyed: calls are made until the process ends.
  return log.release();
}

}  // namespace

std::string formatCall(const CallRecord& call) {
  using Json = nlohmann::ordered_json;
  Json line = {{"call", call.ordinal},  {"time", call.time},       {"comm", call.communicator},
               {"rank", call.rank},     {"ranks", call.nRanks},    {"kind", call.kind},
               {"op", call.op},         {"type", call.type},       {"count", call.count},
               {"root", call.root},     {"send", call.send},       {"recv", call.recv},
               {"stream", call.stream}, {"group", call.group},     {"captured", call.isCaptured},
               {"thread", call.thread}, {"outcome", call.outcome}, {"result", call.result}};
  const auto add = [&line](const char* name, const SampledValues& values) {
    if (!isEmpty(values)) std::visit([&](const auto& all) { line[name] = all; }, values);
  };
  add("input", call.input);
  add("output", call.output);
  // The name of a thread may be no UTF-8.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

const std::string& threadName() {
  thread_local const std::string name = [] {
    if (getpid() == syscall(SYS_gettid)) return std::string("main");
    char text[16] = {};
    return std::string(pthread_getname_np(pthread_self(), text, sizeof text) == 0 ? text : "");
  }();
  return name;
}

CallLog* CallLog::instance() {
  static CallLog* const log = openLog();
  return log != nullptr && log->process_ == getpid() ? log : nullptr;
}

Result<void> CallLog::open() {
  // Ranks may share a path against what the documentation says; appended lines stay whole.
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    return errorf(Status::systemError, "cannot write %s: %s (CINCH_CALL_LOG says where calls go)",
                  path_.c_str(), strerror(errno));
  process_ = getpid();
  return {};
}

CallLog::Handle CallLog::begin(CallRecord call, const CallPlace& place, const DeviceValues& input,
                               const DeviceValues& output) {
  auto entry = std::make_shared<Entry>();
  entry->begun = Clock::now();
  call.time = std::chrono::duration<double, std::micro>(entry->begun.time_since_epoch()).count();
  call.thread = threadName();
  call.group = openCalls.group;
  entry->place = place;
  entry->output = output;
  entry->isMessage = isMessage(call, output);
  uint64_t captureId = 0;
  const bool mayCopy = place.device != nullptr && !isCapturing(place, captureId);
  call.isCaptured = captureId != 0;
  {
    const std::lock_guard lock(mutex_);
    call.ordinal = ++nCalls_;
    entry->call = std::move(call);
    pending_.push_back(entry);
  }
  if (mayCopy && (entry->isMessage || isSampled(input, output))) takeSample(*entry, input);
  return entry;
}

// No lock is held while something is asked of the device: it may wait for calls of other threads.
void CallLog::takeSample(Entry& entry, const DeviceValues& input) {
  SamplePool* const pool = poolFor(entry.place, entry.isMessage);
  if (pool == nullptr) return;
  ValueSample* sample = nullptr;
  {
    const std::lock_guard lock(mutex_);
    sample = pool->take();
  }
  if (sample == nullptr) return;
  if (!entry.isMessage) {
    const CurrentDevice current(*entry.place.device, entry.place.cudaDevice);
    sample->copyInput(input, entry.place.stream);
  }
  const std::lock_guard lock(mutex_);
  entry.pool = pool;
  entry.sample = sample;
}

// Made at a device's first call: NCCL allocates then, too.
SamplePool* CallLog::poolFor(const CallPlace& place, bool isMessage) {
  const std::pair key(place.cudaDevice, isMessage);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = pools_.find(key); found != pools_.end()) return found->second.get();
  }
  const RelaxedCapture relaxed(*place.device);
  const CurrentDevice current(*place.device, place.cudaDevice);
  auto made = isMessage ? SamplePool::make(*place.device, kMessages, kMessageBytes)
                        : SamplePool::make(*place.device, kSamples, kSampleBytes);
  if (!made.ok())
    CINCH_WARN("STATS", "CINCH_CALL_LOG: calls on device %d are logged without values: %s",
               place.cudaDevice, made.error().message.c_str());
  const std::lock_guard lock(mutex_);
  return pools_.emplace(key, made.ok() ? std::move(made.value()) : nullptr).first->second.get();
}

void CallLog::end(const Handle& entry, ncclResult_t result, const char* outcome) {
  {
    const std::lock_guard lock(mutex_);
    entry->call.outcome = outcome;
    entry->call.result = result;
  }
  if (openCalls.depth > 0)
    openCalls.calls.push_back(entry);
  else
    close(entry, result);
  collectLater();
}

// Where NCCL has not launched the call yet, nobody knows when its output is there.
void CallLog::close(const Handle& entry, ncclResult_t result) {
  if (ValueSample* const sample = entry->sample; sample != nullptr) {
    const CallPlace& place = entry->place;
    const CurrentDevice current(*place.device, place.cudaDevice);
    if (result == ncclSuccess && entry->isMessage)
      sample->copyMessage(entry->output, place.stream);
    else if (result == ncclSuccess)
      sample->copyOutput(entry->output, place.stream);
    sample->close(place.stream);
  }
  const std::lock_guard lock(mutex_);
  entry->isClosed = true;
}

void CallLog::groupStart() {
  if (openCalls.depth++ > 0) return;
  const std::lock_guard lock(mutex_);
  openCalls.group = ++nGroups_;
}

// The calls of a group share its fate.
void CallLog::groupEnd(ncclResult_t result) {
  if (openCalls.depth == 0 || --openCalls.depth > 0) return;
  openCalls.group = 0;
  for (const Handle& entry : std::exchange(openCalls.calls, {})) {
    {
      const std::lock_guard lock(mutex_);
      if (entry->call.result == ncclSuccess) entry->call.result = result;
    }
    close(entry, static_cast<ncclResult_t>(entry->call.result));
  }
  collectLater();
}

bool CallLog::isReady(const Entry& entry, Clock::time_point now) const {
  const bool isDone = entry.isClosed && (entry.sample == nullptr || entry.sample->hasArrived());
  return isDone || now > entry.begun + kPatience;
}

std::string CallLog::lineOf(Entry& entry) {
  if (entry.isClosed && entry.sample != nullptr && entry.sample->hasArrived()) {
    entry.call.input = entry.sample->input();
    entry.call.output = entry.sample->output();
    // Others are never used again: nobody knows when the device will write to them.
    entry.pool->giveBack(entry.sample);
  }
  return formatCall(entry.call);
}

void CallLog::writeReady() {
  std::string lines;
  for (const auto now = Clock::now(); !pending_.empty(); pending_.pop_front()) {
    if (!isReady(*pending_.front(), now)) break;
    lines += lineOf(*pending_.front());
  }
  write(lines);
}

void CallLog::collect() {
  const std::lock_guard lock(mutex_);
  writeReady();
}

// True where nothing is left to be done.
bool CallLog::collectInBackground() {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty() && pending_.front()->place.device != nullptr)
    useDevice(*pending_.front()->place.device, pending_.front()->place.cudaDevice);
  writeReady();
  isCollecting_ = !pending_.empty();
  return !isCollecting_;
}

// The device's runtime may be on its way out: it is asked nothing.
void CallLog::finish() {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (const Handle& entry : std::exchange(pending_, {})) lines += formatCall(entry->call);
  write(lines);
}

void CallLog::collectLater() {
  {
    const std::lock_guard lock(mutex_);
    writeReady();
    if (pending_.empty() || std::exchange(isCollecting_, true)) return;
  }
  if (runInBackground([this] { return collectInBackground(); })) return;
  const std::lock_guard lock(mutex_);
  isCollecting_ = false;
}

void CallLog::write(const std::string& lines) {
  for (size_t done = 0; file_ >= 0 && done < lines.size();) {
    const ssize_t written = ::write(file_, lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written >= 0) {
      done += static_cast<size_t>(written);
      continue;
    }
    CINCH_WARN("STATS", "cannot write %s: %s; the log of calls ends here", path_.c_str(),
               strerror(errno));
    ::close(file_);
    file_ = -1;
  }
}

}  // namespace cinch
