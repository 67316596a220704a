// What a buffer of a generated job holds on each rank, call by call: samples of it, as the product
// would take them.
#pragma once

#include "interpose/policy/value_evidence.h"
#include "tests/identity/random.h"

namespace cinch::identity {

// Neighbours in a buffer, which the samples come in.
inline constexpr size_t kRun = 32;

// The next input of a rank is kept x the last average + mean + noise of its own.
struct Nature {
  float kept = 0;     // 1: weights; near 1: running averages
  float mean = 1;     // of what is the same in all calls
  float turning = 0;  // radians by which the mean turns from call to call
  float noise = 1;
  float positive = 0;  // is added to the mean
  float missing = 0;   // rows of an embedding whose tokens a rank's batch lacks
  float unused = 0;    // all of it is zero on all ranks
  bool isSquared = false;
  bool isWhole = false;  // numbers, as counts are
  bool isOwned = false;  // runs of values that one rank has, and the others not
};

// `canSee`: threads show what they are. Without them their noise has to.
Nature gradients(Random& random, bool canSee = true);
Nature sparseGradients(Random& random, bool canSee = true);
Nature gradientsOfLittleNoise(Random& random);
Nature weights(Random& random);
Nature slowState(Random& random);  // that is alike from step to step, or from rank to rank
Nature activations();
Nature squares(Random& random);
Nature counts(Random& random);
Nature gatheredParts();

class Content {
 public:
  Content(const Nature& nature, uint64_t seed) : nature_(nature), seed_(seed) {}

  struct Facts {
    size_t nRanks = 2;
    bool averages = false;  // else sums
    bool isBfloat16 = false;
  };
  // The inputs of all ranks in this call, and the result.
  std::vector<SampledCall> sample(const Facts& facts);
  // It was made.
  void goOn() { ++nCalls_; }

 private:
  using Values = std::vector<float>;
  std::vector<Values> inputsOf(uint64_t call, const Facts& facts) const;
  Values inputOf(size_t rank, uint64_t call, const Values& mean, const Facts& facts) const;
  void follow(const Facts& facts);
  Values meanOf(uint64_t call) const;

  Nature nature_;
  uint64_t seed_;
  uint64_t nCalls_ = 0;
  Values average_;  // of so many calls, where some of it is kept
  uint64_t nFollowed_ = 0;
};

}  // namespace cinch::identity
