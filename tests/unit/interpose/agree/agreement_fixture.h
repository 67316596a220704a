// A server of its own on loopback, with short times, and ranks to greet it.
#pragma once

#include <gtest/gtest.h>

#include <dirent.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "interpose/agree/agreement.h"
#include "interpose/agree/agreement_server.h"
#include "interpose/agree/control_reader.h"
#include "interpose/agree/decisions.h"
#include "interpose/agree/unique_id_stamp.h"

namespace cinch {

inline constexpr int kTestSeconds = 20;  // generous: only a failing test waits for it

using UniqueId = std::array<uint8_t, kUniqueIdBytes>;

inline IpAddress loopback() {
  IpAddress address;
  address.family = Family::ipv4;
  address.bytes = {127, 0, 0, 1};
  return address;
}

inline IpAddress ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  IpAddress address;
  address.family = Family::ipv4;
  address.bytes = {a, b, c, d};
  return address;
}

// Rank `rank` of `nRanks`, on a host of its own named after it.
inline Hello makeHello(int rank, int nRanks) {
  Hello hello;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.settingsHash = 77;
  hello.settings = "CINCH_MODE=on CINCH_CODEC=q8";
  hello.hostId = 1000 + static_cast<uint64_t>(rank);
  hello.host = "host-" + std::to_string(rank);
  return hello;
}

inline Result<Decision> awaitDecision(Agreement& rank, uint64_t topic,
                                      int timeoutSeconds = kTestSeconds) {
  const auto awaited =
      rank.decisions().await(topic, deadlineIn(std::chrono::seconds(timeoutSeconds)));
  CINCH_TRY(awaited);
  if (awaited.value()) return *awaited.value();
  return errorf(Status::remoteError, "one has left");
}
// False also where the ranks have not decided, and never will.
inline bool allSaidYes(Agreement& rank, uint64_t topic) {
  const auto decided = awaitDecision(rank, topic);
  const auto outcome = decided.ok() ? outcomeOf(decided.value().bytes) : std::nullopt;
  EXPECT_TRUE(outcome || rank.decisions().isOver());
  return outcome && outcome->allYes;
}

inline size_t openDescriptors() {
  size_t n = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++n;
  closedir(folder);
  return n;
}

// Once the process's reader has closed the connections of the test before, whose ends it sees
// later.
inline size_t settledDescriptors() {
  for (size_t before = openDescriptors();;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const size_t now = openDescriptors();
    if (now == before) return now;
    before = now;
  }
}

class AgreementFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    limits_.helloTime = std::chrono::milliseconds(300);
    limits_.reportTime = std::chrono::milliseconds(200);
    ASSERT_TRUE(ControlReader::ofProcess().ok());  // its descriptor is the process's, not a test's
    startServer();
  }

  void startServer() {
    server_.reset();
    auto started = AgreementServer::start(loopback(), limits_);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = std::move(started.value());
  }

  UniqueId newId() {
    UniqueId id;
    for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<uint8_t>(i * 37 + 1);
    auto served = server_->serve(id.data());
    EXPECT_TRUE(served.ok());
    return id;
  }

  static std::unique_ptr<Agreement> greet(const UniqueId& id, const Hello& hello) {
    auto greeted = Agreement::greet(id.data(), hello, kTestSeconds);
    EXPECT_TRUE(greeted.ok()) << greeted.error().message;
    return greeted.ok() ? std::move(greeted.value()) : nullptr;
  }

  static std::unique_ptr<Agreement> greetChild(const Agreement& parent, uint64_t ordinal,
                                               int64_t part, const Hello& hello) {
    auto greeted = Agreement::greetChild(parent, ordinal, part, hello, kTestSeconds);
    EXPECT_TRUE(greeted.ok()) << greeted.error().message;
    return greeted.ok() ? std::move(greeted.value()) : nullptr;
  }

  // A rank of a child that the others have given up: turned away, or told so; not left waiting.
  static void expectTurnedAway(const Agreement& parent, uint64_t ordinal, int64_t part,
                               const Hello& hello) {
    auto greeted = Agreement::greetChild(parent, ordinal, part, hello, kTestSeconds);
    if (!greeted.ok()) {
      EXPECT_EQ(greeted.error().status, Status::remoteError);
      return;
    }
    auto verdict = greeted.value()->awaitVerdict(kTestSeconds);
    ASSERT_TRUE(verdict.ok()) << verdict.error().message;
    EXPECT_FALSE(verdict.value().compress);
  }

  using Ranks = std::vector<std::unique_ptr<Agreement>>;

  static Ranks greetAll(const UniqueId& id, const std::vector<Hello>& hellos) {
    Ranks ranks;
    for (const Hello& hello : hellos) ranks.push_back(greet(id, hello));
    return ranks;
  }

  static Ranks greetAll(const UniqueId& id, int nRanks) {
    std::vector<Hello> hellos;
    for (int rank = 0; rank < nRanks; ++rank) hellos.push_back(makeHello(rank, nRanks));
    return greetAll(id, hellos);
  }

  // What all ranks are told, at once; fails unless they are told the same.
  static Verdict verdictOfAll(const Ranks& ranks) {
    std::vector<Verdict> verdicts(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        auto told = ranks[i]->awaitVerdict(kTestSeconds);
        ASSERT_TRUE(told.ok()) << told.error().message;
        verdicts[i] = told.value();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Verdict& verdict : verdicts) {
      EXPECT_EQ(verdict.compress, verdicts[0].compress);
      EXPECT_EQ(verdict.reason, verdicts[0].reason);
      EXPECT_EQ(verdict.hostIds, verdicts[0].hostIds);
    }
    return verdicts[0];
  }

  ServerLimits limits_;
  std::unique_ptr<AgreementServer> server_;
};

}  // namespace cinch
