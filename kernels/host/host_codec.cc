#include "kernels/host/host_codec.h"

#include <cfenv>

#include "kernels/core/reference_codec.h"
#include "kernels/host/shard_loops.h"

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

// One compilation of shard_loops.h: `flatten` pulls all of it into functions for this target alone,
// so that no code with wider instructions can end up in a function that others share.
#define CINCH_HOST_VARIANT(variant, ...)                                       \
  namespace variant {                                                          \
  [[__VA_ARGS__ gnu::flatten]] void encodeShards(const EncodeLaunch& launch) { \
    host::encodeShards(launch);                                                \
  }                                                                            \
  [[__VA_ARGS__ gnu::flatten]] void reduceShard(const ReduceLaunch& launch) {  \
    host::reduceShard(launch);                                                 \
  }                                                                            \
  [[__VA_ARGS__ gnu::flatten]] void decodeShards(const DecodeLaunch& launch) { \
    host::decodeShards(launch);                                                \
  }                                                                            \
  }

#define CINCH_HOST_CODEC(variant)                                          \
  HostCodec {                                                              \
#variant, withFloatEnvironment < variant::encodeShards, EncodeLaunch>, \
        withFloatEnvironment < variant::reduceShard, ReduceLaunch>,        \
        withFloatEnvironment < variant::decodeShards, DecodeLaunch>        \
  }

CINCH_HOST_VARIANT(baseline, )
#if defined(__x86_64__)
CINCH_HOST_VARIANT(avx2, gnu::target("avx2"), )
CINCH_HOST_VARIANT(avx512,
                   gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"), )
#endif

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
