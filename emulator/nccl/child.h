// Communicators made from another one: which of its ranks they hold, and how these meet.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/bootstrap.h"

namespace cinch::emulator {

// What a rank says in a split.
struct Choice {
  int32_t colour;
  int32_t key;
};

// The ranks that chose `colour`, ordered by key, those of equal keys by rank.
std::vector<int> membersOf(const std::vector<Choice>& choices, int colour);

// The ranks from 0 to `nRanks` - 1 that are not excluded.
std::vector<int> remainingRanks(int nRanks, const std::vector<int>& excluded);

// Where the children of a communicator are born: every rank listens, and the lowest rank that takes
// part is the host. One birth at a time.
class Maternity {
 public:
  static Result<std::unique_ptr<Maternity>> open();
  ~Maternity() { close(); }

  const Address& address() const { return address_; }
  // Plays the root for the next child, whose ranks say `nonce`, until they have what they need.
  Result<void> host(uint64_t nonce);

 private:
  Maternity(Descriptor listener, const Address& address)
      : listener_(std::move(listener)), address_(address) {}
  void close();

  const Descriptor listener_;
  const Address address_;
  std::unique_ptr<BootstrapRoot> root_;
  std::thread thread_;  // serves root_
};

}  // namespace cinch::emulator
