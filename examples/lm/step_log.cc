#include "examples/lm/step_log.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace lm {
namespace {

// As text: a reader of JSON may hold numbers as doubles, which cannot tell 64-bit hashes apart.
std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

StepLog::StepLog(const std::string& path, bool progress, int steps)
    : progress_(progress), steps_(steps) {
  if (path.empty()) return;
  file_.open(path);
  if (!file_) throw std::runtime_error("cannot write log " + path + ": " + std::strerror(errno));
}

void StepLog::add(const StepRecord& record) {
  file_ << nlohmann::json{{"step", record.step},
                          {"loss", record.loss},
                          {"t_enter", record.reduction.entered},
                          {"t_done", record.reduction.done},
                          {"t_step", record.seconds},
                          {"rx_bytes", record.counters.received},
                          {"tx_bytes", record.counters.sent}}
        << std::endl;
  if (!progress_) return;
  std::fprintf(stderr, "\rstep %d/%d  loss %.4f  %.0f ms a step ", record.step + 1, steps_,
               record.loss, record.seconds * 1e3);
  if (record.step + 1 == steps_) std::fputc('\n', stderr);
}

void StepLog::add(const EvaluationRecord& record) {
  file_ << nlohmann::json{{"eval_step", record.step},
                          {"train_s", record.trainSeconds},
                          {"held_out", record.loss},
                          {"hash", hex(record.parameterHash)}}
        << std::endl;
}

void StepLog::finish(const EvaluationRecord& first, const EvaluationRecord& last,
                     size_t parameters) {
  file_ << nlohmann::json{{"final", true},
                          {"held_out_first", first.loss},
                          {"held_out", last.loss},
                          {"hash", hex(last.parameterHash)},
                          {"parameters", parameters}}
        << std::endl;
  if (progress_)
    std::fprintf(stderr, "held-out loss %.4f -> %.4f nats per byte in %.1f s; parameters %s\n",
                 first.loss, last.loss, last.trainSeconds, hex(last.parameterHash).c_str());
}

}  // namespace lm
