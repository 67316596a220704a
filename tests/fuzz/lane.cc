#include "tests/fuzz/lane.h"

#include <chrono>
#include <cinttypes>
#include <cmath>
#include <set>
#include <thread>

#include "tests/fuzz/text.h"

namespace cinch::fuzz {
namespace {

constexpr unsigned char kPoison = 0xa5;

std::string signatureOf(const Call& call) {
  return format("%d %d %d %zu", static_cast<int>(call.kind), call.type, call.op, call.count);
}

// NaN and infinity in turn.
double notFinite(int uid) {
  return uid % 2 == 0 ? NAN : INFINITY;
}

}  // namespace

void Lane::run(const std::vector<Stepped>& actions) {
  for (const Stepped& stepped : actions) {
    positions_[side_].store(&stepped);
    step_ = stepped.step;
    std::visit(*this, stepped.action);
  }
  (*this)(Sync{});
  text_ += format("codes %d %d %d\n", state_.worldRank, side_, nCodes_);
}

void Lane::note(const char* what, int code) {
  ++nCodes_;
  if (code == 0) return;
  text_ += format("code %d %d %d %s %d\n", state_.worldRank, side_, step_, what, code);
}

ncclResult_t Lane::enqueue(const Call& call) {
  const Layout layout = layoutOf(state_.program, call, state_.worldRank);
  unsigned char* memory = state_.buffer(call);
  void* send = call.fault == Fault::nullBuffer ? nullptr : memory + layout.sendAt;
  void* receive = call.fault == Fault::nullBuffer ? nullptr : memory + layout.receiveAt;
  const auto type = call.fault == Fault::dataType ? static_cast<ncclDataType_t>(99) : call.type;
  const int peer = call.fault == Fault::root ? 1000 : call.peer;
  const ncclComm_t comm = call.fault == Fault::communicator ? nullptr : state_.comms[call.comm];
  ncclRedOp_t op = call.userOp >= 0 ? state_.ops[call.userOp] : call.op;
  if (call.fault == Fault::operation) op = static_cast<ncclRedOp_t>(123456);
  const cudaStream_t stream = state_.streams[call.stream];
  switch (call.kind) {
    case Kind::allReduce:
      return ncclAllReduce(send, receive, call.count, type, op, comm, stream);
    case Kind::reduceScatter:
      return ncclReduceScatter(send, receive, call.count, type, op, comm, stream);
    case Kind::allGather:
      return ncclAllGather(send, receive, call.count, type, comm, stream);
    case Kind::broadcast:
      return ncclBroadcast(send, receive, call.count, type, peer, comm, stream);
    case Kind::bcast:
      return ncclBcast(receive, call.count, type, peer, comm, stream);
    case Kind::reduce:
      return ncclReduce(send, receive, call.count, type, op, peer, comm, stream);
    case Kind::send:
      return ncclSend(send, call.count, type, peer, comm, stream);
    case Kind::receive:
      return ncclRecv(receive, call.count, type, peer, comm, stream);
  }
  return ncclInternalError;
}

std::unique_ptr<Lane::Transfer> Lane::fill(const Call& call, int round) {
  auto transfer = std::make_unique<Transfer>();
  const Layout layout = layoutOf(state_.program, call, state_.worldRank);
  Bytes& image = transfer->before;
  image.assign(layout.total, kPoison);
  const DataKey key{state_.program.seed, call.uid, round};
  const size_t count = inputCount(state_.program, call, state_.worldRank);
  fillInput(key, state_.worldRank, call.type, 0, count, &image[layout.sendAt]);
  const bool first = state_.program.comms[call.comm].rankOf(state_.worldRank) == 0;
  if (call.special >= 0 && first)
    store(&image[layout.sendAt + call.special * bytesOf(call.type)], call.type,
          notFinite(call.uid));
  transfer->call = call;
  transfer->round = round;
  transfer->layout = layout;
  transfer->seen = countOne(call);
  note("fill", cudaMemcpyAsync(state_.buffer(call), image.data(), image.size(),
                               cudaMemcpyHostToDevice, state_.streams[call.stream]));
  return transfer;
}

void Lane::operator()(const Call& call) {
  if (capturing_ >= 0) {
    state_.captured[capturing_].push_back(call);
    countOne(call);
  } else {
    issued_.push_back(fill(call, 0));
  }
  ncclResult_t result = enqueue(call);
  if (depth_ > 0)
    grouped_.insert(call.comm);
  else
    result = settled(state_.comms[call.comm], result);
  // What an abandoned call returns depends on who aborts first.
  if (!call.abandoned) note(nameOf(call.kind), result);
  if (depth_ == 0) readBack();
}

int Lane::countOne(const Call& call) {
  return state_.seen[call.comm][signatureOf(call)]++;
}

// What was launched is now ordered on its streams: so is reading its memory.
void Lane::readBack() {
  for (auto& transfer : issued_) {
    const Call& call = transfer->call;
    transfer->after.resize(transfer->layout.total);
    note("read",
         cudaMemcpyAsync(transfer->after.data(), state_.buffer(call), transfer->after.size(),
                         cudaMemcpyDeviceToHost, state_.streams[call.stream]));
    pending_.push_back(std::move(transfer));
  }
  issued_.clear();
}

void Lane::operator()(const Sync&) {
  std::set<int> streams;
  for (const auto& transfer : pending_) streams.insert(transfer->call.stream);
  for (const int stream : streams)
    note("cudaStreamSynchronize", cudaStreamSynchronize(state_.streams[stream]));
  for (const auto& transfer : pending_)
    if (!transfer->call.abandoned) check(*transfer);
  pending_.clear();
}

void Lane::check(const Transfer& transfer) {
  const Call& call = transfer.call;
  const Layout& layout = transfer.layout;
  const unsigned char* output = &transfer.after[layout.receiveAt];
  const uint64_t hash = hashOf(output, layout.outputBytes);
  const uint64_t rest =
      hashOf(output + layout.outputBytes, layout.total - layout.receiveAt - layout.outputBytes,
             hashOf(transfer.after.data(), layout.receiveAt));
  CallFacts facts{&state_.program,
                  &call,
                  state_.worldRank,
                  {},
                  {state_.program.seed, call.uid, transfer.round}};
  if (call.userOp >= 0) facts.scalars = state_.factors[call.userOp];
  Deviation deviation;
  const bool untouched = transfer.before == transfer.after;
  if (!call.idle)
    deviation = compare(facts, state_.tolerance, Bytes(output, output + layout.outputBytes));
  text_ +=
      format("out %d %d %d %s %s %d %d %d %zu %d %d %016" PRIx64 " %016" PRIx64 " %.3g %.3g\n",
             state_.worldRank, call.uid, transfer.round, nameOf(call.kind), nameOf(call.type),
             call.op, call.comm, state_.program.comms[call.comm].size(), call.count, transfer.seen,
             static_cast<int>(untouched), hash, rest, deviation.worst, deviation.meanSquare);
}

void Lane::operator()(const InitRank& init) {
  const Comm& comm = state_.program.comms[init.comm];
  const int rank = comm.rankOf(state_.worldRank);
  ncclUniqueId id;
  if (rank == 0) {
    note("ncclGetUniqueId", ncclGetUniqueId(&id));
    state_.blackboard.post(init.comm, id);
  } else {
    id = state_.blackboard.take(init.comm);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (comm.nonBlocking) config.blocking = 0;
  ncclComm_t* out = &state_.comms[init.comm];
  const ncclResult_t result = init.withConfig
                                  ? ncclCommInitRankConfig(out, comm.size(), id, rank, &config)
                                  : ncclCommInitRank(out, comm.size(), id, rank);
  note("init", settled(*out, result));
}

void Lane::operator()(const Split& split) {
  ncclComm_t made = nullptr, parent = state_.comms[split.parent];
  note("ncclCommSplit",
       settled(parent, ncclCommSplit(parent, split.color, split.key, &made, nullptr)));
  note("split without colour gave a communicator", split.comm < 0 && made != nullptr);
  if (split.comm < 0) return;
  state_.comms[split.comm] = made;
  note("new communicator", settled(made, ncclInProgress));
  int rank = -1;
  note("ncclCommUserRank", ncclCommUserRank(made, &rank));
  note("split gave another rank",
       rank != state_.program.comms[split.comm].rankOf(state_.worldRank));
}

ncclResult_t Lane::settled(ncclComm_t comm, ncclResult_t result) const {
  while (result == ncclInProgress && comm != nullptr) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) return asked;
    if (result == ncclInProgress) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return result;
}

void Lane::asyncError(int comm) {
  ncclResult_t error = ncclSuccess;
  note("ncclCommGetAsyncError", ncclCommGetAsyncError(state_.comms[comm], &error));
  note("asynchronous", error);
}

void Lane::operator()(const Finalize& finalize) {
  asyncError(finalize.comm);
  const ncclComm_t comm = state_.comms[finalize.comm];
  note("ncclCommFinalize", settled(comm, ncclCommFinalize(comm)));
}

void Lane::operator()(const Destroy& destroy) {
  asyncError(destroy.comm);
  note("ncclCommDestroy", ncclCommDestroy(state_.comms[destroy.comm]));
}

void Lane::operator()(const Abort& abort) {
  ncclResult_t result = ncclSuccess;
  const auto run = [&] { result = ncclCommAbort(state_.comms[abort.comm]); };
  if (abort.fromAnotherThread)
    std::thread(run).join();
  else
    run();
  note("ncclCommAbort", result);
}

void Lane::operator()(const GroupStart&) {
  ++depth_;
  note("ncclGroupStart", ncclGroupStart());
}

void Lane::operator()(const GroupEnd&) {
  --depth_;
  ncclResult_t result = ncclGroupEnd();
  if (depth_ == 0 && result == ncclInProgress)
    for (const int comm : std::exchange(grouped_, {}))
      result = settled(state_.comms[comm], ncclInProgress);
  note("ncclGroupEnd", result);
  if (depth_ == 0) {
    grouped_.clear();
    readBack();
  }
}

void Lane::operator()(const SimulateEnd&) {
  depth_ = 0;
  ncclSimInfo_t info{sizeof info, NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, 0};
  note("ncclGroupSimulateEnd", ncclGroupSimulateEnd(&info));
  readBack();
}

void Lane::operator()(const MakeOp& make) {
  unsigned char scalar[8];
  store(scalar, make.type, make.scalar);
  void* where = make.onDevice ? state_.scalars[make.op] : scalar;
  note("ncclRedOpCreatePreMulSum",
       ncclRedOpCreatePreMulSum(&state_.ops[make.op], where, make.type,
                                make.onDevice ? ncclScalarDevice : ncclScalarHostImmediate,
                                state_.comms[make.comm]));
}

void Lane::operator()(const DropOp& drop) {
  note("ncclRedOpDestroy", ncclRedOpDestroy(state_.ops[drop.op], state_.comms[drop.comm]));
}

void Lane::operator()(const BeginCapture& begin) {
  capturing_ = begin.graph;
  captureStream_ = begin.stream;
  state_.captured[begin.graph].clear();
  note("cudaStreamBeginCapture",
       cudaStreamBeginCapture(state_.streams[begin.stream], cudaStreamCaptureModeThreadLocal));
}

void Lane::operator()(const EndCapture&) {
  cudaGraph_t graph = nullptr;
  note("cudaStreamEndCapture", cudaStreamEndCapture(state_.streams[captureStream_], &graph));
  note("cudaGraphInstantiate", cudaGraphInstantiate(&state_.graphs[capturing_], graph, 0));
  note("cudaGraphDestroy", cudaGraphDestroy(graph));
  graphStream_[capturing_] = captureStream_;
  capturing_ = -1;
}

void Lane::operator()(const Replay& replay) {
  for (const Call& call : state_.captured[replay.graph])
    issued_.push_back(fill(call, replay.round));
  const cudaStream_t stream = state_.streams[graphStream_[replay.graph]];
  note("cudaGraphLaunch", cudaGraphLaunch(state_.graphs[replay.graph], stream));
  readBack();
}

void Lane::operator()(const DropGraph& drop) {
  note("cudaGraphExecDestroy", cudaGraphExecDestroy(state_.graphs[drop.graph]));
}

void Lane::operator()(const Parallel& parallel) {
  Lane second(state_, positions_, 1);
  std::thread thread([&] { second.run(parallel.second); });
  run(parallel.first);
  thread.join();
  text_ += second.takeText();
}

}  // namespace cinch::fuzz
