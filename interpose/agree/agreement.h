// Agreement: how the ranks of a new communicator find out, out of band, whether all of them run
// Cinch with the same settings, and how they vote later. Nothing here calls NCCL or CUDA.
//
// ncclUniqueId is 128 bytes of which NCCL (2.18 to 2.30) fills fewer than 50 and reads the rest
// only in a hash that all ranks compute alike. The process that makes an id listens, and stamps
// where into the tail. Before the real ncclCommInitRank every rank connects there and says hello;
// the server acknowledges. When any rank reports that its real init has returned, every rank has
// entered it, so a rank without a hello is a rank without Cinch. The server then sends one verdict
// to all. From then on rank 0's process serves, which may be another one than that which made the
// id. The session stays open for votes and ends with the communicator; two processes have one
// connection for all their sessions. docs/agreement.md has the messages, the states and what
// happens on every failure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/host_identity.h"

namespace cinch {

class CallTrail;
class ControlClient;
class Decisions;
struct HelloMessage;

inline constexpr size_t kUniqueIdBytes = 128;
// 2: a hello names the communicator that its own was made from. 3: rank 0 publishes. 4: ranks pool
// figures. 5: a hello says how its device is joined to others, and names the communicator. 6:
// ranks close gates together. 7: one connection between two processes; rank 0's process takes over.
// 8: whatever the ranks decide is in force from the same call on. 9: a vote can be taken back. 10:
// hashes of calls are compared, and a hello proves the key. 11: a rank asks for an outcome.
inline constexpr uint32_t kAgreementVersion = 11;

// What rank 0 may send with one decision; with an outcome or metrics around it, a little more.
inline constexpr size_t kMaxDecided = 48 << 10;
inline constexpr size_t kMaxDecidedBytes = kMaxDecided + 1024;

// How many figures a rank may pool at once, and one that it does not have.
inline constexpr size_t kMaxFigures = 64;
inline constexpr uint64_t kNoFigure = UINT64_MAX;

// How devices of a host are joined, as far as anybody knows.
enum class Links : uint8_t { unknown, pcie, nvlink };

// What a rank says of itself. Texts are cut to a limit on the wire and made printable.
struct Hello {
  int rank = -1;
  int nRanks = 0;
  uint32_t version = kAgreementVersion;
  uint64_t settingsHash = 0;  // common/param.h
  uint64_t hostId = 0;        // equal for ranks that share a host (host_identity.h)
  std::string settings;       // readable form of what the hash covers, "NAME=value NAME=value"
  std::string host;           // name, for messages
  std::string refusal;  // why it cannot take part ("non-blocking communicator"); empty: it can
  Links links = Links::unknown;  // of its device
  uint64_t device = 0;           // tells the devices of a host apart; only where `links` are known
  std::string communicator;      // what rank 0 calls it
  Endpoint server;  // of rank 0, where its process will serve the communicator; none: it is served
                    // well where the hello goes
};

// What all ranks were told, the same on each.
struct Verdict {
  bool compress = false;
  std::string reason;             // why not; names rank and host
  std::vector<uint64_t> hostIds;  // by rank; empty unless compress
  Links links = Links::unknown;   // the slowest one, where all ranks are on one host
  std::string communicator{};     // what rank 0 calls it; empty unless compress
  Endpoint server{};              // where rank 0 serves it from now on; none: who told this goes on
};

// Serves the ranks of one unique id from this process, and stamps where into the id's tail. `id` is
// kUniqueIdBytes long and already holds what NCCL put there. All ids share one listening socket and
// one thread, which blocks all signals, ends with the process and costs nothing while idle; an id
// may be used any time later, or never (of thousands the oldest unused are forgotten). Fails where
// no address can be listened on: the id then carries no valid stamp and its communicator passes.
// Thread-safe.
Result<void> serveAgreement(uint8_t* id);

// For rank 0, before its handshake: this process will serve the communicator of `id` after the
// handshake, so that it needs no process but those of its ranks. Returns where, for
// Hello::server; none where this process is the one that serves it already, or cannot serve.
Endpoint offerToServe(const uint8_t* id, int nRanks);

// True where NCCL_COMM_ID is set, with which NCCL makes the same id in every process. Ask after the
// real ncclGetUniqueId, which puts the settings of NCCL's configuration files into the environment.
bool areIdsFixed();

// True where the tail of `id` carries a valid stamp.
bool hasAgreementStamp(const uint8_t* id);

// What a vote has come to: whether all ranks said yes, and what rank 0 sent with its own. None
// where `bytes` are not that.
struct VoteOutcome {
  bool allYes = false;
  std::vector<uint8_t> bytes{};
};
std::optional<VoteOutcome> outcomeOf(std::span<const uint8_t> bytes);
// The smallest of all ranks' figures; empty where `bytes` are not that.
std::vector<uint64_t> leastOf(std::span<const uint8_t> bytes);

// One rank's end of the agreement. One thread of the process receives for all of them
// (control_reader.h). All members but greet, greetChild and the destructor may be called from
// several threads at once. In a forked child all of them fail, and leave the parent's connection
// alone.
//
// One thread may drive several ranks of its process in turn, and never waits for itself: a greeting
// waits for the server only, awaitVerdict comes after all ranks of the thread have greeted, and of
// decisions only control threads are waited for.
class Agreement {
 public:
  // Connects to the server named in `id`, sends `hello` and waits for the acknowledgement, which
  // needs nothing of other ranks: an NCCL group may be open. Call before the real init. After an
  // error this rank is to the others a rank without Cinch: pass.
  static Result<std::unique_ptr<Agreement>> greet(const uint8_t* id, const Hello& hello,
                                                  int timeoutSeconds);
  // The same for a communicator that is made from another one (ncclCommSplit, ncclCommShrink), all
  // of whose members run Cinch: no id is at hand, so its session is named after `parent`'s, which
  // some rank must still have open. `ordinal` counts the calls before that made something from the
  // parent, `part` tells apart what one call makes (the colour; negative numbers are free for calls
  // without one). The pair is equal on the members of the new communicator and never used for
  // another of this parent: a call that not all ranks of the parent make, like ncclCommShrink,
  // therefore needs a part that tells who makes it, and a count of its own. Call once, when the
  // real call has returned. The verdict comes when all members have said hello, or one has left: an
  // awaitVerdict() that times out means no for all, also for those who come later. After an error:
  // pass, as all others will; a member that cannot take part says so in its hello, so that they
  // need not wait.
  static Result<std::unique_ptr<Agreement>> greetChild(const Agreement& parent, uint64_t ordinal,
                                                       int64_t part, const Hello& hello,
                                                       int timeoutSeconds);
  // offerToServe() for a communicator that is made from `parent`'s.
  static Endpoint offerToServe(const Agreement& parent, uint64_t ordinal, int64_t part, int nRanks);
  // Leaves, which counts as a no on every open topic. No other thread may still be in a member.
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // Waits for the verdict; after greet(), call it when the real init has returned, which it
  // reports. Where it is that the ranks compress and rank 0's process serves them from then on,
  // this rank joins there, without waiting for the others. Call once. An error also leaves: this
  // rank will never vote yes, so that it is safe to pass.
  Result<Verdict> awaitVerdict(int timeoutSeconds);

