// What frameworks send, recorded, replayed through the policy. See tests/traces/README.md.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/interpose/policy/replay.h"

namespace cinch {
namespace {

using TraceNames = std::set<std::string>;

// What is wrong today. Whoever puts one right takes it off its list.
//
// Gradients that are never compressed: all of them could be, but for
// - Horovod's buffers, whose content is a matter of time;
// - ddp_deep and ddp_resnet50, which were recorded with the same batches on both ranks: the input
//   is the result then, as weights are, which is a veto;
// - ddp_powersgd_hook, whose large reductions end in the fifth step, while they are measured;
// - zero1_deep and zero2_deep, of which six steps were recorded.
// Megatron-core's reductions come from the main thread, and nothing is gathered beside them. So do
// those of loop_over_gradients, and of ddp_backward_on_main_thread, where what DDP sends is not
// recorded.
const TraceNames kNeverCompressed = {"ddp_counts_beside_gradients",
                                     "ddp_backward_on_main_thread",
                                     "ddp_deep",
                                     "ddp_powersgd_hook",
                                     "ddp_resnet50",
                                     "horovod",
                                     "jax_scan",
                                     "loop_over_gradients",
                                     "megatron_ddp",
                                     "megatron_tensor_and_data_parallel",
                                     "megatron_tensor_parallel",
                                     "zero1_deep",
                                     "zero2_deep"};
// Gradients that are compressed later than in the twelfth step, or not again for long after an
// evaluation or a change of the buckets: some steps should do. ddp_gan's generator gets the same
// noise on both ranks, which is the veto again; who makes the broadcasts of a list is not recorded,
// so that unequal gathers are taken for new parameters here; ddp_wrapped_three_times begins three
// times.
const TraceNames kPartlyCompressed = {"accelerate_accumulation",
                                      "ddp_evaluation_with_unequal_gathers",
                                      "ddp_evaluation_with_unequal_gathers_old",
                                      "ddp_frozen_midway",
                                      "ddp_gan",
                                      "ddp_wrapped_three_times",
                                      "fsdp2_deep_evaluations",
                                      "fsdp2_deep_hybrid",
                                      "zero3_deep"};

// Of all communicators of a trace.
struct Outcome {
  uint64_t gradients = 0, compressed = 0, wrongCalls = 0;
  uint64_t lateGradients = 0, lateCompressed = 0;
};

// bench/report adaptive reads what these tests record.
void recordFigures(const std::string& name, const test::Replay& found) {
  const double nGradients = static_cast<double>(std::max<uint64_t>(found.lateGradients, 1));
  testing::Test::RecordProperty(name + ".locked_step", found.lockedStep);
  testing::Test::RecordProperty(name + ".wrong",
                                static_cast<int>(found.wrongSlots + found.wrongCalls));
  testing::Test::RecordProperty(
      name + ".right", std::to_string(static_cast<double>(found.lateCompressed) / nGradients));
}

template <class See>
Outcome replayAll(const std::string& name, const See& see) {
  const test::Trace trace = test::readTrace(name);
  Outcome outcome;
  for (int comm = 0; comm < static_cast<int>(trace.nRanks.size()); ++comm) {
    const test::Replay found = test::replay(trace, comm);
    see(comm, found);
    outcome.gradients += found.gradients;
    outcome.compressed += found.compressed;
    outcome.wrongCalls += found.wrongCalls;
    outcome.lateGradients += found.lateGradients;
    outcome.lateCompressed += found.lateCompressed;
  }
  return outcome;
}

Outcome replayAll(const std::string& name) {
  return replayAll(name, [](int, const test::Replay&) {});
}

TEST(Traces, NoResidualIsEverOnAWrongSlot) {
  ASSERT_GE(test::traceNames().size(), 20u);
  for (const std::string& name : test::traceNames()) {
    const auto see = [&name](int comm, const test::Replay& found) {
      EXPECT_EQ(found.wrongSlots, 0u) << name << " communicator " << comm;
      recordFigures(comm == 0 ? name : name + "_" + std::to_string(comm), found);
    };
    replayAll(name, see);
  }
}

TEST(Traces, WhatHoldsNoGradientsIsNeverCompressed) {
  for (const std::string& name : test::traceNames())
    EXPECT_EQ(replayAll(name).wrongCalls, 0u) << name;
}

TEST(Traces, GradientsAreCompressedFromTheTwelfthStepOn) {
  for (const std::string& name : test::traceNames()) {
    const Outcome outcome = replayAll(name);
    if (outcome.gradients == 0) continue;
    const bool isRight = outcome.lateCompressed * 100 >= outcome.lateGradients * 99;
    EXPECT_EQ(outcome.compressed == 0, kNeverCompressed.contains(name)) << name;
    EXPECT_EQ(outcome.compressed > 0 && !isRight, kPartlyCompressed.contains(name))
        << name << ": " << outcome.lateCompressed << " of " << outcome.lateGradients;
  }
}

TEST(Traces, WhatIsKnownToBeWrongIsThere) {
  for (const TraceNames& names : {kNeverCompressed, kPartlyCompressed})
    for (const std::string& name : names) EXPECT_FALSE(test::readTrace(name).calls.empty());
}

TEST(Traces, WhatCannotBeToldApartGetsNoFeedback) {
  for (const char* name :
       {"horovod", "megatron_tensor_parallel", "tensor_parallel", "tensor_parallel_by_sequence"}) {
    const test::Trace trace = test::readTrace(name);
    for (int comm = 0; comm < static_cast<int>(trace.nRanks.size()); ++comm)
      EXPECT_EQ(test::replay(trace, comm).withFeedback, 0u) << name << " communicator " << comm;
  }
}

}  // namespace
}  // namespace cinch
