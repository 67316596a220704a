#include "tests/fuzz/rank_state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace cinch::fuzz {
namespace {

constexpr size_t kGuard = 64;  // bytes before, between and behind the buffers

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "fuzz_rank: %s: %s\n", what, cudaGetErrorString(error));
  abort();
}

// Calls `visit` for every action, those of Parallel too.
template <class Visit>
void walk(const std::vector<Stepped>& actions, Visit visit) {
  for (const Stepped& stepped : actions) {
    visit(stepped.action);
    if (const auto* parallel = std::get_if<Parallel>(&stepped.action)) {
      walk(parallel->first, visit);
      walk(parallel->second, visit);
    }
  }
}

// The greatest number that `visit` gives for any action of any rank, plus one.
template <class Visit>
size_t numbersOf(const Program& program, Visit visit) {
  int greatest = -1;
  for (const auto& actions : program.ranks)
    walk(actions, [&](const Action& action) { greatest = std::max(greatest, visit(action)); });
  return static_cast<size_t>(greatest + 1);
}

template <class T>
int numberOf(const Action& action, int T::*field) {
  const T* made = std::get_if<T>(&action);
  return made == nullptr ? -1 : made->*field;
}

size_t aligned(size_t nBytes) {
  return (nBytes + kGuard - 1) / kGuard * kGuard;
}

size_t sendElems(const Program& program, const Call& call) {
  return call.kind == Kind::reduceScatter ? call.count * program.comms[call.comm].members.size()
                                          : call.count;
}

size_t receiveElems(const Program& program, const Call& call) {
  return call.kind == Kind::allGather ? call.count * program.comms[call.comm].members.size()
                                      : call.count;
}

}  // namespace

Layout layoutOf(const Program& program, const Call& call, int worldRank) {
  const size_t nBytes = bytesOf(call.type), shift = call.offset * nBytes;
  const size_t rank = program.comms[call.comm].rankOf(worldRank);
  const size_t sendBytes = sendElems(program, call) * nBytes;
  const size_t receiveBytes = receiveElems(program, call) * nBytes;
  Layout layout{kGuard + shift, kGuard + shift, outputCount(program, call, worldRank) * nBytes, 0};
  if (!call.inPlace) layout.receiveAt += aligned(sendBytes + shift) + kGuard;
  if (call.inPlace && call.kind == Kind::reduceScatter)
    layout.receiveAt += rank * call.count * nBytes;
  if (call.inPlace && call.kind == Kind::allGather) layout.sendAt += rank * call.count * nBytes;
  layout.total = std::max(layout.sendAt + sendBytes, layout.receiveAt + receiveBytes) + kGuard;
  return layout;
}

RankState::RankState(const Program& program, int worldRank, Blackboard& blackboard,
                     const Tolerance& tolerance)
    : program(program), worldRank(worldRank), blackboard(blackboard), tolerance(tolerance) {
  comms.resize(program.comms.size());
  seen.resize(program.comms.size());
  streams.resize(program.nStreams);
  for (cudaStream_t& stream : streams) must(cudaStreamCreate(&stream), "cudaStreamCreate");
  const size_t nOps =
      numbersOf(program, [](const Action& action) { return numberOf(action, &MakeOp::op); });
  ops.resize(nOps, ncclNumOps);
  scalars.resize(nOps);
  factors.resize(nOps);
  graphs.resize(
      numbersOf(program, [](const Action& it) { return numberOf(it, &BeginCapture::graph); }));
  captured.resize(graphs.size());

  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    walk(program.ranks[rank], [&](const Action& action) {
      const auto* make = std::get_if<MakeOp>(&action);
      if (make == nullptr) return;
      const Comm& comm = program.comms[make->comm];
      factors[make->op].resize(comm.members.size());
      unsigned char bytes[8];
      store(bytes, make->type, make->scalar);
      factors[make->op][comm.rankOf(static_cast<int>(rank))] = load(bytes, make->type);
      if (static_cast<int>(rank) != worldRank) return;
      must(cudaMalloc(&scalars[make->op], 8), "cudaMalloc");
      must(cudaMemcpy(scalars[make->op], bytes, 8, cudaMemcpyHostToDevice), "cudaMemcpy");
    });
  // All memory up front: none can be allocated while a stream is captured.
  std::map<std::pair<int, int>, size_t> sizes;
  walk(program.ranks[worldRank], [&](const Action& action) {
    if (const auto* call = std::get_if<Call>(&action)) {
      size_t& size = sizes[{call->stream, call->slot}];
      size = std::max(size, layoutOf(program, *call, worldRank).total);
    }
  });
  for (const auto& [key, size] : sizes) {
    void* memory = nullptr;
    must(cudaMalloc(&memory, size), "cudaMalloc");
    buffers[key] = static_cast<unsigned char*>(memory);
  }
}

RankState::~RankState() {
  for (const auto& [key, memory] : buffers) cudaFree(memory);
  for (void* scalar : scalars) cudaFree(scalar);
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

}  // namespace cinch::fuzz
