// The one table through which the interposer reaches a device: memory, events, copies, capture
// state and codec launches. libcinch-codec-cuda.so fills it from its own static CUDA runtime,
// libcinch-codec-host.so from the emulator's symbols and the CPU codec. The interposer names no
// CUDA symbol itself.
//
// Every function returns 0 or a cudaError_t (errorName() spells it). Launches are asynchronous:
// they are enqueued on `stream` (a cudaStream_t), never wait, never allocate device memory, and
// copy their arguments. Device pointers end in `_dev` where the difference matters; every buffer
// in a launch is device memory unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/wire/wire_format.h"

namespace cinch {

enum class ElementType : uint8_t { fp32, fp16, bf16 };

// How residuals are kept. int8: as encoded tiles of the codec "q8", 1056 bytes for 1024 values,
// tile by tile of the layout.
enum class ResidualType : uint8_t { fp32, bf16, int8 };

// How a value between two codes is rounded.
enum class Rounding : uint8_t {
  nearest,
  stochastic,  // up or down at random, so that the expected value is the value; codecs that cannot
               // dither round to nearest all the same
};

constexpr uint32_t elementBytes(ElementType type) {
  return type == ElementType::fp32 ? 4 : 2;
}

// Device-side memory of one slot, zero-initialised except `ordinal`, which starts at 1.
// Every launch of a call reads `ordinal`; the last one (the last chunk's decode, or reduce into
// values) advances it when it is done.
struct SlotState {
  uint32_t ordinal;        // of the running call
  uint32_t poisonOrdinal;  // the call with this ordinal ignores and overwrites its residuals
  uint32_t ticket;         // private to the launch that ends a call
  uint32_t nonFinite;      // the same, and to those of the call's other chunks
  double error[2];         // stage 1, stage 2: sum of (p - decoded)^2 over measured calls
  double power[2];         // stage 1, stage 2: sum of p^2 over measured calls
};

// Why a peer's bytes were refused: bits of the word at `fault`.
enum FaultBits : uint32_t {
  kFaultMagic = 1,
  kFaultVersion = 2,
  kFaultCodec = 4,
  kFaultPlan = 8,
  kFaultSlot = 16,
  kFaultOrdinal = 32,
};

// What every launch of one call shares. A call may be made in chunks (wire::ShardLayout), each by
// launches of its own: `layout` is the chunk's, and so are the sizes of encoded buffers. Values and
// the residual of stage 1 are the whole bucket's, those of a single shard begin with the chunk.
struct CallContext {
  wire::ShardLayout layout;
  ElementType type;
  uint32_t planId;
  uint32_t slot;
  SlotState* state;      // device
  uint32_t* fault;       // host memory that the device can write; bits are OR-ed in
  bool endsCall = true;  // false: a decode, or a reduce into values, that other chunks' follow
};

// What the caller's own values are multiplied by, in fp32, before anything else: the scalar of an
// ncclRedOpCreatePreMulSum. 1 changes no result.
struct InputFactor {
  float value = 1.0f;
  const void* device = nullptr;  // instead of `value`: one value of the call's type in device
                                 // memory, read when the launch runs
};

// What stages 1 and 2 share besides. With x a value, e its residual and d what the code of
// p = x + gain * e decodes to, the residual becomes decay * e + (x - d).
struct CodingRule {
  float gain = 0.0f;
  float decay = 1.0f;
  ResidualType residualType = ResidualType::fp32;
  Rounding rounding = Rounding::nearest;
  uint64_t seed = 0;     // of stochastic rounding; differs by rank
  bool measure = false;  // add to the stage's state->error and state->power
};

// Stage 1. Codes the values times the input factor of every shard but `skipShard`, with feedback.
// Writes header and tiles of shard i at output + i * strideBytes().
//
// AllGather codes one shard: its layout is ShardLayout::fixed(shardElems, 1, codec) and `output`
// the shard's place in the gathered buffer. Rounded to nearest, the bytes are those that the whole
// bucket's layout gives.
struct EncodeLaunch {
  CallContext call;
  const void* input;  // call.layout.count values of call.type
  InputFactor inputFactor = {};
  void* residual;  // of the whole bucket, or null: no error feedback
  CodingRule rule = {};
  uint8_t* output;         // totalBytes()
  int32_t skipShard = -1;  // the caller's own shard, which is never coded; -1: none
};

// Stage 2, on the shard that this rank owns: decode the peers' codes, add the own part exactly
// (times the input factor, with its residual in full, which becomes 0), in rank order, in fp32;
// multiply by `factor`. The result is one of
//   output:  coded, with feedback. A refused peer makes marked blocks.
//   values:  for ReduceScatter, rounded once to call.type; NaN where a peer was refused. Ends the
//            call. Nothing is coded, so `residual` and `rule` mean nothing but for ownResidual.
// Two ranks that exchange whole buckets (one shard) sum up codes only, into values: the own part is
// taken as it was sent, so that both get the same bytes, which the order of two parts cannot
// change.
struct ReduceLaunch {
  CallContext call;
  uint32_t shard;        // the owned one; its index is the caller's rank
  const uint8_t* peers;  // nShards encoded copies of this shard, strideBytes() apart, of which the
                         // own is not read; with ownCodes, one copy
  const void* ownInput;  // shardElems(shard) values of call.type: the caller's own part
  const uint8_t* ownCodes = nullptr;  // or the encoded shard instead, beside one peer's; then
                                      // inputFactor and ownResidual mean nothing
  InputFactor inputFactor = {};
  void* ownResidual;  // the whole bucket's stage 1 residual, or null
  void* residual;     // stage 2 residual of the shard, or null
  CodingRule rule = {};
  float factor;            // 1 for Sum, 1/ranks for Avg
  uint8_t* output;         // strideBytes(); null where `values` is not
  void* values = nullptr;  // shardElems(shard) values of call.type; may be ownInput

