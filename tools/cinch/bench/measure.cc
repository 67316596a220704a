#include "tools/cinch/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "common/param.h"
#include "kernels/codec/registry.h"

namespace cinch::bench {
namespace {

// The coarsest that adaptive precision gives to a segment.
constexpr const char* kCoarsestAutoCodec = "h2";

using Clock = std::chrono::steady_clock;

double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

size_t bufferBytes(const Options& options) {
  return options.maxBytes + options.unaligned * kMaxElementBytes;
}

const codec::CodecInfo& codecNamed(const std::string& name) {
  const codec::CodecInfo* found = codec::findCodec(name == "auto" ? kCoarsestAutoCodec : name);
  if (found == nullptr)
    throw std::runtime_error("the report names the codec " + name +
                             ", which this program does not know: use the `cinch` of the same "
                             "version as libcinch.so, or -c 0");
  return *found;
}

std::string reportOf(const Result<CallRecord>& record) {
  return record.ok() ? "" : record.error().message;
}

}  // namespace

// One size, out of place or in place.
struct Measurement::Call {
  Shape shape;
  ElementType type;
  ncclRedOp_t operation;
  bool inPlace;
  size_t firstByte;  // of the values in their buffers
  TestValues values;
  DeviceBuffer* sent;
  size_t sendOffset;  // bytes
  DeviceBuffer* received;
  size_t receiveOffset;

