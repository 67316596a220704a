// A job whose periods take what a test says, as it is driven by the interposer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "interpose/policy/selector/selector.h"

namespace cinch::test {

inline constexpr double kMillisecond = 1e6;

class SimulatedJob {
 public:
  using Time = std::function<double(const StepMode&)>;  // ns of a period
  SimulatedJob(const Selector::Options& options, Time time, double noise = 0)
      : selector(options), time_(std::move(time)), noise_(noise), random_(options.seed) {}

  StepMode step() {
    receive();
    const Selector::Residuals residuals = selector.residuals();
    if (residuals.isAsked && (asked_.empty() || asked_.back() != residuals.question)) {
      asked_.push_back(residuals.question);
      dueAt_ = nSteps + latency;
    }
    if (residuals.isAsked && nSteps >= dueAt_ && haveMemory) selector.answer(*haveMemory);
    if (selector.residuals().areHeld) ++nHolding;
    const Selector::Period period = selector.next(shape);
    if (period.sample) endSample();
    if (period.ended) {
      EXPECT_EQ(timings_.size(), period.ended->nSamples);
      sent_.push_back({nSteps + latency, period.ended->block, timings_});
    }
    if (period.sample == 0u) timings_.clear();
    const double time = time_(period.mode) * std::exp(noise_ * normal_(random_));
    spent += time;
    sampled_ += time;
    ++nSampled_;
    ++nSteps;
    ++counts[static_cast<size_t>(period.mode.sending)];
    return period.mode;
  }
  void steps(int n) {
    for (int i = 0; i < n; ++i) step();
  }
  double share(Sending sending) const {
    return static_cast<double>(counts[static_cast<size_t>(sending)]) / static_cast<double>(nSteps);
  }
  size_t nAsked() const { return asked_.size(); }
  double drawn() { return std::uniform_real_distribution<>(0, 1)(random_); }

  Selector selector;
  uint64_t latency = 2;   // steps from the end of a block to its timings
  bool losesAll = false;  // the ranks cannot reduce them
  Selector::Shape shape{};
  std::optional<bool> haveMemory = true;  // none: some rank never says so
  uint64_t nHolding = 0;                  // steps with residuals
  uint64_t nSteps = 0;
  double spent = 0;
  std::array<uint64_t, kSendings> counts{};

 private:
  struct Sent {
    uint64_t due, block;
    std::vector<uint64_t> timings;
  };
  void receive() {
    while (!sent_.empty() && sent_.front().due <= nSteps) {
      const Sent sent = sent_.front();
      sent_.erase(sent_.begin());
      selector.receive(sent.block, losesAll ? std::vector<uint64_t>() : sent.timings);
    }
  }
  void endSample() {
    if (nSampled_ > 0) timings_.push_back(static_cast<uint64_t>(sampled_ / nSampled_));
    sampled_ = nSampled_ = 0;
  }

  Time time_;
  double noise_;
  std::mt19937_64 random_;
  std::normal_distribution<> normal_;
  std::vector<Sent> sent_;
  std::vector<uint64_t> asked_;
  uint64_t dueAt_ = 0;
  std::vector<uint64_t> timings_;
  double sampled_ = 0;
  int nSampled_ = 0;
};

// Compressed periods take so many times the 200 ms of a plain one.
inline SimulatedJob::Time takes(double stateless, double full) {
  return [=](const StepMode& mode) {
    const std::array<double, kSendings> ratios = {1, stateless, full};
    return 200 * kMillisecond * ratios[static_cast<size_t>(mode.sending)];
  };
}

}  // namespace cinch::test
