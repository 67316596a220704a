// The messages of the agreement channel as bytes, and the one parser of what a peer sends. Pure.
//
//   offset  bytes  frame, integers little-endian
//   0       4      magic "CAGR"
//   4       4      type
//   8       4      n, bytes of payload
//   12      4      channel: which rank of the connecting process, on which communicator
//   16      n      payload
//
// A payload is its message's fields in order: integers little-endian, a text or a list after its
// length or count. A hello's fields never change from version to version, so that ranks of
// different versions can name each other; a later version may only append: version 2 has `parent`,
// and leaves empty the text after the host's name, in which version 1 named its process; version 5
// has the links of its device, and a name for the communicator; version 7 has where its process
// serves, version 10 the proof of a key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/network/ip_address.h"
#include "common/network/secret.h"
#include "common/result.h"
#include "interpose/agree/agreement.h"
#include "interpose/agree/decision_record.h"

namespace cinch {

inline constexpr int kMaxRanks = 65536;
inline constexpr size_t kMaxAddresses = 1024;  // in each list of a report
inline constexpr size_t kMaxTrail = 64;        // hashes in one message

inline constexpr uint64_t kNoParent = 0;

// Rank to server.
struct HelloMessage {
  uint64_t nonce = 0;  // names the session
  Hello hello;
  uint64_t parent = kNoParent;  // the session of the communicator that this one was made from
  // That the rank's process has a key (channel_key.h); zeros: it has none.
  Random number{};
  Proof proof{};
};
// "My real init has returned", and where this rank's host and the hosts that it talks to are.
struct Initialised {
  std::vector<IpAddress> own;
  std::vector<IpAddress> peers;
};
struct Vote {
  uint64_t topic = 0;
  bool yes = false;
  std::vector<uint8_t> bytes{};  // kMaxDecided at most; rank 0's go to all with the outcome
};

// Rank to server: it waits no longer for the others. Its yes on that topic is a no, unless all had
// voted before.
struct Retraction {
  uint64_t topic = 0;
};
// Server to rank: a vote was taken back. The no is in force on all ranks from no call on, so that
// it needs no promises.
struct Missed {
  uint64_t topic = 0;
};

// What a rank measured: the ranks learn the smallest of each figure.
struct Figures {
  uint64_t topic = 0;
  std::vector<uint64_t> values;  // kMaxFigures at most
};

// Rank to server: to be decided from that call on, or kNoOrdinal: from one that nobody waits for.
// Only rank 0 has bytes to send.
struct Proposal {
  uint64_t topic = 0;
  uint64_t ordinal = 0;
  std::vector<uint8_t> bytes{};  // kMaxDecided at most
};
// Server to rank: will it wait before that call for the outcome? Rounds are numbered from 1. Where
// the server insists, an open group is no reason to refuse.
struct Prepare {
  uint64_t round = 0;
  uint64_t ordinal = 0;
  bool insists = false;
};
// Rank to server. It has claimed so many calls, and needs so many ahead of them so as not to wait.
struct Prepared {
  enum class Answer : uint8_t {
    accepted,
    claimed,  // it has made that call
    busy      // it has an NCCL group open, and can promise nothing
  };
  uint64_t round = 0;
  Answer answer{};
  uint64_t claimed = 0;
  uint64_t lead = 0;
};
// Server to rank, where all have accepted: in force from that call on.
struct Commit {
  uint64_t round = 0;
  uint64_t ordinal = 0;
  std::vector<Decision> decisions{};
  auto operator<=>(const Commit&) const = default;
};
// Server to rank: the round is over, and no later one is about a call below `openBelow`;
// kNoOrdinal: there will be none.
struct Withdraw {
  uint64_t round = 0;
  uint64_t openBelow = 0;
};

// Rank to server: hashes of its first `first` calls, of `first` + `stride`, and so on
// (call_trail.h).
struct Trail {
  uint64_t first = 0;
  uint64_t stride = 0;
  std::vector<uint64_t> hashes{};  // kMaxTrail at most
};
// Server to rank: two ranks do not make the same calls. As far as is known they do so in their
// first `alike` calls, and no longer in their first `differs` ones.
struct Difference {
  uint64_t alike = 0;
  uint64_t differs = 0;
  uint32_t rank = 0;
  uint32_t other = 0;
};

// Server to rank, besides Verdict.
struct Acknowledged {
  Proof proof{};  // of the key, where the hello has one
};
struct Rejected {
  std::string reason;
};
// Rank to server, over a connection of its own: it had accepted that round when its connection
// ended, and asks what came of it. The answer is Acknowledged and then Commit or Withdraw, or
// Rejected where that is not known. Its part in the session is over.
struct Inquiry {
  HelloMessage from;
  uint64_t round = 0;
};

// Rank to server: it has no more use for the session. So has everybody whose connection ends.
struct Leave {};

// The nonce of the session of a communicator made from that of `parent` (Agreement::greetChild).
uint64_t childNonce(uint64_t parent, uint64_t ordinal, int64_t part);

using Bytes = std::vector<uint8_t>;
using Message = std::variant<HelloMessage, Initialised, Vote, Acknowledged, Rejected, Verdict,
                             Figures, Proposal, Prepare, Prepared, Commit, Withdraw, Leave,
                             Retraction, Missed, Trail, Difference, Inquiry>;

// Two processes have one connection, whatever the number of their ranks and communicators: a
// channel is what one rank of the connecting process has to do with one session. That process
// numbers them.
using Channel = uint32_t;
inline constexpr Channel kFirstChannel = 1;

struct Frame {
  Channel channel = 0;
  Message message;
};

// A whole frame. Texts and lists beyond their limits are cut.
Bytes encodeMessage(const Message& message, Channel channel = kFirstChannel);

// Takes bytes as they arrive and gives messages as they complete.
class MessageReader {
 public:
  // Frames with a longer payload are refused: a stranger may make us hold little.
  void setLimit(uint32_t maxPayload) { maxPayload_ = maxPayload; }
  void append(const uint8_t* bytes, size_t n);

  // The next whole message, none where bytes are missing. An error is final: what was sent is not
  // this protocol. Every text in a message is printable and bounded.
  Result<std::optional<Frame>> next();

 private:
  Bytes bytes_;
  size_t done_ = 0;
  uint32_t maxPayload_ = 0;
};

inline constexpr uint32_t kMaxHelloBytes = 8 << 10;
inline constexpr uint32_t kMaxRankBytes = 64 << 10;   // from a rank that has said hello
inline constexpr uint32_t kMaxServerBytes = 1 << 20;  // from the server

}  // namespace cinch
