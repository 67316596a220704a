#include "interpose/comm/comm_plan.h"

#include <utility>

#include "common/param.h"
#include "common/text_file.h"
#include "interpose/comm/plan_file.h"

namespace cinch {
namespace {

Error of(const std::string& setting, const Error& error) {
  return errorf(error.status, "CINCH_PLAN=%s: %s", setting.c_str(), error.message.c_str());
}

Result<ProcessPlan> readPlan(const std::string& text) {
  const auto setting = parsePlanSetting(text);
  if (!setting.ok()) return of(text, setting.error());
  ProcessPlan plan{setting.value(), {}};
  if (plan.setting.use != PlanSetting::Use::replay) return plan;
  const auto content = readTextFile(expandPath(plan.setting.path));
  if (!content.ok()) return of(text, content.error());
  auto replayed = parseRecordedPlan(content.value());
  if (!replayed.ok()) return of(text, replayed.error());
  plan.replayed = std::move(replayed.value());
  return plan;
}

bool hasUse(PlanSetting::Use use) {
  return processPlan().ok() && processPlan().value().setting.use == use;
}

}  // namespace

const Result<ProcessPlan>& processPlan() {
  // Never destroyed: communicators may outlive the process's statics.
  static const auto* const plan = new Result<ProcessPlan>(readPlan(processParams().params.plan));
  return *plan;
}

std::string agreedPlan() {
  const bool isReplayed = hasUse(PlanSetting::Use::replay);
  return isReplayed ? processPlan().value().replayed.fingerprint() : "none";
}

Result<void> CommPlan::begin(std::string communicator, const PlannedComm& now, bool isRecorder) {
  communicator_ = std::move(communicator);
  isRecorded_ = isRecorder && hasUse(PlanSetting::Use::record);
  if (isRecorded_) PlanFile::ofProcess().add(commLine(communicator_, now));
  if (!hasUse(PlanSetting::Use::replay)) return {};
  replayed_ = &processPlan().value().replayed;
  const auto fits = replayed_->fits(communicator_, now);
  return fits.ok() ? fits : of(processParams().params.plan, fits.error());
}

bool CommPlan::knows(uint64_t slot) const {
  return !isReplayed() || replayed_->knows(keyOf(slot));
}

std::vector<PlannedDecision> CommPlan::decisionsAt(uint64_t call) const {
  return replayed_->decisionsAt(communicator_, call);
}

void CommPlan::noteSlot(uint64_t slot, const std::string& name) const {
  if (isRecorded_) PlanFile::ofProcess().add(slotLine(keyOf(slot), name));
}

void CommPlan::note(const PlannedDecision& decision) const {
  if (isRecorded_) PlanFile::ofProcess().add(decisionLine(communicator_, decision));
}

void CommPlan::finish() const {
  if (isRecorded_) PlanFile::ofProcess().flush();
}

}  // namespace cinch
