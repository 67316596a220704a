// Seeded chaos: over a path that does what bad networks do, a message arrives right or its request
// fails; nothing hangs, nothing is wrong, nothing is left behind.
//
// CINCH_CHAOS_RUNS says how many seeds (default 30), CINCH_CHAOS_SEED where they begin.
#include <dirent.h>

#include <cstdlib>

#include "net_plugin/log.h"
#include "tests/unit/net_plugin/socket/faulty_path.h"
#include "tests/unit/net_plugin/socket/two_networks.h"

namespace cinch::net {
namespace {

int numberIn(const char* name, int fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : atoi(text);
}

int openDescriptors() {
  int n = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++n;
  closedir(folder);
  return n;
}

struct Connection {
  SendEnd send;
  ReceiveEnd receive;
  std::vector<std::vector<char>> sent;
  std::vector<std::vector<char>> got;
  std::vector<std::shared_ptr<OutgoingMessage>> outgoing;
  std::vector<std::shared_ptr<IncomingMessage>> incoming;
};

class Chaos : public TwoNetworks {
 protected:
  // What goes wrong depends on the seed, from nearly nothing to nearly everything.
  static Faults faultsOf(std::mt19937& random) {
    const auto upTo = [&](double most) {
      return random() % 3 == 0 ? 0 : most * std::uniform_real_distribution<>()(random);
    };
    Faults faults;
    faults.pause = upTo(0.05);
    faults.flip = upTo(0.002);
    faults.reset = upTo(0.0005);
    faults.silence = upTo(0.0002);
    faults.maxPiece = random() % 2 == 0 ? 64 << 10 : 1 << (9 + random() % 6);
    return faults;
  }

  void stepAll() {
    step();
    if (path != nullptr) path->step();
  }

  bool connectOver(Connection& connection, const Faults& faults, uint32_t seed) {
    Invitation invitation = there->invite();
    if (path == nullptr) {
      path = std::make_unique<FaultyPath>(invitation.endpoints[0], faults, seed);
    }
    invitation.endpoints = {path->endpoint()};
    connection.send = here->connect(invitation);
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < deadline) {
      stepAll();
      const Result<bool> opened = connection.send.link->isOpened(*connection.send.channel);
      if (!opened) return false;
      const WaitingChannel waiting = there->accept(invitation.token);
      if (waiting.link != nullptr) connection.receive = {waiting.link, waiting.channel};
      if (opened.value() && connection.receive.link != nullptr) return true;
    }
    ADD_FAILURE() << "neither connected nor failed";
    return false;
  }

  static void postNext(Connection& connection, std::mt19937& random, size_t nMessages) {
    if (connection.outgoing.size() < nMessages && random() % 4 == 0) {
      const size_t i = connection.outgoing.size();
      auto posted = connection.send.link->post(*connection.send.channel, connection.sent[i].data(),
                                               connection.sent[i].size());
      if (posted.ok() && posted.value() != nullptr) connection.outgoing.push_back(posted.value());
    }
    if (connection.incoming.size() < nMessages && random() % 4 == 0) {
      const size_t i = connection.incoming.size();
      auto posted = connection.receive.link->post(
          connection.receive.channel, connection.got[i].data(), connection.got[i].size());
      if (posted.ok() && posted.value() != nullptr) connection.incoming.push_back(posted.value());
    }
  }

  template <class Messages>
  static bool allEnded(const Messages& messages) {
    for (const auto& message : messages) {
      if (!hasEnded(message)) return false;
    }
    return true;
  }

  bool isOver(Connection& connection, size_t nMessages) {
    const bool failed = !isOpened(connection.send) || connection.receive.link->hasFailed();
    const bool posted =
        connection.outgoing.size() == nMessages && connection.incoming.size() == nMessages;
    return (posted || failed) && allEnded(connection.outgoing) && allEnded(connection.incoming);
  }

  void check(const Connection& connection) {
    for (size_t i = 0; i < connection.incoming.size(); ++i) {
      if (connection.incoming[i]->outcome != Outcome::done) continue;
      ++nDone;
      ASSERT_EQ(connection.incoming[i]->total(), connection.sent[i].size()) << "message " << i;
      ASSERT_TRUE(connection.got[i] == connection.sent[i])
          << "message " << i << " of " << connection.sent[i].size() << " bytes";
    }
  }

  // What a hang looks like.
  static std::string describe(const std::vector<Connection>& connections) {
    std::string text;
    for (const Connection& connection : connections) text += "\n  " + describe(connection);
    return text;
  }
  static std::string describe(const Connection& connection) {
    std::string text = isOpened(connection.send) ? "sender open" : "sender failed";
    text += connection.receive.link->hasFailed() ? ", receiver failed" : ", receiver open";
    for (const auto& message : connection.outgoing) {
      text += " s" + std::to_string(static_cast<int>(message->outcome.load()));
    }
    for (const auto& message : connection.incoming) {
      text += " r" + std::to_string(static_cast<int>(message->outcome.load()));
    }
    return text + ", flows missing " + std::to_string(connection.send.link->missingFlows().size()) +
           " and " + std::to_string(connection.receive.link->missingFlows().size());
  }

  void run(uint32_t seed) {
    std::mt19937 random(seed);
    SocketSettings settings = quickSettings(1 + static_cast<int>(random() % 4));
    settings.timeout = std::chrono::seconds(2);
    open(settings);
    const Faults faults = faultsOf(random);
    constexpr size_t kMessages = 8;
    std::vector<Connection> connections(1 + random() % 3);
    for (Connection& connection : connections) {
      for (size_t i = 0; i < kMessages; ++i) {
        const size_t size = random() % 3 == 0 ? random() % 20000 : random() % 200000;
        connection.sent.push_back(randomBytes(size, random()));
        connection.got.emplace_back(size);
      }
      if (!connectOver(connection, faults, seed)) return;
    }
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    bool over = false;
    while (!over) {
      ASSERT_LT(Clock::now(), deadline) << "hangs: " << describe(connections);
      over = true;
      for (Connection& connection : connections) {
        postNext(connection, random, kMessages);
        over = isOver(connection, kMessages) && over;
      }
      stepAll();
    }
    for (const Connection& connection : connections) check(connection);
    for (Connection& connection : connections) {
      connection.send.link->close(connection.send.channel);
      connection.receive.link->close(connection.receive.channel);
    }
    nFaults += path->nFaults();
  }

  std::unique_ptr<FaultyPath> path;
  int nDone = 0;
  int nFaults = 0;
};

TEST_F(Chaos, ArrivesRightOrFails) {
  if (getenv("CINCH_CHAOS_LOG") != nullptr) {
    setLogSink([](LogLevel, const char*, int, const char* text) { fprintf(stderr, "%s\n", text); });
  }
  const int first = numberIn("CINCH_CHAOS_SEED", 1);
  const int runs = numberIn("CINCH_CHAOS_RUNS", 30);
  const int descriptors = openDescriptors();
  for (int seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(static_cast<uint32_t>(seed));
    if (HasFailure()) return;
    here.reset();
    there.reset();
    path.reset();
    ASSERT_EQ(openDescriptors(), descriptors) << "left open";
  }
  EXPECT_GT(nDone, runs) << "hardly anything got through: the chaos is too strong to test anything";
  EXPECT_GT(nFaults, runs);
  RecordProperty("messages", nDone);
  RecordProperty("faults", nFaults);
  printf("%d seeds, %d messages right, %d faults\n", runs, nDone, nFaults);
}

}  // namespace
}  // namespace cinch::net
