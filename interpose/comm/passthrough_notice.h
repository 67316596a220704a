// One line in the log where nothing of a communicator is compressed: a user who has turned Cinch on
// wants to know why, and what helps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/policy/reason.h"
#include "interpose/policy/signature.h"

namespace cinch {

// What happens to the calls of one communicator that could be compressed.
class PassthroughNotice {
 public:
  // So many steps are no beginning any more: the period of most jobs is known after four, and one
  // that repeats itself without a known model after some more.
  static constexpr uint32_t kSteps = 50;

  // A call whose signature has that index passed. A text for the log where nothing else has been
  // compressed for kSteps calls like it: the first time, and once more after something was.
  std::string passed(const Signature& signature, uint32_t index, Reason reason);
  void compressed();

 private:
  std::vector<uint32_t> nPassed_;  // by index of the signature, since a call was compressed
  bool isQuiet_ = false;           // the line has been written
  bool hasCompressed_ = false, hasPassed_ = false;
};

}  // namespace cinch
