// A job of many ranks, every one with a connection to and from every other, under the limit of
// descriptors that systems have by default.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "tests/net/chaos/connection.h"
#include "tests/net/chaos/failure.h"
#include "tests/net/chaos/process.h"

namespace cinch::chaos {
namespace {

constexpr int kMostRanks = 64;
constexpr auto kPatience = std::chrono::seconds(240);
constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 1'000'000};

// Where ranks leave word for each other.
struct Board {
  std::atomic<int> nReached{0};                // ranks times steps
  std::atomic<int> descriptors[kMostRanks]{};  // the most that a rank has seen
  Handle handles[kMostRanks][kMostRanks]{};    // of a listener, for a sender
};

Board* makeBoard() {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CINCH_CHECK(memory != MAP_FAILED, "out of memory");
  return new (memory) Board;
}

class Rank {
 public:
  Rank(Board& board, int rank, int nRanks)
      : board_(board), rank_(rank), nRanks_(nRanks), net_(NET_PLUGIN_PATH), ends_(nRanks) {}

  void run() {
    listenToAll();
    meet();
    while (!haveAll()) visitAll();
    meet();  // nobody closes what a peer still waits for
  }

 private:
  // What leads to one of the others, and what comes from it.
  struct End {
    void* listener = nullptr;
    Handle handle{};
    std::unique_ptr<Connection> out;
    std::unique_ptr<Connection> in;
    LaneProgress progress[2];
  };

  // The lane of a connection from one rank to another; every lane has side 0 for its sender.
  static Plan planOf(int from, int to) {
    Plan plan = {.seed = static_cast<uint32_t>(from * kMostRanks + to), .nMessages = 1};
    plan.maxBytes = 64;
    while (senderOf(plan, 0) != 0) plan.seed += kMostRanks * kMostRanks;
    return plan;
  }

  void listenToAll() {
    for (int peer = 0; peer < nRanks_; ++peer) {
      if (peer == rank_) continue;
      CINCH_CHECK(
          net_(&PluginCalls::listen, 0, board_.handles[rank_][peer].data(), &ends_[peer].listener),
          "listen fails: %s", lastWarning().c_str());
    }
  }

  void meet() {
    ++nMet_;
    ++board_.nReached;
    while (board_.nReached < nMet_ * nRanks_) nanosleep(&kPause, nullptr);
    for (int peer = 0; peer < nRanks_ && nMet_ == 1; ++peer) {
      ends_[peer].handle = board_.handles[peer][rank_];
    }
  }

  void connectTo(int peer) {
    End& end = ends_[peer];
    void* comm = nullptr;
    CINCH_CHECK(net_(&PluginCalls::connect, 0, end.handle.data(), &comm), "connect fails: %s",
                lastWarning().c_str());
    if (comm == nullptr) return;
    end.out =
        std::make_unique<Connection>(net_, planOf(rank_, peer), Spot{}, 0, comm, end.progress[0]);
  }

  void acceptFrom(int peer) {
    End& end = ends_[peer];
    void* comm = nullptr;
    CINCH_CHECK(net_(&PluginCalls::accept, end.listener, &comm), "accept fails: %s",
                lastWarning().c_str());
    if (comm == nullptr) return;
    CINCH_CHECK(net_(&PluginCalls::closeListen, end.listener), "closeListen fails");
    end.in =
        std::make_unique<Connection>(net_, planOf(peer, rank_), Spot{}, 1, comm, end.progress[1]);
    noteDescriptors();
  }

  static void visit(Connection& connection) {
    if (connection.state() == Connection::State::moving) connection.visit();
    CINCH_CHECK(connection.state() != Connection::State::failed, "%s", lastWarning().c_str());
  }

  void visitAll() {
    for (int peer = 0; peer < nRanks_; ++peer) {
      if (peer == rank_) continue;
      End& end = ends_[peer];
      end.out == nullptr ? connectTo(peer) : visit(*end.out);
      end.in == nullptr ? acceptFrom(peer) : visit(*end.in);
    }
    sched_yield();
  }

  void noteDescriptors() {
    board_.descriptors[rank_] = std::max(board_.descriptors[rank_].load(), openDescriptors());
  }

  static bool isDone(const std::unique_ptr<Connection>& connection) {
    return connection != nullptr && connection->state() == Connection::State::done;
  }

  bool haveAll() const {
    for (int peer = 0; peer < nRanks_; ++peer) {
      if (peer != rank_ && !(isDone(ends_[peer].out) && isDone(ends_[peer].in))) return false;
    }
    return true;
  }

  Board& board_;
  const int rank_;
  const int nRanks_;
  Net net_;
  std::vector<End> ends_;
  int nMet_ = 0;
};

void runRank(Board& board, int rank, int nRanks, rlim_t limit) {
  const rlimit both = {limit, limit};
  CINCH_CHECK(setrlimit(RLIMIT_NOFILE, &both) == 0, "no such limit");
  Rank(board, rank, nRanks).run();
}

// All ranks at once, each with no more than `limit` descriptors.
void runRanks(int nRanks, rlim_t limit) {
  Board* board = makeBoard();
  Progress& progress = *makeProgress();
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < nRanks; ++rank) {
    processes.push_back(std::make_unique<Process>(
        "rank " + std::to_string(rank), progress,
        [=](const Post&, Progress&) { runRank(*board, rank, nRanks, limit); }));
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (const auto& process : processes) {
    while (!process->ended()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "hangs: " << process->whereabouts();
      nanosleep(&kPause, nullptr);
    }
    ASSERT_EQ(*process->ended(), 0) << process->name() << ": " << describeEnd(*process->ended());
  }
  int most = 0;
  for (const auto& descriptors : board->descriptors) most = std::max(most, descriptors.load());
  EXPECT_GT(most, nRanks) << "fewer than one flow to each peer";
  printf("%d ranks, a limit of %d descriptors: %d at most in one process\n", nRanks,
         static_cast<int>(limit), most);
}

TEST(ManyRanks, SixteenStayWithinAQuarterOfTheLimit) {
  runRanks(16, 1024 / 4);
}

TEST(ManyRanks, SixtyFourStayWithinTheLimit) {
  runRanks(64, 1024);
}

}  // namespace
}  // namespace cinch::chaos
