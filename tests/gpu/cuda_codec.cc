#include "tests/gpu/cuda_codec.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/core/residual_layout.h"
#include "tests/unit/kernels/bystander.h"

namespace cinch::test {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr uint8_t kGuard = 0x5a;

const DeviceTable& table() {
  std::string reason;
  return *cudaTable(&reason);
}

void expectSuccess(int error, const char* what) {
  EXPECT_EQ(error, 0) << what << ": " << table().errorName(error);
}

// Device memory with a copy of host memory, at the same offset from a 64-byte boundary; none where
// there is no host memory.
class DeviceCopy {
 public:
  DeviceCopy(const void* host, size_t nBytes)
      : exists_(host),
        nBytes_(host ? nBytes : 0),
        begin_(kGuardBytes + reinterpret_cast<uintptr_t>(host) % 64),
        image_(begin_ + nBytes_ + kGuardBytes, kGuard) {
    if (!exists_) return;
    if (nBytes_) std::memcpy(&image_[begin_], host, nBytes_);
    expectSuccess(table().allocate(&memory_dev_, image_.size()), "allocate");
    // Whatever is launched comes behind it on the same stream.
    copy(memory_dev_, image_.data());
  }
  ~DeviceCopy() {
    if (exists_) expectSuccess(table().release(memory_dev_), "release");
  }
  DeviceCopy(const DeviceCopy&) = delete;

  // Null where the host memory is.
  uint8_t* get() const { return exists_ ? static_cast<uint8_t*>(memory_dev_) + begin_ : nullptr; }

  // Copies the content back to the host memory that it came from, or to its like.
  void fetch(void* host) {
    if (!exists_) return;
    copy(image_.data(), memory_dev_);
    expectSuccess(table().streamSynchronize(nullptr), "copy");
    if (nBytes_) std::memcpy(host, &image_[begin_], nBytes_);
    const auto isGuard = [](uint8_t byte) { return byte == kGuard; };
    const auto begin = image_.begin() + static_cast<ptrdiff_t>(begin_);
    EXPECT_TRUE(std::all_of(image_.begin(), begin, isGuard)) << "written in front of a buffer";
    EXPECT_TRUE(std::all_of(begin + static_cast<ptrdiff_t>(nBytes_), image_.end(), isGuard))
        << "written behind a buffer";
  }

 private:
  void copy(void* to, const void* from) {
    expectSuccess(table().copyAsync(to, from, image_.size(), nullptr), "copy");
  }

  bool exists_;
  size_t nBytes_, begin_;
  std::vector<uint8_t> image_;
  void* memory_dev_ = nullptr;
};

uint32_t partsOf(const wire::ShardLayout& layout) {
  return layout.nShards * layout.nChunks;
}

uint64_t piecesOf(const wire::ShardLayout& layout) {
  if (!layout.isMixed()) return 0;
  const wire::MixedShard& last = layout.mixedShards[partsOf(layout) - 1];
  return uint64_t{last.firstPiece} + last.nPieces;
}

// A layout whose tables, if it has any, are on the device.
class DeviceLayout {
 public:
  explicit DeviceLayout(const wire::ShardLayout& host)
      : layout_(host),
        shards_(host.mixedShards, partsOf(host) * sizeof(wire::MixedShard)),
        pieces_(host.mixedPieces, piecesOf(host) * sizeof(wire::Piece)) {
    layout_.mixedShards = reinterpret_cast<const wire::MixedShard*>(shards_.get());
    layout_.mixedPieces = reinterpret_cast<const wire::Piece*>(pieces_.get());
  }

  const wire::ShardLayout& get() const { return layout_; }

 private:
  wire::ShardLayout layout_;
  DeviceCopy shards_, pieces_;
};

// Layout, state and fault word of a call, on the device.
class DeviceCall {
 public:
  explicit DeviceCall(const CallContext& host)
      : host_(host), layout_(host.layout), state_(host.state, sizeof(SlotState)), call_(host) {
    call_.fault = faultWord();
    *call_.fault = *host.fault;
    call_.layout = layout_.get();
    call_.state = reinterpret_cast<SlotState*>(state_.get());
  }
  ~DeviceCall() {
    state_.fetch(host_.state);
    *host_.fault = *call_.fault;
  }
  DeviceCall(const DeviceCall&) = delete;

  const CallContext& get() const { return call_; }

