#include "kernels/host/host_codec.h"

#include <cfenv>

#include "kernels/core/reference_codec.h"
#include "kernels/host/compilations.h"
#include "kernels/host/probe.h"
#include "kernels/host/sum.h"
#include "kernels/host/tally.h"

namespace cinch::host {
namespace {

// Default rounding and no flushing of subnormal numbers, whatever the thread's program has set.
class FloatEnvironment {
 public:
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

template <auto function, class Launch>
void withFloatEnvironment(const Launch& launch) {
  const FloatEnvironment environment;
  function(launch);
}

template <auto encodeShards, auto reduceShard, auto decodeShards>
HostCodec codecOf(const char* name) {
  return {name,
          withFloatEnvironment<encodeShards, EncodeLaunch>,
          withFloatEnvironment<reduceShard, ReduceLaunch>,
          withFloatEnvironment<decodeShards, DecodeLaunch>,
          withFloatEnvironment<probeInput, ProbeLaunch>,
          withFloatEnvironment<tallyTiles, TallyLaunch>,
          withFloatEnvironment<sumParts, SumLaunch>};
}

#define CINCH_HOST_CODEC(variant) \
  codecOf<variant::encodeShards, variant::reduceShard, variant::decodeShards>(#variant)

// A fixed array: usable until the process is gone.
struct CodecList {
  HostCodec codecs[4];
  size_t count = 0;

  void add(const HostCodec& codec) { codecs[count++] = codec; }
};

CodecList supportedCodecs() {
  CodecList list{};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    list.add(CINCH_HOST_CODEC(avx512));
  if (__builtin_cpu_supports("avx2")) list.add(CINCH_HOST_CODEC(avx2));
#endif
  list.add(CINCH_HOST_CODEC(baseline));
  list.add(CINCH_HOST_CODEC(reference));
  return list;
}

}  // namespace

std::span<const HostCodec> hostCodecs() {
  static const CodecList list = supportedCodecs();
  return {list.codecs, list.count};
}

const HostCodec& fastestHostCodec() {
  return hostCodecs().front();
}

const HostCodec* findHostCodec(std::string_view name) {
  for (const HostCodec& codec : hostCodecs())
    if (name == codec.name) return &codec;
  return nullptr;
}

}  // namespace cinch::host
