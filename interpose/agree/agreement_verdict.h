// What the server tells all ranks, from what they said of themselves. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/network/ip_address.h"
#include "interpose/agree/agreement.h"

namespace cinch {

// A rank that said hello.
struct Member {
  Hello hello;
  IpAddress from;                // where its connection comes from
  bool isAwaited = false;        // it has agreed elsewhere, and is still to come
  bool left = false;             // its part has ended,
  bool isLost = false;           // and that by the end of its connection
  bool reported = false;         // it has said that its real init returned
  std::vector<IpAddress> own;    // its host's addresses, once reported
  std::vector<IpAddress> peers;  // whom its process is connected to, once reported
};

// `members` holds each rank at most once and is not empty; `server` is the server's own address;
// `conflict` is what could not be stored as a member ("rank 3 greeted twice"), or empty. Ranks are
// named with their hosts; at most a few, the rest are counted.
Verdict judge(const std::vector<Member>& members, const IpAddress& server,
              const std::string& conflict);

// "rank 3 on host gpu-17"
std::string rankOnHost(const Hello& hello);

// Why not, where a rank has left before the verdict.
std::string leftTooEarly(const Hello& hello);

// The words of `theirs` whose like `ours` lacks, beside ours: "CINCH_CODEC=q4 there, q8 on rank 0".
// Both are "NAME=value NAME=value"; empty where no word differs.
std::string settingsDifference(const std::string& theirs, const std::string& ours, int ourRank);

// Where rank `missing`, which never said hello, probably runs: addresses that the ranks beside it
// talk to (NCCL's bootstrap ring) and that no known rank has; else the host of the ranks beside it
// with the fewest known ranks. "10.0.0.7", "host gpu-17", or empty.
std::string whereabouts(int missing, const std::vector<Member>& members, const IpAddress& server);

}  // namespace cinch
