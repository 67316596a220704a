#include "tests/fuzz/builder.h"

namespace cinch::fuzz {

Builder::Builder(uint64_t seed, std::vector<int> processOf, int nStreams)
    : random(seed), nStreams_(nStreams), streams_(0, nStreams) {
  program_.seed = seed;
  program_.nStreams = nStreams;
  program_.ranks.resize(processOf.size());
  program_.processOf = std::move(processOf);
}

int Builder::addComm(std::vector<int> members, bool nonBlocking) {
  program_.comms.push_back({std::move(members), nonBlocking});
  return static_cast<int>(program_.comms.size()) - 1;
}

}  // namespace cinch::fuzz
