// The meeting point of one communicator's ranks (bootstrap.h).
#pragma once

#include <list>
#include <memory>
#include <string>

#include "emulator/nccl/frame.h"
#include "emulator/nccl/unique_id.h"

namespace cinch::emulator {

// How often ranks exchange data before the root has done its work.
inline constexpr int kBootstrapRounds = 2;

class BootstrapRoot {
 public:
  BootstrapRoot(Descriptor listener, uint64_t nonce)
      : listener_(std::move(listener)), nonce_(nonce) {}

  // Serves until all ranks have what they need, or the communicator has failed and its ranks have
  // been told, or nobody has come for a long time.
  void serve();

 private:
  // A connection, and the rank it turned out to be.
  struct Guest {
    Descriptor socket;
    FrameReader reader;
    int rank = -1;  // none yet
    std::string name;
    std::optional<std::vector<char>> data;  // for the present round
  };

  bool isDone() const { return roundsDone_ == kBootstrapRounds || hasExpired(); }
  bool hasExpired() const;
  void waitForEvents();
  void admit();
  void serveGuests();
  bool serveGuest(Guest& guest);
  bool handle(Guest& guest, const Frame& frame);
  bool introduce(Guest& guest, const Frame& frame);
  const Guest* guestOf(int rank) const;
  void completeRound();
  void fail(const std::string& reason);
  void sendFailure(const Guest& guest);

  Descriptor listener_;
  const uint64_t nonce_;
  int nRanks_ = 0;  // as the first guest says
  std::string firstName_;
  std::list<Guest> guests_;
  int roundsDone_ = 0;
  std::string failure_;  // empty: none
  Clock::time_point lastEvent_ = Clock::now();
};

}  // namespace cinch::emulator