  // Of the sum.
  CINCH_HD constexpr uint32_t nParts() const { return ownCodes ? 2 : call.layout.nShards; }
  CINCH_HD constexpr uint32_t ownPart() const { return ownCodes ? 1 : shard; }
};

// Last stage: all shards -> values. A shard whose header is refused decodes to NaN.
struct DecodeLaunch {
  CallContext call;
  const uint8_t* input;  // totalBytes()
  void* output;          // count values of call.type
};

// What tells whose values lie in a buffer: the powers of tiles that lie evenly spread in it, which
// change little from a step to the next. Device memory of one residual, zero-initialised.
inline constexpr uint32_t kMaxProbes = 64;
// Sums of squares over a probed tile.
struct ProbePower {
  float input;
  float residual;
};
struct ProbeState {
  uint32_t nCalls;           // that were probed
  uint32_t nStrangers;       // of those, calls whose profile was another one's
  uint32_t nOverflows;       // and calls whose residual was out of proportion
  float levels[kMaxProbes];  // log2 of each probe's power at the last call; -inf: all zero
  // Private to a launch, which may spread its tiles over the device.
  uint32_t ticket;
  ProbePower powers[kMaxProbes];
};

// Before stage 1 of a call with feedback: compares the input's profile with that of the last call
// and weighs the residual against it (core/probe.h says how). Where either is out of the ordinary
// the running call is poisoned: it takes its residuals as 0 and overwrites them. A safety net that
// reads at most kMaxProbes tiles, and that only the local residual depends on.
struct ProbeLaunch {
  CallContext call;
  const void* input;  // call.layout.count values of call.type
  InputFactor inputFactor = {};
  const void* residual;  // of the whole bucket
  ResidualType residualType = ResidualType::fp32;
  ProbeState* probe;  // device
};

// Sums over one tile of 1024 values v, beside as many values o; the last tile may be partial. What
// is not finite makes sums that are not finite.
struct TileTally {
  float power;          // of v^2
  float squaredRanges;  // of (largest - smallest v)^2 of its blocks of 128 values
  float otherPower;     // of o^2
  float product;        // of v o
  float error;          // of (v - o)^2
};

// Statistics of a buffer, alone or beside another one. No launch of a call: it changes no state.
struct TallyLaunch {
  const void* values;  // `count` of `type`, times `factor`
  const void* others;  // as many, or null: the sums that need them are 0
  uint64_t count;
  ElementType type;
  InputFactor factor = {};
  TileTally* tallies;  // ShardLayout::tilesOf(count)
};

// Adds up buffers of equal length, in order, in fp32: the caller's own, which is in place
// `ownPosition`, and the others, which follow one another. What is no number becomes the one NaN.
// No launch of a call: it changes no state.
struct SumLaunch {
  const void* own;       // `count` of `type`
  const void* others;    // nParts - 1 buffers of as many
  uint64_t strideBytes;  // from one of the others to the next
  uint32_t nParts;
  uint32_t ownPosition;
  uint64_t count;
  ElementType type;
  float* sum;  // count; overlaps none of the parts
};

// The codec's kernels have no more CTAs than fit on so many of a device's SMs; 0 of 0 where they
// run on none. CUDA may spread these over more of them.
struct SmShare {
  uint32_t nUsed = 0;
  uint32_t nThere = 0;
};

inline constexpr uint32_t kDeviceTableVersion = 14;
inline constexpr int kNotReady = 600;       // cudaErrorNotReady
inline constexpr int kNotSupported = 801;   // cudaErrorNotSupported
inline constexpr int kNoMachineCode = 209;  // cudaErrorNoKernelImageForDevice
inline constexpr const char* kDeviceTableSymbol = "cinchDeviceTable_v1";
// Exported by the emulator's libnccl.so.2 and libcudart.so.13, and by nothing else.
inline constexpr const char* kEmulatorMarkerSymbol = "cinchEmulatorMarker";

struct DeviceTable {
  uint32_t version;  // kDeviceTableVersion
  uint32_t size;     // sizeof(DeviceTable)
  const char* name;  // "host avx512", "cuda 13.0", for the log
  // How many values the codec takes through a call while the host enqueues the stages of a chunk
  // and they begin: smaller chunks would cost more than they hide. The same on all ranks of a job:
  // who changes it raises kBehaviour (interpose/policy/policy.cc).
  uint64_t chunkValues;

