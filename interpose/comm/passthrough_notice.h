// One line in the log where nothing of a communicator is compressed, or where most of what it sends
// are gathers that pass: a user who has turned Cinch on wants to know why, and what helps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/stats.h"
#include "interpose/policy/reason.h"
#include "interpose/policy/signature.h"

namespace cinch {

// What happens to the calls of one communicator that could be compressed.
class PassthroughNotice {
 public:
  // So many steps are no beginning any more: the period of most jobs is known after four, and one
  // that repeats itself without a known model after some more.
  static constexpr uint32_t kSteps = 50;

  // A call passed whose signature has that index, and `timesPerStep` calls of a step have. A text
  // for the log where nothing else has been compressed for kSteps steps of it: the first time, and
  // once more after something was.
  std::string passed(const Signature& signature, uint32_t index, uint32_t timesPerStep,
                     Reason reason);
  void compressed();
  // A gather passed that could be coded. A text for the log, once, where such gathers are most of
  // what `stats` says was sent beside what is compressed.
  std::string gathered(const CommStats& stats);
  // Nothing will be said before a call is compressed again, or ever.
  bool isQuiet() const { return isQuiet_; }

 private:
  // By index of the signature, since a call was compressed: how many passed, and why the last one
  // did that was not just being measured.
  std::vector<uint32_t> nPassed_;
  std::vector<Reason> reasons_;
  bool isQuiet_ = false;  // the line has been written
  bool hasCompressed_ = false;
  uint64_t nGathered_ = 0;
  // So many gathers are looked at next, UINT64_MAX where the line has been written. The beginning
  // of a job passes whatever it is, so it is looked at again after twice as many.
  uint64_t nextLook_ = kSteps;
};

}  // namespace cinch
