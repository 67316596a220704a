// A random NCCL program as plain data: what every rank does, in its own order. All ranks derive the
// same Program from the seed, and each carries out its own part.
//
// Communicators, operations and graphs are named by small numbers that mean the same on all ranks.
// Everything that one rank does belongs to a step; a step can be left out on all ranks alike.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "nccl.h"

namespace cinch::fuzz {

enum class Kind { allReduce, reduceScatter, allGather, broadcast, bcast, reduce, send, receive };

inline bool isPointToPoint(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}
inline bool reduces(Kind kind) {
  return kind == Kind::allReduce || kind == Kind::reduceScatter || kind == Kind::reduce;
}

// What is wrong with a call, deliberately and on all ranks alike.
enum class Fault { none, dataType, operation, nullBuffer, root, communicator };

// One communication call. `uid` numbers the data: the same on all ranks of a collective; a send and
// its receive have one each.
struct Call {
  int uid = 0;
  Kind kind = Kind::allReduce;
  int comm = 0;
  size_t count = 0;  // as passed to NCCL
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // ncclNumOps: the operation made as number `userOp`
  int userOp = -1;
  int peer = -1;   // root, or the other end, as a rank of the communicator
  int stream = 0;  // this rank's own choice
  int slot = 0;    // which buffers of that stream; calls in flight side by side differ
  int offset = 0;  // elements by which the buffers are off their alignment
  bool inPlace = false;
  int special = -1;  // element of the first member's input that is not finite; -1: none
  Fault fault = Fault::none;
  bool idle = false;       // refused, or in a group that is not launched: must change nothing
  bool abandoned = false;  // a member never makes it: ends when its communicator is aborted
};

// Makes communicators; all members, from one id that the first of them makes.
struct InitRank {
  int comm;
  bool withConfig;
};
// Called by all members of the parent. comm -1: this rank passes NCCL_SPLIT_NOCOLOR.
struct Split {
  int parent;
  int comm;
  int color;
  int key;
};
struct Finalize {
  int comm;
};
struct Destroy {
  int comm;
};
// Even with work outstanding; `fromAnotherThread` as a watchdog does it.
struct Abort {
  int comm;
  bool fromAnotherThread;
};
struct GroupStart {};
struct GroupEnd {};
// Ends the group without launching it.
struct SimulateEnd {};
// ncclRedOpCreatePreMulSum. Ranks may scale by different factors.
struct MakeOp {
  int op;
  int comm;
  ncclDataType_t type;
  double scalar;
  bool onDevice;
};
struct DropOp {
  int op;
  int comm;
};
// Waits for all of this rank's streams and compares what has arrived.
struct Sync {};
// Calls until EndCapture become graph `graph` of `stream`.
struct BeginCapture {
  int graph;
  int stream;
};
struct EndCapture {};
// Fills the inputs anew and launches the graph: the `round`th time, from 1.
struct Replay {
  int graph;
  int round;
};
struct DropGraph {
  int graph;
};
struct Parallel;

using Action =
    std::variant<Call, InitRank, Split, Finalize, Destroy, Abort, GroupStart, GroupEnd, SimulateEnd,
                 MakeOp, DropOp, Sync, BeginCapture, EndCapture, Replay, DropGraph, Parallel>;

struct Stepped;

// Two lists side by side, the second by a thread of its own. They share no communicator and no
// stream.
struct Parallel {
  std::vector<Stepped> first;
  std::vector<Stepped> second;
};

struct Stepped {
  int step;
  Action action;
};

struct Comm {
  std::vector<int> members;  // world ranks, in the order of their ranks here
  bool nonBlocking = false;
  int rankOf(int worldRank) const;  // -1: not a member
  int size() const { return static_cast<int>(members.size()); }
};

struct Program {
  uint64_t seed = 0;
  std::vector<int> processOf;  // by world rank
  int nStreams = 1;            // of every rank
  std::vector<Comm> comms;
  std::vector<std::vector<Stepped>> ranks;
  int nSteps = 0;

  int nRanks() const { return static_cast<int>(processOf.size()); }
  int nProcesses() const { return processOf.back() + 1; }
};

// Readable: one line per action and rank, ranks that do the same side by side.
std::string describe(const Program& program);
std::string describe(const Program& program, const Action& action);
const char* nameOf(Kind kind);
const char* nameOf(ncclDataType_t type);

// Without the steps named.
Program without(const Program& program, const std::vector<int>& steps);

}  // namespace cinch::fuzz
