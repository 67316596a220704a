// Where in the training step a communicator's calls stand, who makes them, and the exam of the
// period that was learned.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "interpose/comm/passthrough_notice.h"
#include "interpose/comm/step_exam.h"
#include "interpose/policy/list_gathers.h"
#include "interpose/policy/tentative_sequence.h"

namespace cinch {

// One site of a step whose class is to be found out, or is known; none where `step` is null.
struct SiteExam {
  std::shared_ptr<StepExam> step;
  uint32_t site = 0;
  bool isOfGather = false;    // which is measured only
  SharedFinding scattered{};  // of the ReduceScatter that has just filled the call's buffer
  explicit operator bool() const { return step != nullptr; }
  // Whether what was found to be a shard of gradients is one of what turned out to be none.
  bool isShardOfNoGradients() const {
    return scattered && scattered->load() == SiteFinding::other &&
           step->outcome(site) == Evidence::ofShard;
  }
};

class StepTracker {
 public:
  // `resources` must outlive it; used from the first call that has a place on.
  StepTracker(const CommResources& resources, int nRanks)
      : resources_(resources), nRanks_(nRanks), listGathers_(nRanks) {}

  struct Observed {
    Place place;
    // Of a reduction that has a place, or will have it if the period goes on after a surprise.
    SiteExam exam{};
    std::optional<Evidence> contrary{};  // to its having been found a gradient
    uint64_t periodCalls = 0;  // a number for the calls that the period has, in whatever order
  };
  // A call of the calling thread, to be committed or taken back. `index` is that of its signature,
  // none where the table of signatures is full; `buffer_dev` what it reduces, `root` of a
  // broadcast the rank that has it.
  Observed observe(const Signature& signature, std::optional<uint32_t> index, bool isLarge,
                   const void* buffer_dev, int root);
  void commit();
  void takeBack();

  const Sequence& sequence() const { return sequence_.now(); }

  PassthroughNotice notice;

 private:
  uint64_t periodCalls();
  bool openExam(const Place& place, bool isLost);
  void closeExam();
  CallOrigin originOf(const ListGathers::Call& call);
  void noteGather(const ListGathers::Call& last);  // that ended with this call

  const CommResources& resources_;
  const int nRanks_;
  ListGathers listGathers_;
  TentativeSequence sequence_;
  Callers callers_;
  std::shared_ptr<StepExam> exam_;  // of the learned period
  uint32_t learned_ = 0;            // number of the period that has these calls
  uint64_t periodCalls_ = 0;
};

}  // namespace cinch
