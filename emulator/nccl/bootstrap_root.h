// The meeting point of one communicator's ranks (bootstrap.h).
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>

#include "emulator/nccl/frame.h"
#include "emulator/nccl/unique_id.h"
#include "emulator/nccl/wakeup.h"

namespace cinch::emulator {

// How often the ranks of a communicator exchange data while it is set up.
inline constexpr int kBootstrapRounds = 2;

class BootstrapRoot {
 public:
  // `rounds`: how often the ranks exchange data before the root has done its work.
  BootstrapRoot(Descriptor listener, uint64_t nonce, int rounds)
      : listener_(std::move(listener)), nonce_(nonce), rounds_(rounds) {}

  // Serves until all ranks have what they need, or the communicator has failed and its ranks have
  // been told, or nobody has come for a long time, or stop() was called.
  void serve();
  // From any thread. What a rank that is here was promised it still gets.
  void stop();

 private:
  // Whether a rank is of this process (or of one with its number on another host).
  enum class Place { here, elsewhere };
  // A connection, and the rank it turned out to be.
  struct Guest {
    Descriptor socket;
    FrameReader reader;
    int rank = -1;  // none yet
    Place place = Place::elsewhere;
    std::string name;
    std::optional<std::vector<char>> data;  // for the present round
  };

  bool isDone() const { return roundsDone_ == rounds_ || stopping_.load() || hasExpired(); }
  bool hasExpired() const;
  void waitForEvents();
  void admit();
  void serveGuests();
  bool serveGuest(Guest& guest);
  bool handle(Guest& guest, const Frame& frame);
  bool introduce(Guest& guest, const Frame& frame);
  const Guest* guestOf(int rank) const;
  void completeRound();
  bool tell(const std::vector<char>& all, Place place);
  void fail(const std::string& reason);
  void sendFailure(const Guest& guest);

  Descriptor listener_;
  const uint64_t nonce_;
  const int rounds_;
  std::atomic<bool> stopping_{false};
  Wakeup wakeup_;
  int nRanks_ = 0;  // as the first guest says
  std::string firstName_;
  std::list<Guest> guests_;
  int roundsDone_ = 0;
  std::string failure_;  // empty: none
  Clock::time_point lastEvent_ = Clock::now();
};

}  // namespace cinch::emulator
