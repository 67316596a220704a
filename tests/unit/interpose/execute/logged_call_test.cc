// CTest sets CINCH_CALL_LOG for this program.
#include "interpose/execute/logged_call.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using nlohmann::json;
using test::Work;

constexpr size_t kCount = 40000;

class LoggedCallTest : public testing::Test {
 protected:
  // The log keeps what it has on the fake device.
  static void SetUpTestSuite() { test::resetFakes(); }
  void SetUp() override {
    if (CallLog::instance() == nullptr) GTEST_SKIP() << "not run by CTest";
    ranks_ = test::makeRanks(2);
    for (const auto& rank : ranks_) ASSERT_TRUE(rank->comm->settle().ok());
    nBefore_ = lines().size();
  }

  static std::vector<json> lines() {
    CallLog::instance()->collect();
    std::vector<json> found;
    std::ifstream file(callLogPath(processParams().params) + ".calls.jsonl");
    for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
    return found;
  }
  std::vector<json> logged() const {
    const auto all = lines();
    return {all.begin() + static_cast<ptrdiff_t>(nBefore_), all.end()};
  }
  // One call of both ranks in a group, as the entry points make it.
  void run(const Work& work) const {
    test::groupStart();
    CallLog::instance()->groupStart();
    EXPECT_EQ(work.submit(), ncclSuccess);
    CallLog::instance()->groupEnd(test::groupEnd());
  }

  test::TestRanks ranks_;
  size_t nBefore_ = 0;
};

TEST_F(LoggedCallTest, SaysWhatWasCalledAndWhatBecameOfIt) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  for (int call = 0; call < 5; ++call) run(work);
  const auto found = logged();
  ASSERT_EQ(found.size(), 10u);
  for (size_t i = 0; i < found.size(); ++i) {
    const json& line = found[i];
    const test::Part& part = work.part(static_cast<int>(i % 2));
    EXPECT_EQ(line["kind"], "AllReduce");
    EXPECT_EQ(line["op"], "Sum");
    EXPECT_EQ(line["type"], "fp32");
    EXPECT_EQ(line["count"], kCount);
    EXPECT_EQ(line["root"], -1);
    EXPECT_EQ(line["rank"], i % 2);
    EXPECT_EQ(line["ranks"], 2);
    EXPECT_EQ(line["send"], reinterpret_cast<uintptr_t>(part.call.send));
    EXPECT_EQ(line["recv"], reinterpret_cast<uintptr_t>(part.call.recv));
    EXPECT_EQ(line["thread"], "main");
    EXPECT_EQ(line["result"], 0);
    EXPECT_EQ(part.comm().name.rfind("communicator " + std::to_string(line["comm"].get<int>()), 0),
              0u);
  }
  const char* const outcomes[] = {"warmup", "preparing", "preparing", "compressed", "compressed"};
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i]["outcome"], outcomes[i / 2]) << i;
}

TEST_F(LoggedCallTest, SamplesWhatWasSentAndWhatCame) {
  const Work work(ranks_, CallKind::reduceScatter, kCount);
  run(work);
  const auto found = logged();
  ASSERT_EQ(found.size(), 2u);
  for (int rank = 0; rank < 2; ++rank) {
    const json& line = found[static_cast<size_t>(rank)];
    const auto* sent = static_cast<const float*>(work.part(rank).call.send);
    const auto expected = work.expected(rank);
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_FLOAT_EQ(line["input"][i].get<float>(), sent[(2 * i + 1) * 2 * kCount / 32]);
      EXPECT_FLOAT_EQ(line["output"][i].get<float>(), expected[(2 * i + 1) * kCount / 32]);
    }
  }
}

TEST_F(LoggedCallTest, AMessageHasAPeer) {
  const std::vector<float> values(2000, 7);
  CommState& comm = *ranks_[0]->comm;
  const LoggedCall logging(CallLog::instance(), comm,
                           Message{values.data(), 2000, ncclFloat32, 1, nullptr, true});
  EXPECT_EQ(logging.end(ncclSuccess, Reason::kind), ncclSuccess);
  const auto found = logged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["kind"], "Send");
  EXPECT_EQ(found[0]["root"], 1);
  EXPECT_EQ(found[0]["outcome"], "kind");
  EXPECT_EQ(found[0]["input"], std::vector<float>(16, 7));
  EXPECT_FALSE(found[0].contains("output"));
}

TEST_F(LoggedCallTest, OnlyTheRootOfABroadcastHasAnInput) {
  std::vector<float> values(2000, 5);
  for (int rank = 0; rank < 2; ++rank) {
    CommState& comm = *ranks_[static_cast<size_t>(rank)]->comm;
    const Collective call{
        CallKind::broadcast, values.data(), values.data(), 2000, ncclFloat32, ncclSum, 1, nullptr};
    LoggedCall(CallLog::instance(), comm, call).end(ncclSuccess, Reason::kind);
  }
  const auto found = logged();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FALSE(found[0].contains("input"));
  EXPECT_TRUE(found[1].contains("input"));
  for (const json& line : found) {
    EXPECT_EQ(line["op"], "None");
    EXPECT_EQ(line["root"], 1);
    EXPECT_EQ(line["output"].size(), 16u);
  }
}

TEST_F(LoggedCallTest, DoesNothingWithoutALog) {
  const LoggedCall logging(nullptr, *ranks_[0]->comm, Message{});
  EXPECT_EQ(logging.end(ncclInvalidUsage, Reason::kind), ncclInvalidUsage);
  EXPECT_TRUE(logged().empty());
}

}  // namespace
}  // namespace cinch