  // Binds the library to the process's runtime; called once, before anything else.
  int (*initialise)();
  const char* (*errorName)(int error);

  int (*getDevice)(int* device);
  int (*setDevice)(int device);
  // The PCI bus id of the current device, as "0000:00:00.0".
  int (*pciBusId)(char* text, int size);
  // Its name and compute capability, as "Tesla V100-SXM2-16GB (compute capability 7.0)".
  int (*deviceName)(char* text, int size);
  // Loads all kernels onto the current device, so that no launch has to. CUDA loads a kernel when
  // it is first used, and that waits for all that runs on the device: for ever, where it waits for
  // what this rank has still to enqueue (CUDA programming guide, lazy loading). From then on none
  // of them has more CTAs than fit on `smPercent` (1 to 100) of the device's SMs, but one for each
  // shard and a probe's few. Once for each device; after that, the same answer at once.
  // kNoMachineCode: the library has none for this device. The thread's capture mode must be
  // relaxed.
  int (*loadKernels)(uint32_t smPercent, SmShare* share);
  // How many NVLink connections of the current device are in use; an error where nobody can say.
  // Takes its time.
  int (*nvlinks)(int* nActive);

  int (*allocate)(void** memory_dev, size_t nBytes);
  int (*release)(void* memory_dev);  // waits for all work of the device
  // Of the current device; what is free may be less by what CUDA keeps of memory that was given
  // back.
  int (*memoryInfo)(size_t* nFree, size_t* nTotal);
  // Memory that may be given back while the device works, for any stream and at once:
  // giveBack() waits for nothing, and what is on `stream` before it may still use the memory. A
  // device that cannot do that says kNotSupported. The thread's capture mode must be relaxed.
  int (*allocateReturnable)(void** memory_dev, size_t nBytes);
  int (*giveBack)(void* memory_dev, void* stream);
  // Host memory that the device can read and write at the same address.
  int (*allocateHost)(void** memory, size_t nBytes);
  int (*releaseHost)(void* memory);
  int (*copyAsync)(void* to, const void* from, size_t nBytes, void* stream);
  int (*clearAsync)(void* memory_dev, size_t nBytes, void* stream);

  // Makes fresh memory zero before it returns, without a trace in any stream or capture of the
  // program; the thread's capture mode must be relaxed. May wait for the device.
  int (*clearNow)(void* memory_dev, size_t nBytes);
  // Copies before it returns, likewise; neither side may be in use on the device.
  int (*copyNow)(void* to, const void* from, size_t nBytes);

  // The id of the capture that the stream is in; 0: it is not capturing. An invalidated capture
  // has one too: nothing may be enqueued on such a stream either.
  int (*captureId)(void* stream, uint64_t* id);
  int (*streamSynchronize)(void* stream);
  // On the current device; waits for no other stream by itself. What is on a stream that is
  // destroyed is done all the same.
  int (*streamCreate)(void** stream);
  int (*streamDestroy)(void* stream);
  // Sets the thread's capture mode to *mode and returns the old one there; 2 is "relaxed", in which
  // allocations do not break another thread's capture.
  int (*exchangeCaptureMode)(int* mode);

  int (*eventCreate)(void** event);  // no timing
  int (*timedEventCreate)(void** event);
  int (*eventDestroy)(void* event);
  // 0 when the work recorded last is done, kNotReady while it is not, else an error.
  int (*eventQuery)(void* event);
  int (*eventRecord)(void* event, void* stream);
  // Between two timed events that are done.
  int (*eventElapsed)(float* milliseconds, void* start, void* end);
  int (*streamWaitEvent)(void* stream, void* event);
  // The same in a capture: each launch of the graph records, or waits for what was recorded last,
  // so that the work of graphs and of streams is ordered with each other (cudaEventRecordExternal,
  // cudaEventWaitExternal).
  int (*eventRecordInGraph)(void* event, void* stream);
  int (*streamWaitEventInGraph)(void* stream, void* event);

  // A named range of the calling thread in profilers' timelines (NVTX), in the domain "NCCL".
  void (*rangePush)(const char* name);
  void (*rangePop)();

  // `n` launches of as many slots, which share nothing but the stream: in as few kernels as may be,
  // in any order. After an error some may have been enqueued.
  int (*encode)(const EncodeLaunch* launches, uint32_t n, void* stream);
  int (*reduce)(const ReduceLaunch* launches, uint32_t n, void* stream);
  int (*decode)(const DecodeLaunch* launches, uint32_t n, void* stream);

  int (*probe)(const ProbeLaunch* launch, void* stream);
  int (*tally)(const TallyLaunch* launch, void* stream);
  int (*sum)(const SumLaunch* launch, void* stream);
};

}  // namespace cinch
