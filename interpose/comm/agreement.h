// Agreement: how the ranks of a new communicator find out, out of band, whether all of them run
// Cinch with the same settings, and how they vote later. Nothing here calls NCCL or CUDA.
//
// ncclUniqueId is 128 bytes of which NCCL (2.18 to 2.30) fills fewer than 50 and reads the rest only
// in a hash that all ranks compute alike. The process that makes an id listens, and stamps where
// into the tail. Before the real ncclCommInitRank every rank connects there and says hello; the
// server acknowledges. When any rank reports that its real init has returned, every rank has entered
// it, so a rank without a hello is a rank without Cinch. The server then sends one verdict to all.
// The connection stays open for votes and closes with the communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"

namespace cinch {

inline constexpr size_t kUniqueIdBytes = 128;

// What a rank says of itself.
struct Hello {
  int rank = -1;
  int nRanks = 0;
  uint32_t version = 0;        // kAgreementVersion
  uint64_t settingsHash = 0;   // common/param.h
  uint64_t hostId = 0;         // equal for ranks that share a host (NCCL_HOSTID, else name + boot id)
  std::string settings;        // readable form of what the hash covers
  std::string host;            // name, for messages
  std::string pciBusId;
  std::string refusal;         // why this rank cannot take part ("non-blocking communicator"); empty: it can
};

// What all ranks were told, the same on each.
struct Verdict {
  bool compress = false;
  std::string reason;               // why not; names rank and host
  std::vector<uint64_t> hostIds;    // by rank; empty unless compress
};

inline constexpr uint32_t kAgreementVersion = 1;

// Listens for the ranks of one unique id and stamps its address into the id's tail. Runs a thread of
// its own until the communicator ends on all ranks, or nobody has come within the timeout and the id
// is forgotten. `id` is kUniqueIdBytes long. Fails where no address can be listened on: the id is
// then left as it was and its communicator will pass.
Result<void> serveAgreement(uint8_t* id, int timeoutSeconds);

// True where the tail of `id` carries a valid stamp.
bool hasAgreementStamp(const uint8_t* id);

// One rank's end of the agreement.
class Agreement {
 public:
  // Connects to the server named in `id`, sends `hello` and waits for the acknowledgement.
  // Call before the real init.
  static Result<std::unique_ptr<Agreement>> greet(const uint8_t* id, const Hello& hello,
                                                  int timeoutSeconds);
  ~Agreement();

  // Reports that the real init has returned, and waits for the verdict. Call once, after it.
  Result<Verdict> awaitVerdict(int timeoutSeconds);

  // Says yes or no on `topic`, without waiting. Every rank votes once on a topic.
  Result<void> castVote(uint64_t topic, bool yes);
  // Waits until all have voted on `topic`; true where all said yes. A rank that has left counts as a
  // no. Waits as long as the others live (a rank may be slow for minutes); close() ends the wait.
  Result<bool> awaitVote(uint64_t topic);

  // Ends the connection and every wait on it; callable from any thread, more than once.
  void close();

 private:
  struct State;
  explicit Agreement(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// This process's host name and host id.
std::string hostName();
uint64_t hostId();

}  // namespace cinch