  // Says yes or no on `topic`, without waiting. Every rank votes at most once on a topic, in any
  // order of topics, at most 4096 topics ahead of the slowest rank. When all have, the outcome is a
  // decision: outcomeOf() reads it. Rank 0's `bytes` (kMaxDecided at most) go with it.
  Result<void> castVote(uint64_t topic, bool yes, std::span<const uint8_t> bytes = {});

  // Takes this rank's yes on `topic` back, without waiting, because it does not wait for the others
  // any longer: the outcome is a no, for those too that vote later, unless all had voted before.
  Result<void> retractVote(uint64_t topic);

  // Adds this rank's figures (at most kMaxFigures; kNoFigure where it has none) to what the ranks
  // reduce on `topic`, without waiting. Every rank does so once on a topic, with as many figures.
  // The decision that follows is the smallest of each (leastOf()); there is none where some rank
  // owed its figures for kPoolTime after the first had come.
  Result<void> pool(uint64_t topic, std::span<const uint64_t> figures);

  // Rank 0 decides on `topic`, once: `bytes` (kMaxDecided at most) are in force on all ranks from
  // some call on. Without waiting.
  Result<void> propose(uint64_t topic, std::span<const uint8_t> bytes);

  // What the ranks have decided, and from which call on. Only where they are to compress.
  Decisions& decisions() const;

  // What this rank calls, which is compared with the other ranks' calls.
  CallTrail& trail() const;

  // Leaves, and ends every wait; callable from any thread, more than once.
  void close();

 private:
  using Client = std::shared_ptr<ControlClient>;
  static Result<void> handshake(ControlClient& client, const HelloMessage& hello,
                                Deadline deadline);
  static Result<std::unique_ptr<Agreement>> begin(const Endpoint& server, const HelloMessage& hello,
                                                  int timeoutSeconds);
  Agreement(Client client, const Hello& hello);
  ControlClient& client() const { return *client_.load(); }
  Result<Verdict> receiveVerdict(Deadline deadline);
  Result<void> moveTo(const Endpoint& server, Deadline deadline);
  void withdrawOffer() const;

  const Hello hello_;
  Client first_;                        // to where the ranks agree
  Client moved_;                        // to rank 0's process, where that serves them from then on
  std::atomic<ControlClient*> client_;  // of these, the one in use
  std::atomic<bool> closed_{false};
};

}  // namespace cinch
