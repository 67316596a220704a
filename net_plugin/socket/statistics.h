// What the net plugin's report says at one moment, and how it looks as text and as JSON. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cinch::net {

// What happened at one place among a link's flows, whichever connections have been there.
struct FlowCounters {
  uint64_t openings = 0;
  uint64_t failedOpenings = 0;
  uint64_t losses = 0;     // while there were connections that use it
  uint64_t sentBytes = 0;  // that the kernel took; without handshakes
  uint64_t receivedBytes = 0;
  uint64_t retransmissions = 0;  // TCP segments
  uint64_t chunks = 0;           // that were sent, and those of them that were sent again here,
  uint64_t repeatedChunks = 0;   // since another flow was late with them
  uint64_t damagedChunks = 0;    // that arrived
  uint64_t quarantines = 0;      // how often it was too slow, or stalled
};

struct FlowFigures {
  FlowCounters counters;
  std::string local;  // addresses, of the last connection; empty: there was none
  std::string remote;
  bool isOpen = false;
  double bytesPerSecond = 0;  // 0: not known
  uint32_t roundTripUs = 0;   // smoothed; 0: not open
};

struct PeerFigures {
  std::string name;
  bool isGone = false;  // the link is not there any more
  std::string error;    // why it failed; empty: it did not
  std::vector<FlowFigures> flows;
};

struct NetworkFigures {
  std::string device;
  uint64_t strangers = 0;       // connections that were no peer's
  uint64_t failedAccepts = 0;   // errors of the system, who else there may have been is not known
  uint64_t forgottenPeers = 0;  // gone for so long that their figures are, too
  std::vector<PeerFigures> peers;
};

// Adds what happened at another flow, or before.
void add(FlowCounters& counters, const FlowCounters& more);

// Tables for people.
std::string formatText(const NetworkFigures& network);

// An object with "format": 1.
std::string formatJson(const NetworkFigures& network);

}  // namespace cinch::net
