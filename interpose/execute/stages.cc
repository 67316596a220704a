#include "interpose/execute/stages.h"

#include <algorithm>
#include <array>
#include <bit>

#include "common/log.h"
#include "interpose/execute/checkup.h"
#include "interpose/execute/trace.h"

namespace cinch {
namespace {

const DeviceTable& deviceOf(const BatchItem& item) {
  return *item.comm->resources.device;
}

// As long as what is returned lives.
CurrentDevice useDeviceOf(const BatchItem& item) {
  return CurrentDevice(deviceOf(item), item.comm->resources.cudaDevice);
}

bool isCaptured(const BatchItem& item) {
  return item.captureId != 0;
}

// Where the codec works: beside the caller's stream, if chunks are to overlap.
void* codecStreamOf(const BatchItem& item) {
  const bool overlaps = item.isAlone && !item.connectOnly && !isCaptured(item) &&
                        item.plan.nChunks() > 1 && item.comm->codecStream;
  return overlaps ? item.comm->codecStream.get() : item.call.stream;
}

bool isOverlapped(const BatchItem& item) {
  return codecStreamOf(item) != item.call.stream;
}

// The codec goes on behind what the caller's stream has by now.
Result<void> handToCodec(const BatchItem& item) {
  if (!isOverlapped(item)) return {};
  return item.comm->codecStream.order(item.call.stream, item.comm->codecStream.get());
}
// And the reverse.
Result<void> handToCaller(const BatchItem& item) {
  if (!isOverlapped(item)) return {};
  return item.comm->codecStream.order(item.comm->codecStream.get(), item.call.stream);
}

Result<void> awaitMessage(const BatchItem& item, CodecStream::Message message, uint32_t chunk) {
  if (!isOverlapped(item)) return {};
  const CodecStream& codecStream = item.comm->codecStream;
  return codecStream.await(message, chunk, codecStream.get());
}

Result<void> note(const BatchItem& item, CodecStream::Message message, uint32_t chunk) {
  if (!isOverlapped(item)) return {};
  return item.comm->codecStream.note(message, chunk, item.call.stream);
}

// Whether this rank codes any of it.
bool isCoded(const BatchItem& item) {
  return !item.connectOnly && !item.plan.isIdle();
}

// What stage 1 is given.
const void* inputOf(const BatchItem& item) {
  return hasLanes(item) ? laneSum(item) : item.call.send;
}

CallContext contextOf(const BatchItem& item) {
  const Slot& slot = *item.slot;
  return CallContext{.layout = item.plan.launchLayout,
                     .type = item.plan.inputType(),
                     .planId = item.plan.planId,
                     .slot = static_cast<uint32_t>(slot.identity),
                     .state = item.mode.isStateless() ? slot.statelessState() : slot.state(),
                     .fault = item.comm->resources.fault.as<uint32_t>()};
}

// No two chunks of a call are taken for each other, nor rotated or dithered alike.
uint32_t slotOfChunk(uint32_t slot, uint32_t chunk) {
  constexpr uint32_t kGoldenRatio = 0x9e3779b9;
  return slot + chunk * kGoldenRatio;
}

CallContext contextOf(const BatchItem& item, const ChunkPlan& part, uint32_t chunk) {
  CallContext context = contextOf(item);
  context.layout = part.launchLayout;
  context.slot = slotOfChunk(context.slot, chunk);
  context.endsCall = chunk + 1 == item.plan.nChunks();
  return context;
}

// The figures of captured calls could not be read back: nothing of the host runs when they do.
bool isMeasured(const BatchItem& item) {
  const auto every = static_cast<uint64_t>(processParams().params.measureEvery);
  return !isCaptured(item) && !item.mode.isStateless() &&
         (item.examined || item.slot->calls % every == 0);
}

CodingRule ruleOf(const BatchItem& item) {
  CodingRule rule = item.mode.isStateless() ? CodingRule{} : item.slot->rule;
  rule.measure = isMeasured(item);
  return rule;
}

// A pair has no own shard.
EncodeLaunch encodeAllButOwn(const BatchItem& item, uint32_t chunk) {
  return EncodeLaunch{.call = contextOf(item, item.plan.chunk(chunk), chunk),
                      .input = inputOf(item),
                      .inputFactor = item.factor,
                      .residual = item.residuals.encode,
                      .rule = ruleOf(item),
                      .output = shardsOf(item, chunk).outgoing,
                      .skipShard = item.plan.isPair ? -1 : static_cast<int32_t>(item.plan.rank)};
}

// AllGather's, which has one chunk.
EncodeLaunch encodeOwn(const BatchItem& item) {
  EncodeLaunch launch = encodeAllButOwn(item, 0);
  const uint32_t own = item.plan.rank;
  const ChunkPlan whole = item.plan.chunk(0);
  launch.call.layout = whole.shardAlone(own);
  launch.output += whole.shardOffset(own);
  launch.skipShard = -1;
  return launch;
}

EncodeLaunch encodeOf(const BatchItem& item, uint32_t chunk) {
  return item.plan.exchanges() ? encodeAllButOwn(item, chunk) : encodeOwn(item);
}

void* ownersResidual(const BatchItem& item, const ChunkPlan& part) {
  if (item.residuals.reduce == nullptr) return nullptr;
  return static_cast<char*>(item.residuals.reduce) +
         item.plan.residualOffset(item.slot->rule.residualType, part);
}

ReduceLaunch reduceOwn(const BatchItem& item, uint32_t chunk) {
  const CollectivePlan& plan = item.plan;
  const ChunkPlan part = plan.chunk(chunk);
  const ShardBuffers shards = shardsOf(item, chunk);
  return ReduceLaunch{
      .call = contextOf(item, part, chunk),
      .shard = plan.rank,
      .peers = shards.incoming,
      .ownInput = static_cast<const char*>(inputOf(item)) + plan.ownByteOffset(part),
      .inputFactor = item.factor,
      .ownResidual = item.residuals.encode,
      .residual = ownersResidual(item, part),
      .rule = ruleOf(item),
      .factor = plan.factor,
      .output = plan.gathers() ? shards.outgoing + part.shardOffset(plan.rank) : nullptr,
      .values = plan.gathers() ? nullptr : item.call.recv};
}

// Where the result of what is coded here goes.
uint8_t* resultOf(const BatchItem& item) {
  return hasLanes(item) ? resultPart(item, item.plan.hosts->index)
                        : static_cast<uint8_t*>(item.call.recv);
}

// What both ranks of a pair have sent each other.
ReduceLaunch reducePair(const BatchItem& item, uint32_t chunk) {
  const CollectivePlan& plan = item.plan;
  const ChunkPlan part = plan.chunk(chunk);
  const ShardBuffers shards = shardsOf(item, chunk);
  ReduceLaunch launch{
      .call = contextOf(item, part, chunk),
      .shard = 0,
      .peers = shards.incoming,
      .ownInput = nullptr,
      .ownCodes = shards.outgoing,
      .ownResidual = nullptr,
      .residual = nullptr,
      .factor = plan.factor,
      .output = nullptr,
      .values = resultOf(item) + part.layout.firstElem(0) * elementBytes(plan.type)};
  launch.call.type = plan.type;
  return launch;
}

ReduceLaunch reduceOf(const BatchItem& item, uint32_t chunk) {
  return item.plan.isPair ? reducePair(item, chunk) : reduceOwn(item, chunk);
}

DecodeLaunch decodeOf(const BatchItem& item, uint32_t chunk) {
  DecodeLaunch launch{.call = contextOf(item, item.plan.chunk(chunk), chunk),
                      .input = shardsOf(item, chunk).outgoing,
                      .output = resultOf(item)};
  launch.call.type = item.plan.type;
  return launch;
}

ProbeLaunch probeOf(const BatchItem& item) {
  return ProbeLaunch{.call = contextOf(item),
                     .input = inputOf(item),
                     .inputFactor = item.factor,
                     .residual = item.residuals.encode,
                     .residualType = item.slot->rule.residualType,
                     .probe = item.residuals.probe};
}

template <class Launch>
struct CodecStage {
  TracedStage traced;
  Launch (*launchOf)(const BatchItem&, uint32_t chunk);
  int (*DeviceTable::*enqueue)(const Launch*, uint32_t n, void* stream);
  const char* failure;
};
constexpr CodecStage<EncodeLaunch> kEncode{TracedStage::encode, encodeOf, &DeviceTable::encode,
                                           "cannot encode"};
constexpr CodecStage<ReduceLaunch> kReduce{TracedStage::reduce, reduceOf, &DeviceTable::reduce,
                                           "cannot reduce"};
constexpr CodecStage<DecodeLaunch> kDecode{TracedStage::decode, decodeOf, &DeviceTable::decode,
                                           "cannot decode"};

template <class Launch>
Result<void> launch(const CodecStage<Launch>& stage, const Neighbours& items, uint32_t chunk) {
  const BatchItem& first = items.front();
  const DeviceTable& device = deviceOf(first);
  std::array<Launch, Neighbours::kMost> launches;
  std::ranges::transform(items, launches.begin(),
                         [&](const BatchItem* item) { return stage.launchOf(*item, chunk); });
  void* const stream = codecStreamOf(first);
  const CodecTrace trace(items, stage.traced, chunk, stream);
  CINCH_TRY_DEVICE(device, (device.*stage.enqueue)(launches.data(), items.size(), stream),
                   stage.failure);
  return {};
}

// Nothing of another buffer's leftovers may be added to this one.
Result<void> probeInput(const BatchItem& item) {
  if (item.residuals.probe == nullptr) return {};
  const DeviceTable& device = deviceOf(item);
  const ProbeLaunch launch = probeOf(item);
  CINCH_TRY_DEVICE(device, device.probe(&launch, item.call.stream), "cannot probe a buffer");
  return {};
}

// What was given back with an older layout, and is wanted again: as far as this rank has memory.
void takeAgain(const BatchItem& item) {
  Slot& slot = *item.slot;
  if (!slot.hasFeedback() || slot.residuals.areHeld()) return;
  const RelaxedCapture relaxed(deviceOf(item));
  const auto taken = slot.takeResiduals(deviceOf(item));
  if (!taken.ok() && std::has_single_bit(slot.calls + 1))
    CINCH_WARN("EXEC", "%s: no error feedback: %s", slot.name.c_str(),
               taken.error().message.c_str());
}

Result<void> takeResiduals(BatchItem& item) {
  Slot& slot = *item.slot;
  if (item.mode.isStateless()) return {};
  if (isCaptured(item)) {
    item.residuals = slot.residualsInCapture(deviceOf(item), item.captureId);
    return {};
  }
  if (!item.comm->selections.isOn) takeAgain(item);
  const auto found =
      slot.residualsOfCall(deviceOf(item), item.call.send, item.call.recv, item.call.stream);
  CINCH_TRY(found);
  if (item.mode.hasFeedback) item.residuals = found.value();
  return {};
}

// A captured call is counted once, however often its graph is launched.
Result<void> finishCall(BatchItem& item) {
  Slot& slot = *item.slot;
  if (isMeasured(item)) {
    slot.readMirror();
    CINCH_TRY(slot.mirrorState(deviceOf(item), item.call.stream));
  }
  slot.countCall(item.plan, item.examined.has_value());
  return {};
}

}  // namespace

ShardBuffers shardsOf(const BatchItem& item, uint32_t chunk) {
  const Workspace& workspace = item.comm->workspace;
  const ChunkPlan part = item.plan.chunk(chunk);
  const uint64_t offset = item.use.offset + part.bufferOffset;
  const uint64_t sumBytes = hasLanes(item) ? item.plan.hosts->sumBytes() : 0;
  return {workspace.outgoing() + sumBytes + offset, workspace.incoming() + offset,
          part.messageBytes(), item.plan.isPair};
}

Result<void> openStages(BatchItem& item) {
  const DeviceTable& device = deviceOf(item);
  const CurrentDevice current = useDeviceOf(item);
  CINCH_TRY(item.comm->workspace.begin(item.call.stream, item.captureId));
  if (item.connectOnly) return {};
  beginTrace(item);
  if (!isCaptured(item)) CINCH_TRY(item.slot->enterPlan(device, item.call.stream));
  CINCH_TRY(takeResiduals(item));
  if (!hasLanes(item)) CINCH_TRY(probeInput(item));
  CINCH_TRY(noteInput(item));
  return hasLanes(item) ? Result<void>() : handToCodec(item);
}

Result<void> sumStage(BatchItem& item) {
  if (!isCoded(item)) return {};
  const DeviceTable& device = deviceOf(item);
  const CurrentDevice current = useDeviceOf(item);
  const SumLaunch launch = sumOf(item);
  CINCH_TRY_DEVICE(device, device.sum(&launch, item.call.stream), "cannot sum up the parts");
  CINCH_TRY(probeInput(item));
  return handToCodec(item);
}

Result<void> encodeStage(const Neighbours& items, uint32_t chunk) {
  const Neighbours coded = items.only(isCoded);
  if (coded.empty()) return {};
  const CurrentDevice current = useDeviceOf(coded.front());
  CINCH_TRY(launch(kEncode, coded, chunk));
  return handToCaller(coded.front());
}

Result<void> reduceStage(const Neighbours& items, uint32_t chunk) {
  const Neighbours coded =
      items.only([](const BatchItem& item) { return isCoded(item) && item.plan.exchanges(); });
  if (coded.empty()) return {};
  const CurrentDevice current = useDeviceOf(coded.front());
  CINCH_TRY(awaitMessage(coded.front(), CodecStream::Message::exchanged, chunk));
  CINCH_TRY(launch(kReduce, coded, chunk));
  return handToCaller(coded.front());
}

Result<void> decodeStage(const Neighbours& items, uint32_t chunk) {
  const Neighbours coded =
      items.only([](const BatchItem& item) { return isCoded(item) && item.plan.gathers(); });
  if (coded.empty()) return {};
  const BatchItem& first = coded.front();
  const CurrentDevice current = useDeviceOf(first);
  CINCH_TRY(awaitMessage(first, CodecStream::Message::gathered, chunk));
  CINCH_TRY(launch(kDecode, coded, chunk));
  // Where it is spread next.
  const bool isSpread = hasLanes(first) && chunk + 1 == first.plan.nChunks();
  return isSpread ? handToCaller(first) : Result<void>();
}

Result<void> closeStages(BatchItem& item) {
  const CurrentDevice current = useDeviceOf(item);
  CINCH_TRY(handToCaller(item));
  if (!item.connectOnly) {
    endTrace(item);
    CINCH_TRY(noteResult(item));
    CINCH_TRY(handOverExact(item));
    CINCH_TRY(finishCall(item));
  }
  return item.comm->workspace.end(item.call.stream, item.captureId);
}

void joinStages(const BatchItem& item) {
  const CurrentDevice current = useDeviceOf(item);
  (void)handToCaller(item);
  dropTrace(item);
}

Result<void> noteExchange(BatchItem& item, uint32_t chunk) {
  const CurrentDevice current = useDeviceOf(item);
  endMessages(item, TracedStage::exchange, chunk);
  return note(item, CodecStream::Message::exchanged, chunk);
}

Result<void> noteGather(BatchItem& item, uint32_t chunk) {
  const CurrentDevice current = useDeviceOf(item);
  endMessages(item, TracedStage::gather, chunk);
  return note(item, CodecStream::Message::gathered, chunk);
}

}  // namespace cinch
