#include "interpose/execute/examine.h"

#include <chrono>

#include "common/log.h"
#include "interpose/agree/decisions.h"
#include "interpose/comm/background.h"
#include "interpose/comm/caller.h"
#include "interpose/comm/topic.h"
#include "interpose/execute/prepare.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

// How long the copies may take to arrive: they wait for what the device has queued. What has not
// come by then is not known.
constexpr std::chrono::seconds kLongestCopy{30};

uint64_t examTopic(const StepExam::Attempt& attempt) {
  return topicOf(Subject::evidence, {attempt.epoch, attempt.site, attempt.number});
}

// The votes of one rank on sites of a step whose calls have been measured.
class ExamVotes {
 public:
  ExamVotes(std::shared_ptr<CommState> comm, std::shared_ptr<StepExam> step,
            const std::vector<uint32_t>& sites)
      : comm_(std::move(comm)), step_(std::move(step)) {
    for (const uint32_t site : sites) attempts_.push_back(step_->attempt(site));
    if (comm_->layers() != nullptr) period_ = comm_->gradients();
  }

  // False while the device has not come to what was copied.
  bool tryToEnd() const {
    useDevice(*comm_->resources.device, comm_->resources.cudaDevice);
    if (!step_->hasArrived() && !comm_->hasFailed() && Clock::now() < deadline_) return false;
    cast();
    return true;
  }

  void cast() const {
    const bool hasAutograd = hasAutogradThreads();
    for (const StepExam::Attempt& attempt : attempts_) cast(attempt, hasAutograd);
  }

 private:
  // Rank 0 needs evidence, the others only must not see the contrary. What cannot be sent is a no,
  // and so is the leaving that follows.
  void cast(const StepExam::Attempt& attempt, bool hasAutograd) const {
    const ProcessFacts process{
        .reducesFromAutograd = reducesFromAutograd(),
        .ddp = claimOf(attempt.site),
        .hasAutogradThreads = hasAutograd,
        .isPyTorch = hasAutograd || isPyTorchLoaded(),
        .codesGathers = processParams().params.allGather,
    };
    const Evidence found = step_->evidence(attempt.site, process);
    const bool yes = comm_->rank == 0 ? isGradient(found) : !isVeto(found);
    step_->noteBallot(attempt, {found, yes});
    send(examTopic(attempt), found, yes);
  }

  // Where it does not arrive the connection is ending, and nothing comes of it; or it has arrived,
  // and this rank is in doubt.
  void send(uint64_t topic, Evidence found, bool yes) const {
    Agreement& channel = comm_->agreement();
    const auto number = static_cast<uint8_t>(found);
    static_cast<void>(channel.castVote(topic, yes, {&number, comm_->rank == 0 ? 1u : 0u}));
  }

  DdpClaim claimOf(uint32_t site) const {
    if (comm_->layers() == nullptr) return DdpClaim::nothing;
    return comm_->layers()->claimOf(period_, step_->countOf(site), site);
  }

  std::shared_ptr<CommState> comm_;
  std::shared_ptr<StepExam> step_;
  std::vector<StepExam::Attempt> attempts_;
  std::vector<GradientCall> period_;
  Clock::time_point deadline_ = Clock::now() + kLongestCopy;
};

void vote(const std::shared_ptr<CommState>& comm, const std::shared_ptr<StepExam>& step,
          bool isUrgent) {
  if (comm->decisions.isReplayed()) return;
  const std::vector<uint32_t> sites = step->takeUnvoted(isUrgent);
  if (sites.empty()) return;
  const ExamVotes votes(comm, step, sites);
  if (!runInBackground([votes] { return votes.tryToEnd(); })) votes.cast();
}

// What all ranks know of the site from that call on: rank 0's evidence, where nobody vetoed it.
// None where that is not in force yet.
Result<std::optional<Evidence>> outcomeAt(CommState& comm, const SiteExam& exam, uint64_t call) {
  const auto bytes = comm.decisions.take(examTopic(exam.step->attempt(exam.site)), call);
  CINCH_TRY(bytes);
  if (!bytes.value()) return std::optional<Evidence>();
  const auto outcome = outcomeOf(*bytes.value());
  const bool isSent = outcome && outcome->bytes.size() == 1;
  const auto found = isSent ? evidenceOf(outcome->bytes[0]) : std::nullopt;
  if (!found) return errorf(Status::remoteError, "rank 0 has sent no evidence that is known");
  const bool isVetoed = isGradient(*found) && !outcome->allYes;
  return std::optional(isVetoed ? Evidence::anotherRank : *found);
}

// What this rank gives to what it receives.
DeviceValues ownPartOf(const CommState& comm, const Collective& call) {
  const bool scatters = call.kind == CallKind::reduceScatter;
  const uint64_t first = scatters ? call.count * static_cast<uint64_t>(comm.rank) : 0;
  const auto* own = static_cast<const char*>(call.send);
  return {own == nullptr ? nullptr : own + first * bytesOf(call.type), call.count, call.type};
}

// What speaks against the site's having been found a gradient. A thread of another sort may make
// the call: PyTorch averages weights from the main thread, by the same call that reduced gradients
// before; or a loop over gradients goes over weights for once.
std::optional<Evidence> contraryTo(const CommState::Decision& decision) {
  if (!decision.exam || !decision.exam.step->isTaken(decision.exam.site)) return {};
  // The votes on what is scattered and on its shards are cast at once, and may end otherwise.
  if (!decision.contrary && decision.exam.isShardOfNoGradients()) return Evidence::ambiguous;
  return decision.contrary;
}

