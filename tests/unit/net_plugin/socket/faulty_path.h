// A way between two networks that does what bad networks do, by a seed: it delays, hands bytes over
// in small pieces, flips bits, resets connections, and lets some of them go silent for ever.
#pragma once

#include <list>
#include <random>
#include <vector>

#include "common/network/socket.h"

namespace cinch::net {

struct Faults {
  double pause = 0;    // chance, for each visit, that a direction rests for a while
  double flip = 0;     // that a bit of what passes is turned
  double reset = 0;    // that a connection is torn down
  double silence = 0;  // that a direction never says anything again
  size_t maxPiece = 64 << 10;
};

class FaultyPath {
 public:
  FaultyPath(const Endpoint& target, const Faults& faults, uint32_t seed);

  // Where to connect to instead of the target.
  const Endpoint& endpoint() const { return endpoint_; }
  // Moves what is there.
  void step();
  // From now on nothing bad happens any more; what is silent or broken stays so.
  void heal() { faults_ = Faults{}; }
  int nFaults() const { return nFaults_; }

 private:
  struct Direction {
    std::vector<char> held;
    int rests = 0;
    bool isSilent = false;
  };
  struct Connection {
    Socket client;
    Socket server;
    Direction directions[2];
    bool isBroken = false;
  };

  bool happens(double chance);
  void move(Connection& connection, const Socket& from, const Socket& to, Direction& direction);
  void spoil(std::vector<char>& bytes);
  void breakDown(Connection& connection);

  const Endpoint target_;
  Faults faults_;
  std::mt19937 random_;
  Socket listener_;
  Endpoint endpoint_;
  std::list<Connection> connections_;
  int nFaults_ = 0;
};

}  // namespace cinch::net
