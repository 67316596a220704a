// A generated job: the calls of one communicator with threads, values and what they hold in truth.
#pragma once

#include <string>
#include <vector>

#include "tests/identity/content.h"
#include "tests/unit/interpose/policy/job_model.h"

namespace cinch::identity {

// What one stream came to.
struct StreamResult {
  uint64_t nWrong = 0;                              // compressed calls that hold no gradients
  uint64_t expectedBytes = 0, compressedBytes = 0;  // of gradients that can be known by then
};

// What is taken away from the ranks, to see whether it matters.
struct Disabled {
  Vetoes vetoes;
  bool threads = false;
};

class Stream {
 public:
  Stream(uint64_t seed, const Disabled& disabled);

  Random random;
  const int nRanks;
  const bool hasAutograd;  // gradients come from autograd threads
  const bool isPyTorch;    // of the process, whose main thread reduces where no other does
  const ncclDataType_t type;
  const OpClass op;

  Caller backward() const { return hasAutograd ? Caller::autograd : Caller::other; }

  // Values of a large call.
  uint64_t largeCount();
  Content content(const Nature& nature) { return {nature, random.bits()}; }

  void broadcast(uint64_t count);
  // Of weights, unless `features` are gathered.
  void gather(uint64_t count, Caller caller = Caller::other, Content* features = nullptr);
  // Gradients count as found, or not, from the step on that expect() names.
  void gradients(uint64_t count, Content& content, Caller caller,
                 CallKind kind = CallKind::allReduce);
  void others(uint64_t count, Content& content, Caller caller = Caller::other,
              CallKind kind = CallKind::allReduce);
  // Another communicator of this process reduces gradients.
  void reduceElsewhere();

  void nextStep() { ++step_; }
  int step() const { return step_; }
  // Evidence is sufficient, and could be known by `step`. It is not where PyTorch reduces outside
  // of the backward pass.
  void expect(int step) { expectedFrom_ = hasAutograd || !isPyTorch ? step : -1; }
  void expectNothing() { expectedFrom_ = -1; }

  const StreamResult& result() const { return result_; }

 private:
  bool call(const Signature& signature, Content* content, Caller caller);
  bool reduce(CallKind kind, uint64_t count, Content& content, Caller caller);

  Content weights_;
  test::JobModel job_;
  int step_ = 0, expectedFrom_ = -1;
  StreamResult result_;
};

// The period of a model that was broadcast is learned in three steps, then it is measured.
inline constexpr int kLearned = 3, kKnown = kLearned + static_cast<int>(kMeasuredCalls);
// One that nothing says the size of, in four; after its exam the ranks get ready, in three calls.
inline constexpr int kKnownAmbiguous = 4 + static_cast<int>(kMeasuredCalls) + 3;

struct Kind {
  const char* name;
  void (*run)(Stream& stream);
};
// That hold gradients, and maybe more; and that hold none, but for what is beside.
extern const std::vector<Kind> kGradientKinds, kOtherKinds;

}  // namespace cinch::identity