 private:
  // One for all: there is one call at a time, and pinned memory takes long to get.
  static uint32_t* faultWord() {
    static void* const word = [] {
      void* fault = nullptr;
      expectSuccess(table().allocateHost(&fault, sizeof(uint32_t)), "allocateHost");
      return fault;
    }();
    return static_cast<uint32_t*>(word);
  }

  CallContext host_;
  DeviceLayout layout_;
  DeviceCopy state_;
  CallContext call_;
};

// The input factor of a launch; its scalar, if any, on the device.
class DeviceFactor {
 public:
  DeviceFactor(const InputFactor& host, ElementType type)
      : value_(host.value), scalar_(host.device, elementBytes(type)) {}

  InputFactor get() const { return {value_, scalar_.get()}; }

 private:
  float value_;
  DeviceCopy scalar_;
};

template <class Launch>
void launchAndWait(int (*function)(const Launch*, void*), const Launch& launch) {
  expectSuccess(function(&launch, nullptr), "launch");
  expectSuccess(table().streamSynchronize(nullptr), "kernel");
}

// Whether launches of the codec go together with others'.
bool haveCompany = false;

template <class Launch>
using CodecFunction = int (*)(const Launch*, uint32_t, void*);

template <class Launch>
void launchAll(CodecFunction<Launch> function, std::span<const Launch> launches) {
  expectSuccess(function(launches.data(), static_cast<uint32_t>(launches.size()), nullptr),
                "launch");
  expectSuccess(table().streamSynchronize(nullptr), "kernel");
}

template <class Launch>
void launchAmongOthers(CodecFunction<Launch> function, const Launch& launch) {
  static Bystander call;
  call = {};
  DeviceCopy before(&call, sizeof call), behind(&call, sizeof call);
  Launch launches[3] = {launch, launch, launch};
  setLaunch(reinterpret_cast<Bystander*>(before.get()), launches[0]);
  setLaunch(reinterpret_cast<Bystander*>(behind.get()), launches[2]);
  launchAll(function, std::span<const Launch>(launches));
  for (DeviceCopy* each : {&before, &behind}) {
    each->fetch(&call);
    EXPECT_TRUE(isDone(call, launch)) << "a call beside is not done";
  }
}

template <class Launch>
void launchAndWait(CodecFunction<Launch> function, const Launch& launch) {
  if (haveCompany)
    launchAmongOthers(function, launch);
  else
    launchAll(function, std::span(&launch, 1));
}

template <auto function, class Launch>
void amongOthers(const Launch& launch) {
  haveCompany = true;
  function(launch);
  haveCompany = false;
}

void encodeShards(const EncodeLaunch& launch) {
  const wire::ShardLayout& layout = launch.call.layout;
  const DeviceCall call(launch.call);
  const DeviceCopy input(launch.input, layout.count * elementBytes(launch.call.type));
  const DeviceFactor factor(launch.inputFactor, launch.call.type);
  DeviceCopy residual(launch.residual, core::residualBytes(launch.rule.residualType, layout));
  DeviceCopy output(launch.output, layout.totalBytes());

  EncodeLaunch onDevice = launch;
  onDevice.call = call.get();
  onDevice.input = input.get();
  onDevice.inputFactor = factor.get();
  onDevice.residual = residual.get();
  onDevice.output = output.get();
  launchAndWait(table().encode, onDevice);
  residual.fetch(launch.residual);
  output.fetch(launch.output);
}

void reduceShard(const ReduceLaunch& launch) {
  const wire::ShardLayout& layout = launch.call.layout;
  const ResidualType residualType = launch.rule.residualType;
  const uint64_t count = layout.shardElems(launch.shard);
  const uint64_t nValueBytes = count * elementBytes(launch.call.type);
  const bool inPlace = launch.values && launch.values == launch.ownInput;
  const DeviceCall call(launch.call);
  const DeviceCopy peers(launch.peers, layout.totalBytes());
  const DeviceCopy ownCodes(launch.ownCodes, layout.strideBytes());
  const DeviceFactor factor(launch.inputFactor, launch.call.type);
  DeviceCopy own(launch.ownInput, nValueBytes), values(launch.values, nValueBytes);
  DeviceCopy ownResidual(launch.ownResidual, core::residualBytes(residualType, layout));
  DeviceCopy residual(launch.residual, core::residualBytes(residualType, count));
  DeviceCopy output(launch.output, layout.strideBytes());

  ReduceLaunch onDevice = launch;
  onDevice.call = call.get();
  onDevice.peers = peers.get();
  onDevice.ownInput = own.get();
  onDevice.ownCodes = ownCodes.get();
  onDevice.inputFactor = factor.get();
  onDevice.ownResidual = ownResidual.get();
  onDevice.residual = residual.get();
  onDevice.output = output.get();
  onDevice.values = inPlace ? own.get() : values.get();
  launchAndWait(table().reduce, onDevice);
  ownResidual.fetch(launch.ownResidual);
  residual.fetch(launch.residual);
  output.fetch(launch.output);
  (inPlace ? own : values).fetch(launch.values);
}

void decodeShards(const DecodeLaunch& launch) {
  const wire::ShardLayout& layout = launch.call.layout;
  const DeviceCall call(launch.call);
  const DeviceCopy input(launch.input, layout.totalBytes());
  DeviceCopy output(launch.output, layout.count * elementBytes(launch.call.type));

  DecodeLaunch onDevice = launch;
  onDevice.call = call.get();
  onDevice.input = input.get();
  onDevice.output = output.get();
  launchAndWait(table().decode, onDevice);
  output.fetch(launch.output);
}

void probeInput(const ProbeLaunch& launch) {
  const wire::ShardLayout& layout = launch.call.layout;
  const DeviceCall call(launch.call);
  const DeviceCopy input(launch.input, layout.count * elementBytes(launch.call.type));
  const DeviceFactor factor(launch.inputFactor, launch.call.type);
  const DeviceCopy residual(launch.residual, core::residualBytes(launch.residualType, layout));
  DeviceCopy probe(launch.probe, sizeof(ProbeState));

  ProbeLaunch onDevice = launch;
  onDevice.call = call.get();
  onDevice.input = input.get();
  onDevice.inputFactor = factor.get();
  onDevice.residual = residual.get();
  onDevice.probe = reinterpret_cast<ProbeState*>(probe.get());
  launchAndWait(table().probe, onDevice);
  probe.fetch(launch.probe);
}

void tallyTiles(const TallyLaunch& launch) {
  const uint64_t nBytes = launch.count * elementBytes(launch.type);
  const DeviceCopy values(launch.values, nBytes), others(launch.others, nBytes);
  const DeviceFactor factor(launch.factor, launch.type);
  DeviceCopy tallies(launch.tallies, wire::ShardLayout::tilesOf(launch.count) * sizeof(TileTally));

  TallyLaunch onDevice = launch;
  onDevice.values = values.get();
  onDevice.others = others.get();
  onDevice.factor = factor.get();
  onDevice.tallies = reinterpret_cast<TileTally*>(tallies.get());
  launchAndWait(table().tally, onDevice);
  tallies.fetch(launch.tallies);
}

void sumParts(const SumLaunch& launch) {
  const uint64_t nBytes = launch.count * elementBytes(launch.type);
  const DeviceCopy own(launch.own, nBytes);
  const DeviceCopy others(
      launch.others, launch.nParts > 1 ? (launch.nParts - 2) * launch.strideBytes + nBytes : 0);
  DeviceCopy sum(launch.sum, launch.count * sizeof(float));

  SumLaunch onDevice = launch;
  onDevice.own = own.get();
  onDevice.others = others.get();
  onDevice.sum = reinterpret_cast<float*>(sum.get());
  launchAndWait(table().sum, onDevice);
  sum.fetch(launch.sum);
}

}  // namespace

const DeviceTable* cudaTable(std::string* reason) {
  static void* const library = dlopen(CINCH_CODEC_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  static const auto* const loaded =
      static_cast<const DeviceTable*>(dlsym(library, kDeviceTableSymbol));
  if (!loaded) throw std::runtime_error(dlerror());
  static const int error = [] {
    SmShare share;
    const int notThere = loaded->initialise();
    return notThere ? notThere : loaded->loadKernels(100, &share);
  }();
  if (error) *reason = std::string("no CUDA device for its kernels: ") + loaded->errorName(error);
  return error ? nullptr : loaded;
}

const host::HostCodec kCudaCodec = {"cuda",     encodeShards, reduceShard, decodeShards,
                                    probeInput, tallyTiles,   sumParts};
const host::HostCodec kCudaBatchCodec = {"cuda batch",
                                         amongOthers<encodeShards, EncodeLaunch>,
                                         amongOthers<reduceShard, ReduceLaunch>,
                                         amongOthers<decodeShards, DecodeLaunch>,
                                         probeInput,
                                         tallyTiles,
                                         sumParts};

}  // namespace cinch::test
