#include "interpose/comm/call_log.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using nlohmann::json;
using test::fakeDevice;
using test::fakeDeviceTable;

TEST(FormatCall, IsALineOfJson) {
  CallRecord call;
  call.ordinal = 7;
  call.time = 12.5;
  call.nRanks = 4;
  call.kind = "AllReduce";
  call.thread = "a \"name\" \xff";
  call.input = std::vector<double>{0.1, std::numeric_limits<double>::quiet_NaN()};
  const std::string line = formatCall(call);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const json read = json::parse(line);
  EXPECT_EQ(read["call"], 7);
  EXPECT_EQ(read["time"], 12.5);
  EXPECT_EQ(read["ranks"], 4);
  EXPECT_EQ(read["kind"], "AllReduce");
  EXPECT_EQ(read["input"], json::parse("[0.1, null]"));
  EXPECT_FALSE(read.contains("output"));
}

TEST(ThreadName, IsThatOfTheSystem) {
  EXPECT_EQ(threadName(), "main");
  std::string name;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    name = threadName();
  }).join();
  EXPECT_EQ(name, "pt_autograd_0");
}

class CallLogTest : public testing::Test {
 protected:
  // The log keeps what it has on the fake device.
  static void SetUpTestSuite() { test::resetFakes(); }
  void SetUp() override { ASSERT_TRUE(log_->open().ok()); }
  void TearDown() override {
    test::setEventsPending(false);
    fakeDevice().captures.clear();
    log_->finish();
    std::filesystem::remove(path_);
  }

  std::vector<json> lines() const {
    std::vector<json> found;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
    return found;
  }
  // Those of the lines that have come.
  std::vector<json> awaitLines(size_t n) const {
    while (lines().size() < n) {
      std::this_thread::yield();
      log_->collect();
    }
    return lines();
  }

  DeviceValues values() const { return {values_.data(), values_.size(), ncclFloat32}; }
  CallLog::Handle begin(const char* kind, CallPlace place = {&fakeDeviceTable(), 0, nullptr}) {
    CallRecord call;
    call.kind = kind;
    return log_->begin(call, place, values(), values());
  }
  static void end(const CallLog::Handle& entry, ncclResult_t result = ncclSuccess) {
    log_->end(entry, result, "warmup");
  }

  static inline const std::string path_ =
      testing::TempDir() + "call_log_test." + std::to_string(getpid());
  // The background thread keeps it.
  static inline CallLog* const log_ = new CallLog(path_);
  std::vector<float> values_ = std::vector<float>(1024, 3);
};

TEST_F(CallLogTest, WritesCallsInTheirOrderWithTheirValues) {
  const auto first = begin("AllReduce"), second = begin("Broadcast");
  end(second);
  values_.assign(values_.size(), 4);
  end(first);
  const auto found = awaitLines(2);
  EXPECT_EQ(found[0]["kind"], "AllReduce");
  EXPECT_EQ(found[0]["input"], std::vector<float>(16, 3));
  EXPECT_EQ(found[0]["output"], std::vector<float>(16, 4));
  EXPECT_EQ(found[0]["outcome"], "warmup");
  EXPECT_EQ(found[0]["result"], 0);
  EXPECT_EQ(found[1]["kind"], "Broadcast");
  EXPECT_EQ(found[1]["call"], found[0]["call"].get<int>() + 1);
  EXPECT_GE(found[1]["time"], found[0]["time"]);
}

TEST_F(CallLogTest, ALineWaitsForItsSamplesAndTheLinesBefore) {
  test::setEventsPending(true);
  end(begin("AllReduce"));
  end(begin("Reduce", {}));
  log_->collect();
  EXPECT_TRUE(lines().empty());
  test::setEventsPending(false);
  EXPECT_EQ(awaitLines(2)[1]["kind"], "Reduce");
}

TEST_F(CallLogTest, WithoutADeviceThereAreNoValues) {
  end(begin("AllReduce", {}));
  EXPECT_FALSE(awaitLines(1)[0].contains("input"));
}

TEST_F(CallLogTest, NothingIsAddedToACapture) {
  fakeDevice().captures[nullptr] = 5;
  const auto before = fakeDevice().count("copy") + fakeDevice().count("eventRecord");
  end(begin("AllReduce"));
  EXPECT_EQ(fakeDevice().count("copy") + fakeDevice().count("eventRecord"), before);
  const auto found = awaitLines(1);
  EXPECT_EQ(found[0]["captured"], true);
  EXPECT_FALSE(found[0].contains("input"));
}

TEST_F(CallLogTest, ACallOfAGroupHasItsOutputWhenTheGroupHasEnded) {
  log_->groupStart();
  log_->groupStart();
  const auto entry = begin("AllReduce");
  end(entry);
  log_->groupEnd(ncclSuccess);
  log_->collect();
  EXPECT_TRUE(lines().empty()) << "the outer group is open";
  values_.assign(values_.size(), 9);
  log_->groupEnd(ncclSuccess);
  const auto found = awaitLines(1);
  EXPECT_GT(found[0]["group"], 0);
  EXPECT_EQ(found[0]["output"], std::vector<float>(16, 9));
  end(begin("AllReduce"));
  EXPECT_EQ(awaitLines(2)[1]["group"], 0);
}

TEST_F(CallLogTest, WhatIsNotLaunchedYetOrRefusedHasNoOutput) {
  for (const ncclResult_t result : {ncclInProgress, ncclInvalidArgument}) {
    end(begin("AllReduce"), result);
    log_->groupStart();
    end(begin("AllReduce"));
    log_->groupEnd(result);
  }
  const auto found = awaitLines(4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i]["result"], static_cast<int>(i < 2 ? ncclInProgress : ncclInvalidArgument));
    EXPECT_TRUE(found[i].contains("input"));
    EXPECT_FALSE(found[i].contains("output"));
  }
}

TEST_F(CallLogTest, SmallIntegerMessagesAreKeptAsAWhole) {
  const std::vector<int32_t> message = {4, 5, 6};
  const DeviceValues received{message.data(), message.size(), ncclInt32};
  CallRecord call;
  call.kind = "Broadcast";
  end(log_->begin(call, {&fakeDeviceTable(), 0, nullptr}, {nullptr, 0, ncclInt32}, received));
  call.kind = "AllReduce";
  end(log_->begin(call, {&fakeDeviceTable(), 0, nullptr}, received, received));
  const auto found = awaitLines(2);
  EXPECT_EQ(found[0]["output"], message);
  EXPECT_FALSE(found[1].contains("output"));
}

TEST_F(CallLogTest, TheEndWritesWhatWaits) {
  test::setEventsPending(true);
  end(begin("AllReduce"));
  const auto open = begin("Broadcast");
  log_->finish();
  const auto found = lines();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["result"], 0);
  EXPECT_EQ(found[1]["result"], -1) << "it has not returned";
  test::setEventsPending(false);
  end(open);
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(CallLogTest, AFileThatCannotBeWrittenIsAnError) {
  const auto opened = CallLog("/dev/null/none").open();
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("CINCH_CALL_LOG"), std::string::npos);
}

TEST_F(CallLogTest, ThreadsHaveGroupsOfTheirOwn) {
  log_->groupStart();
  std::thread([&] {
    // No device: the fake knows one thread of the program's.
    end(begin("Reduce", {}));
  }).join();
  log_->groupEnd(ncclSuccess);
  const auto found = awaitLines(1);
  EXPECT_EQ(found[0]["group"], 0);
  EXPECT_NE(found[0]["thread"], "main");
}

}  // namespace
}  // namespace cinch