uint64_t closingTopic(const SiteExam& exam) {
  return exam.step->closingTopic(exam.site);
}

const std::string& nameOf(const CommState::Decision& decision) {
  return decision.slot == nullptr ? decision.call->name : decision.slot->name;
}

// What this rank saw itself says more than that some rank saw it.
void report(const CommState& comm, const CommState::Decision& decision, Evidence outcome) {
  const Evidence own = decision.exam.step->ballot(decision.exam.site).found;
  const bool isOwn = outcome == Evidence::anotherRank && isVeto(own);
  const char* const text = textOf(isOwn ? own : outcome);
  decision.call->evidence.store(text, std::memory_order_relaxed);
  CINCH_INFO("POLICY", "%s: %s is %s: %s", comm.name.c_str(), nameOf(decision).c_str(),
             isGradient(outcome) ? "a gradient" : "not taken for a gradient", text);
}

// All ranks stop compressing the site before this call.
Reason close(const CommState& comm, const CommState::Decision& decision) {
  StepExam& step = *decision.exam.step;
  const uint32_t site = decision.exam.site;
  const Evidence own = step.ballot(site).found;
  const std::optional<Evidence> contrary = contraryTo(decision);
  const Evidence found = contrary ? *contrary : isVeto(own) ? own : Evidence::anotherRank;
  step.close(site, found);
  decision.call->evidence.store(textOf(found), std::memory_order_relaxed);
  CINCH_WARN("POLICY", "%s: %s passes from here on: %s", comm.name.c_str(),
             nameOf(decision).c_str(), textOf(found));
  return reasonOf(found);
}

}  // namespace

Result<void> beginNumbered(CommState& comm, const Signature& signature,
                           CommState::Decision& decision) {
  if (contraryTo(decision)) CINCH_TRY(comm.decisions.wantBeforeNext(closingTopic(decision.exam)));
  const auto number = comm.decisions.claim(signature);
  CINCH_TRY(number);
  decision.number = number.value();
  return {};
}

Result<Reason> examineSite(const std::shared_ptr<CommState>& comm,
                           const CommState::Decision& decision) {
  const SiteExam& exam = decision.exam;
  if (!exam) return Reason::none;
  StepExam& step = *exam.step;
  if (step.phase(exam.site) == StepExam::Phase::measuring) return Reason::preparing;
  if (step.phase(exam.site) == StepExam::Phase::voting) {
    if (step.mustVote(exam.site)) vote(comm, exam.step, true);
    const auto outcome = outcomeAt(*comm, exam, decision.number);
    CINCH_TRY(outcome);
    if (!outcome.value()) return Reason::preparing;
    step.decide(exam.site, *outcome.value());
    if (!isGradient(*outcome.value()) && decision.slot != nullptr) giveBack(*comm, *decision.slot);
    report(*comm, decision, *outcome.value());
  }
  if (step.isTaken(exam.site) && comm->decisions.follows(closingTopic(exam), decision.number))
    return close(*comm, decision);
  return reasonOf(step.outcome(exam.site));
}

bool isMeasured(const CommState::Decision& decision) {
  const bool isLost = decision.reason == Reason::unplaced && decision.exam;
  return decision.reason == Reason::preparing || isLost || decision.exam.isOfGather;
}

void beginMeasured(const CommState& comm, const CommState::Decision& decision,
                   const Collective& call) {
  if (!decision.exam || !isMeasured(decision)) return;
  decision.exam.step->beginCall(decision.exam.site, ownPartOf(comm, call), call.send, call.stream);
}

void endMeasured(const std::shared_ptr<CommState>& comm, const SiteExam& exam,
                 const Collective& call, bool wasPlaced) {
  if (!exam) return;
  exam.step->endCall(exam.site, {call.recv, call.count, call.type}, call.stream);
  if (wasPlaced)
    vote(comm, exam.step, false);
  else if (comm->isOnTrack())
    vote(comm, exam.step, true);
}

void beginAudit(const CommState& comm, const SiteExam& exam, const Collective& call) {
  if (exam) exam.step->beginAudit(exam.site, ownPartOf(comm, call), call.stream);
}

// Who makes the calls is seen at each of them: here it is values that are asked for.
void endAudit(const std::shared_ptr<CommState>& comm, const SiteExam& exam, const Collective& call,
              const void* exact_dev) {
  if (!exam || comm->decisions.isReplayed() || !exam.step->isTaken(exam.site)) return;
  exam.step->endAudit(exam.site, {exact_dev, call.count, call.type}, call.stream);
  const auto attempt = exam.step->attempt(exam.site);
  runInBackground([comm, step = exam.step, attempt, topic = closingTopic(exam),
                   deadline = Clock::now() + kLongestCopy] {
    useDevice(*comm->resources.device, comm->resources.cudaDevice);
    const bool isThere = step->hasArrived();
    if (!isThere && !comm->hasFailed() && Clock::now() < deadline) return false;
    const Evidence found = step->evidence(attempt.site, {.reducesFromAutograd = true});
    if (!isThere || !isVeto(found) || found == Evidence::anotherThread) return true;
    step->noteBallot(attempt, {found, false});
    comm->agreement().decisions().decideSoon(topic);
    return true;
  });
}

}  // namespace cinch