  Signature signature() const {
    const OpClass opClass =
        shape.kind == CallKind::allGather ? OpClass::none : opClassOf(operation);
    return {shape.kind, opClass, type.id, shape.count};
  }
};

Measurement::Measurement(Session& session, const Options& options, CallKind kind,
                         const ReportFile* report)
    : session_(session),
      library_(session.libraries()),
      options_(options),
      kind_(kind),
      report_(report),
      send_(session, bufferBytes(options)),
      receive_(session, bufferBytes(options)) {}

Row Measurement::run(uint64_t nBytes, const ElementType& type, const Operation& operation) {
  const Shape shape = shapeOf(kind_, nBytes, type.bytes, session_.world().ranks);
  const size_t first = options_.unaligned * type.bytes;
  const size_t part = first + shape.inPlaceOffset(session_.world().rank) * type.bytes;
  Call call{shape,  type,  operation.id, false, first, {type, operation.id, kind_, shape.ranks},
            &send_, first, &receive_,    first};
  Row row{shape, type.name, kind_ == CallKind::allGather ? "none" : operation.name, {}, {}};
  row.outOfPlace = runPhase(call);
  call.inPlace = true;
  if (kind_ == CallKind::reduceScatter) {
    call.received = &send_;
    call.receiveOffset = part;
  } else {
    call.sent = &receive_;
    call.sendOffset = part;
  }
  row.inPlace = runPhase(call);
  return row;
}

Phase Measurement::runPhase(const Call& call) {
  CallRecord before = learn(call);
  warmUp(call);
  // Else not: a pause in front of the timed calls, which plain NCCL does not have.
  if (call.inPlace) before = learn(call);
  Phase phase;
  // In place, timed calls add up what they have made themselves: what error feedback keeps of
  // values that have grown so has no place in a sum of others.
  if (call.inPlace) check(call, phase);
  double mean = options_.graphLaunches > 0 ? timeGraph(call) : time(call);
  session_.combine({&mean, 1}, ncclSum);
  phase.microseconds = mean / call.shape.ranks;
  phase.bandwidth = bandwidthOf(call.shape, phase.microseconds);
  if (!call.inPlace) check(call, phase);
  describePath(call, before, learn(call), phase);
  return phase;
}

void Measurement::warmUp(const Call& call) {
  fill(call, 0);
  DeviceBuffer& spare = call.sent == &send_ ? receive_ : send_;
  const size_t nBytes = call.shape.sendCount() * call.type.bytes;
  if (call.inPlace) spare.copyFrom(*call.sent, call.sendOffset, nBytes);
  for (int i = 0; i < options_.warmups; ++i) {
    enqueue(call);
    if (!call.inPlace) continue;
    session_.wait("the warm-up");
    // Not the sum, which would grow from call to call.
    call.sent->copyFrom(spare, call.sendOffset, nBytes);
  }
  session_.wait("the warm-up");
}

void Measurement::fill(const Call& call, uint64_t round) {
  const int rank = session_.world().rank;
  call.sent->fill(call.type, call.sendOffset, call.shape.sendCount(),
                  [&](uint64_t first, std::span<double> values) {
                    call.values.send(rank, round, first, values);
                  });
}

void Measurement::enqueue(const Call& call) {
  const void* from = call.sent->data() + call.sendOffset;
  void* to = call.received->data() + call.receiveOffset;
  const uint64_t count = call.shape.count;
  const ncclComm_t comm = session_.comm();
  const cudaStream_t stream = session_.stream();
  switch (call.shape.kind) {
    case CallKind::reduceScatter:
      return library_.check(
          library_.ncclReduceScatter(from, to, count, call.type.id, call.operation, comm, stream),
          "ncclReduceScatter");
    case CallKind::allGather:
      return library_.check(library_.ncclAllGather(from, to, count, call.type.id, comm, stream),
                            "ncclAllGather");
    default:
      return library_.check(
          library_.ncclAllReduce(from, to, count, call.type.id, call.operation, comm, stream),
          "ncclAllReduce");
  }
}

double Measurement::time(const Call& call) {
  session_.barrier();
  const auto start = Clock::now();
  for (int i = 0; i < options_.iterations; ++i) enqueue(call);
  session_.wait("a size");
  return microsecondsSince(start) / options_.iterations;
}

double Measurement::timeGraph(const Call& call) {
  const cudaStream_t stream = session_.stream();
  library_.check(library_.cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture");
  for (int i = 0; i < options_.iterations; ++i) enqueue(call);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  library_.check(library_.cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  library_.check(library_.cudaGraphInstantiateWithFlags(&executable, graph, 0),
                 "cudaGraphInstantiateWithFlags");
  library_.check(library_.cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  session_.wait("the first launch of a graph");
  session_.barrier();
  const auto start = Clock::now();
  for (int i = 0; i < options_.graphLaunches; ++i)
    library_.check(library_.cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  session_.wait("a size");
  const double elapsed = microsecondsSince(start);
  library_.check(library_.cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
  library_.check(library_.cudaGraphDestroy(graph), "cudaGraphDestroy");
  return elapsed / options_.iterations / options_.graphLaunches;
}

CallRecord Measurement::learn(const Call& call) const {
  if (report_ == nullptr) return {};
  const auto record =
      recordOf(report_->refresh(library_), describe(call.signature()), call.shape.ranks);
  if (!record.ok()) throw std::runtime_error(reportOf(record));
  return record.value();
}

// Rank 0 alone has read the report.
Tolerance Measurement::agreeTolerance(const Call& call, const CallRecord& record) {
  const bool isCompressed = record.latest == "compressed";
  const double id = isCompressed ? codecNamed(record.codec).format.id : 0;
  double known[] = {id, isCompressed ? record.gain : 0};
  session_.combine(known, ncclSum);
  if (known[0] == 0) return exactTolerance(call.values);
  const codec::CodecInfo& info = *codec::findCodec(static_cast<uint8_t>(known[0]));
  const bool dithers =
      info.dithers && processParams().params.rounding == RoundingChoice::stochastic;
  return codecTolerance({info.format, static_cast<float>(known[1]), dithers}, call.values,
                        call.shape, call.operation);
}

CheckFigures Measurement::compare(const Call& call, uint64_t round, double bound) {
  CheckFigures figures;
  std::vector<double> expected;
  const int rank = session_.world().rank;
  call.received->read(call.type, call.receiveOffset, call.shape.receiveCount(),
                      [&](uint64_t first, std::span<const double> found) {
                        expected.resize(found.size());
                        call.values.expect(rank, round, call.shape.count, first, expected);
                        figures.add(found, expected, bound);
                      });
  return figures;
}

void Measurement::check(const Call& call, Phase& phase) {
  if (options_.checks == 0) return;
  Checked checked;
  for (int round = 1; round <= options_.checks; ++round) {
    fill(call, static_cast<uint64_t>(round));
    session_.barrier();
    enqueue(call);
    session_.wait("a call that is checked");
    checked.tolerance = agreeTolerance(call, learn(call));
    CheckFigures figures = compare(call, static_cast<uint64_t>(round), checked.tolerance.value);
    double sums[] = {static_cast<double>(figures.wrong), figures.squaredError,
                     figures.squaredSignal, static_cast<double>(call.shape.receiveCount())};
    session_.combine(sums, ncclSum);
    session_.combine({&figures.largestError, 1}, ncclMax);
    const CheckFigures all{static_cast<uint64_t>(sums[0]), figures.largestError, sums[1], sums[2]};
    checked.wrong += wrongValues(all, checked.tolerance, static_cast<uint64_t>(sums[3]));
    checked.nmse = std::max(checked.nmse, all.nmse());
    checked.largestError = std::max(checked.largestError, all.largestError);
  }
  phase.checked = checked;
}

void Measurement::describePath(const Call& call, const CallRecord& before, const CallRecord& after,
                               Phase& phase) const {
  if (report_ == nullptr) return;
  const auto counted = static_cast<uint64_t>(options_.iterations + options_.checks);
  phase.path = pathOf(before, after, counted);
  if (phase.path == Path::passed) {
    phase.reason = after.latest.empty() ? "unknown" : after.latest;
    return;
  }
  phase.codec = after.codec;
  if (phase.path == Path::compressed && after.wireBytesPerCall > 0)
    phase.ratio = call.shape.ringBytes() / after.wireBytesPerCall;
}

}  // namespace cinch::bench
