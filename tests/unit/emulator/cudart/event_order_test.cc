// Random programs over streams and events against a model of what CUDA orders.
//
// The model gives every stream a vector clock: how many tasks of each stream must have run before
// its next one. Each task checks its clock against what has run when it runs.

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <random>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

constexpr int kStreams = 6;   // 0 is the null stream
constexpr int kBlocking = 3;  // streams 1 to 3 are blocking, the others are not
constexpr int kEvents = 5;
constexpr int kSteps = 600;

using Clock = std::array<int, kStreams>;

void join(Clock& clock, const Clock& other) {
  for (int s = 0; s < kStreams; ++s) clock[s] = std::max(clock[s], other[s]);
}

class Model {
 public:
  // An operation on `stream`: returns what must have run before it.
  const Clock& operate(int stream) {
    if (stream == 0) {
      for (int s = 1; s <= kBlocking; ++s) join(clocks_[0], clocks_[s]);
    } else if (stream <= kBlocking) {
      join(clocks_[stream], clocks_[0]);
    }
    return clocks_[stream];
  }
  Clock addTask(int stream) {
    const Clock before = operate(stream);
    ++clocks_[stream][stream];
    return before;
  }
  void record(int event, int stream) { events_[event] = operate(stream); }
  // Not an operation of its own: on the null stream it need not order the blocking streams.
  void wait(int stream, int event) { join(clocks_[stream], events_[event]); }

 private:
  std::array<Clock, kStreams> clocks_{};
  std::array<Clock, kEvents> events_{};
};

struct Progress {
  std::array<std::atomic<int>, kStreams> ran{};
  std::atomic<int> violations{0};
};

struct ModelTask {
  Progress* progress;
  int stream;
  Clock before;

  void operator()() const {
    for (int s = 0; s < kStreams; ++s) {
      const int ran = progress->ran[s].load();
      if (s == stream ? ran != before[s] : ran < before[s]) ++progress->violations;
    }
    ++progress->ran[stream];
  }
};

// One random program: the model and the runtime take the same steps.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned int seed) : random_(seed) {
    for (int s = 1; s < kStreams; ++s) {
      const unsigned int flags = s <= kBlocking ? cudaStreamDefault : cudaStreamNonBlocking;
      owned_[s] = std::make_unique<TestStream>(flags);
      streams_[s] = *owned_[s];
    }
    for (auto& event : events_)
      event = std::make_unique<TestEvent>(pick(2) ? cudaEventDefault : cudaEventDisableTiming);
  }

  void run() {
    for (int i = 0; i < kSteps; ++i) step();
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
    EXPECT_EQ(progress_.violations, 0);
    int ran = 0;
    for (const auto& count : progress_.ran) ran += count;
    EXPECT_EQ(ran, static_cast<int>(tasks_.size()));
    EXPECT_GT(ran, kSteps / 4);
  }

 private:
  int pick(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  void step() {
    // The null stream less often: it joins the blocking streams, which hides missing waits.
    const int stream = pick(8) == 0 ? 0 : 1 + pick(kStreams - 1);
    const int event = pick(kEvents);
    switch (pick(5)) {
      case 0:
        model_.record(event, stream);
        EXPECT_CUDA_OK(cudaEventRecord(*events_[event], streams_[stream]));
        break;
      case 1:
        model_.wait(stream, event);
        EXPECT_CUDA_OK(cudaStreamWaitEvent(streams_[stream], *events_[event]));
        break;
      default:
        tasks_.push_back({&progress_, stream, model_.addTask(stream)});
        launch(streams_[stream], tasks_.back());
    }
  }

  std::mt19937 random_;
  Progress progress_;
  Model model_;
  std::deque<ModelTask> tasks_;
  std::array<std::unique_ptr<TestStream>, kStreams> owned_;
  std::array<cudaStream_t, kStreams> streams_{};
  std::array<std::unique_ptr<TestEvent>, kEvents> events_;
};

TEST(EventOrder, randomProgramsKeepTheModelsOrder) {
  for (unsigned int seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram(seed).run();
  }
}

// The checker itself: a task that runs too early is seen.
TEST(EventOrder, theModelSeesAMissingWait) {
  Progress progress;
  Model model;
  model.addTask(4);
  model.record(0, 4);
  model.wait(5, 0);
  const ModelTask early{&progress, 5, model.addTask(5)};
  early();
  EXPECT_EQ(progress.violations, 1);
}

}  // namespace
}  // namespace cinch::cudart
