// Random captures over several streams, replayed, against a model of what CUDA orders.
//
// The model gives every captured stream a vector clock: how many tasks of each stream must have run
// in a launch before its next one. Each task checks its clock against what has run when it runs.

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <random>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

constexpr int kStreams = 5;  // 0 is the origin
constexpr int kEvents = 4;
constexpr int kSteps = 120;
constexpr int kLaunches = 20;

using Clock = std::array<int, kStreams>;

void join(Clock& clock, const Clock& other) {
  for (int s = 0; s < kStreams; ++s) clock[s] = std::max(clock[s], other[s]);
}

struct Progress {
  std::array<std::atomic<int>, kStreams> ran{};
  Clock perLaunch{};  // tasks; complete before the first launch
  std::atomic<int> violations{0};
};

struct ModelTask {
  Progress* progress;
  int stream;
  Clock before;
  int launches = 0;

  // Earlier launches are done, this one has come as far as the clock says, no later one has begun.
  void operator()() {
    for (int s = 0; s < kStreams; ++s) {
      const int done = launches * progress->perLaunch[s];
      const int least = done + before[s];
      const int most = s == stream ? least : done + progress->perLaunch[s];
      const int ran = progress->ran[s].load();
      if (ran < least || ran > most) ++progress->violations;
    }
    ++launches;
    ++progress->ran[stream];
  }
};

// One random program: the model and the capture take the same steps.
class RandomCapture {
 public:
  explicit RandomCapture(unsigned int seed) : random_(seed) {
    for (auto& stream : streams_)
      stream = std::make_unique<TestStream>(pick(2) ? cudaStreamDefault : cudaStreamNonBlocking);
  }

  void run() {
    const TestGraph graph(*streams_[0], [&] {
      member_[0] = true;
      for (int e = 0; e < kEvents; ++e) record(e, 0);  // so that forks come early
      for (int i = 0; i < kSteps; ++i) step();
      for (int s = 1; s < kStreams; ++s)
        if (member_[s]) order(*streams_[s], *streams_[0], events_[0]);
    });
    for (int i = 0; i < kLaunches; ++i)
      ASSERT_CUDA_OK(cudaGraphLaunch(graph, *streams_[pick(kStreams)]));
    ASSERT_CUDA_OK(cudaDeviceSynchronize());
    EXPECT_EQ(progress_.violations, 0);
    for (int s = 0; s < kStreams; ++s)
      EXPECT_EQ(progress_.ran[s], kLaunches * progress_.perLaunch[s]);
    EXPECT_GT(tasks_.size(), size_t{kSteps} / 4);
  }

 private:
  int pick(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  void step() {
    const int stream = pick(kStreams), event = pick(kEvents);
    switch (pick(4)) {
      case 0:
        return record(event, stream);
      case 1:
        return wait(stream, event);
      default:
        return addTask(stream);
    }
  }

  void record(int event, int stream) {
    if (!member_[stream]) return;
    recorded_[event] = true;
    eventClocks_[event] = clocks_[stream];
    EXPECT_CUDA_OK(cudaEventRecord(events_[event], *streams_[stream]));
  }

  void wait(int stream, int event) {
    if (!recorded_[event]) return;
    member_[stream] = true;
    join(clocks_[stream], eventClocks_[event]);
    EXPECT_CUDA_OK(cudaStreamWaitEvent(*streams_[stream], events_[event]));
  }

  void addTask(int stream) {
    if (!member_[stream]) return;
    tasks_.push_back({&progress_, stream, clocks_[stream]});
    clocks_[stream][stream] = ++progress_.perLaunch[stream];
    launch(*streams_[stream], tasks_.back());
  }

  std::mt19937 random_;
  Progress progress_;
  std::deque<ModelTask> tasks_;
  std::array<std::unique_ptr<TestStream>, kStreams> streams_;
  std::array<TestEvent, kEvents> events_;
  std::array<bool, kStreams> member_{};
  std::array<bool, kEvents> recorded_{};
  std::array<Clock, kStreams> clocks_{};
  std::array<Clock, kEvents> eventClocks_{};
};

TEST(GraphOrder, randomCapturesKeepTheModelsOrder) {
  for (unsigned int seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomCapture(seed).run();
  }
}

// The checker itself: a task that runs too early is seen, and one that runs too often.
TEST(GraphOrder, theModelSeesAMissingWaitAndAnOverlap) {
  Progress progress;
  progress.perLaunch = {1, 1, 0, 0, 0};
  ModelTask early{&progress, 1, {1, 0, 0, 0, 0}};
  early();
  EXPECT_EQ(progress.violations, 1);
  progress.ran[0] = 2;  // the second launch's too, before the first is done with stream 1
  progress.ran[1] = 0;
  ModelTask late{&progress, 1, {1, 0, 0, 0, 0}};
  late();
  EXPECT_EQ(progress.violations, 2);
}

}  // namespace
}  // namespace cinch::cudart
