// The host codec made slower: every launch is followed by a sleep of SLOW_CODEC_NS nanoseconds for
// each value that it codes or decodes. It exports the same table, and lies beside a libcinch.so of
// its own (bench/schedule/overlap.py). A sleeping codec leaves the processor to the network, as a
// GPU does.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "kernels/device_table.h"
#include "kernels/host/runtime_symbols.h"

namespace {

using cinch::DecodeLaunch;
using cinch::DeviceTable;
using cinch::EncodeLaunch;
using cinch::ReduceLaunch;

const DeviceTable* real;
cinch::host::RuntimeSymbols runtime;

double nanosecondsPerValue() {
  static const char* const text = std::getenv("SLOW_CODEC_NS");
  static const double value = text == nullptr ? 0 : std::atof(text);
  return value;
}

void sleepFor(void* nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<uintptr_t>(nanoseconds)));
}

int dawdle(int error, uint64_t nValues, void* stream) {
  if (error != 0) return error;
  const auto nanoseconds =
      static_cast<uintptr_t>(static_cast<double>(nValues) * nanosecondsPerValue());
  return runtime.cudaLaunchHostFunc(stream, sleepFor, reinterpret_cast<void*>(nanoseconds));
}

// Whoever reads a mixed layout on the host can do so: the emulator's device memory is the host's.
uint64_t valuesOf(const cinch::wire::ShardLayout& layout, int64_t skipped = -1) {
  uint64_t sum = 0;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard)
    if (static_cast<int64_t>(shard) != skipped) sum += layout.shardElems(shard);
  return sum;
}

int encode(const EncodeLaunch* launch, void* stream) {
  return dawdle(real->encode(launch, stream), valuesOf(launch->call.layout, launch->skipShard),
                stream);
}

int reduce(const ReduceLaunch* launch, void* stream) {
  const cinch::wire::ShardLayout& layout = launch->call.layout;
  return dawdle(real->reduce(launch, stream), layout.shardElems(launch->shard) * launch->nParts(),
                stream);
}

int decode(const DecodeLaunch* launch, void* stream) {
  return dawdle(real->decode(launch, stream), valuesOf(launch->call.layout), stream);
}

int initialise() {
  cinch::host::findRuntimeSymbols(runtime);
  return real->initialise();
}

DeviceTable slowTable() {
  void* const library = dlopen(SLOW_CODEC_REAL, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  real = static_cast<const DeviceTable*>(dlsym(library, cinch::kDeviceTableSymbol));
  if (real == nullptr) return {};
  DeviceTable slow = *real;
  slow.initialise = initialise;
  slow.encode = encode;
  slow.reduce = reduce;
  slow.decode = decode;
  return slow;
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] DeviceTable cinchDeviceTable_v1 = slowTable();
}
