#include "tests/unit/kernels/cuda/simt.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/kernels/cuda/fibre.h"

cinch::simt::Index threadIdx, blockIdx, gridDim, blockDim;

namespace cinch::simt {
namespace {

constexpr uint32_t kWarpThreads = 32;
// CTAs at a time: each kind of order between three can come.
constexpr size_t kResidentCtas = 3;

bool isSame(const Place& a, const Place& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

// Barriers and fences by their places: all that were met are written to the file that
// CINCH_SIMT_BARRIERS names, and the one that CINCH_SIMT_WITHOUT names orders no memory. Nothing in
// it allocates memory on a fibre, which ThreadSanitizer would take for the device's.
class Barriers {
 public:
  ~Barriers() {
    const char* const path = std::getenv("CINCH_SIMT_BARRIERS");
    FILE* const file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    for (ptrdiff_t i = 0; i < nMet_; ++i) fprintf(file, "%s:%u\n", fileOf(met_[i]), met_[i].line());
    fclose(file);
  }

  bool ordersMemory(const Place& place) {
    if (std::none_of(met_.begin(), met_.begin() + nMet_,
                     [&](const Place& each) { return isSame(each, place); })) {
      if (nMet_ == std::ssize(met_)) fail("more barriers than there is room for");
      met_[nMet_++] = place;
    }
    return place.line() != withoutLine_ || std::strcmp(fileOf(place), withoutFile_.c_str()) != 0;
  }

 private:
  static const char* fileOf(const Place& place) {
    const char* const slash = std::strrchr(place.file_name(), '/');
    return slash ? slash + 1 : place.file_name();
  }

  static std::string without() {
    const char* const name = std::getenv("CINCH_SIMT_WITHOUT");
    return name ? name : "";
  }

  std::array<Place, 100> met_;
  ptrdiff_t nMet_ = 0;
  const std::string withoutFile_ = without().substr(0, without().find(':'));
  const uint32_t withoutLine_ =
      withoutFile_.empty() ? 0 : std::stoul(without().substr(withoutFile_.size() + 1));
};
Barriers barriers;

// Opens once as many threads as belong to it have arrived, then closes again.
struct Gate {
  uint32_t size = 0;
  uint32_t arrived = 0;
  uint64_t generation = 0;
  Place place = {};  // of those that wait
  // What a generation releases and acquires. The next but one comes when all have left.
  char tokens[2] = {};
};

// The memory that the threads of a CTA have in common, full of nonsense at first. Nobody may touch
// what no kind of it takes.
class SharedMemory {
 public:
  SharedMemory() {
    constexpr int kNonsense = 0xff;  // NaN, or the largest number
    std::memset(block_.get(), kNonsense, kBytes);
    forbidMemory(block_.get(), kBytes);
  }

  void* ofKind(const void* kind, size_t nBytes) {
    for (size_t i = 0; i < nKinds_; ++i)
      if (kinds_[i] == kind) return block_.get() + offsets_[i];
    const size_t offset = end_;
    end_ = (offset + nBytes + kGap + 15) / 16 * 16;
    if (end_ > kBytes || nKinds_ == kMostKinds) fail("more shared memory than there is");
    kinds_[nKinds_] = kind;
    offsets_[nKinds_++] = offset;
    allowMemory(block_.get() + offset, nBytes);
    return block_.get() + offset;
  }

 private:
  static constexpr size_t kBytes = 48 * 1024;  // what CUDA gives a CTA that asks for nothing
  static constexpr size_t kGap = 64;
  static constexpr size_t kMostKinds = 4;

  std::unique_ptr<std::byte[]> block_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  std::array<const void*, kMostKinds> kinds_;
  std::array<size_t, kMostKinds> offsets_;
  size_t nKinds_ = 0;
  size_t end_ = 0;
};

struct Cta {
  Index block;
  std::vector<Gate> warps;
  Gate all;
  std::vector<uint64_t> given;  // by each thread, for the others of its warp
  uint32_t nSo = 0;             // of the threads that are counted
  SharedMemory shared;
  uint32_t nLeft = 0;
};

void runThread();

struct Thread {
  Fibre fibre = Fibre(runThread);
  Cta* cta = nullptr;
  uint32_t index = 0;
  // A fence publishes, by the atomics that follow, what was before it; and lets what follows it
  // read what others had published by the atomics before it.
  char fenced = 0, drawn = 0;
  Courier publisher, reader;
};

// The grid that runs.
struct Grid {
  const std::function<void()>* thread = nullptr;
  Fibre* scheduler = nullptr;
  Thread* current = nullptr;
  bool progressed = false;
  char begin = 0, end = 0;  // what happens before, and after, all of it
};
Grid grid;

// One for each resident thread; never fewer again, since they are costly to make.
std::deque<Thread>& threads() {
  static std::deque<Thread> all;
  return all;
}

void toScheduler() {
  grid.current->fibre.switchTo(*grid.scheduler);
}

void runThread() {
  grid.current->fibre.arrive();
  for (;;) {
    Thread& self = *grid.current;
    acquireMemory(&grid.begin);
    (*grid.thread)();
    releaseMemory(&grid.end);
    --self.cta->nLeft;
    self.cta = nullptr;
    grid.progressed = true;
    toScheduler();
  }
}

void wait(Gate& gate, const Place& place, bool ordersMemory) {
  if (gate.arrived > 0 && !isSame(gate.place, place)) fail("threads wait at different collectives");
  gate.place = place;
  char* const token = &gate.tokens[gate.generation % 2];
  if (ordersMemory) releaseMemory(token);
  if (++gate.arrived == gate.size) {
    gate.arrived = 0;
    ++gate.generation;
    grid.progressed = true;
  } else {
    const uint64_t generation = gate.generation;
    while (gate.generation == generation) toScheduler();
  }
  if (ordersMemory) acquireMemory(token);
}

Cta& currentCta() {
  return *grid.current->cta;
}

Gate& warpGate() {
  return currentCta().warps[threadIdx.x / kWarpThreads];
}

std::mt19937& random() {
  static std::mt19937 generator(1);
  return generator;
}

// The CTAs of a grid, some at a time.
class Scheduler {
 public:
  explicit Scheduler(Dim dim) : dim_(dim), nLeft_(dim.grid.x * dim.grid.y * dim.grid.z) {
    const size_t nThreads = std::min<size_t>(kResidentCtas, nLeft_) * dim.nThreads;
    while (threads().size() < nThreads) threads().emplace_back();
    resident_.resize(std::min<size_t>(kResidentCtas, nLeft_));
  }

  void run() {
    for (;;) {
      for (size_t i = 0; i < resident_.size(); ++i)
        if (!resident_[i] || resident_[i]->nLeft == 0) begin(i);
      if (std::none_of(resident_.begin(), resident_.end(),
                       [](const Cta* cta) { return cta != nullptr; }))
        return;
      grid.progressed = false;
      takeTurns();
      if (!grid.progressed) fail("a collective that not all of its threads reach");
    }
  }

 private:
  // The next CTA in place of one that is done, if there is one. Its threads are not those of the
  // same index before: what one thread does is in order, and would hide a race.
  void begin(size_t place) {
    resident_[place] = nullptr;
    if (next_ == nLeft_) return;
    const uint32_t i = next_++;
    Cta& cta = all_.emplace_back();
    resident_[place] = &cta;
    cta.block = {i % dim_.grid.x, i / dim_.grid.x % dim_.grid.y, i / dim_.grid.x / dim_.grid.y};
    cta.warps.assign(dim_.nThreads / kWarpThreads, Gate{kWarpThreads});
    cta.all = Gate{dim_.nThreads};
    cta.given.assign(dim_.nThreads, 0);
    cta.nLeft = dim_.nThreads;
    releaseMemory(&grid.begin);
    const auto shift = static_cast<uint32_t>(random()());
    for (uint32_t index = 0; index < dim_.nThreads; ++index) {
      Thread& thread = threads()[place * dim_.nThreads + (index + shift) % dim_.nThreads];
      thread.cta = &cta;
      thread.index = index;
    }
  }

  // Every thread that is not done runs until it has to wait.
  void takeTurns() {
    const size_t n = resident_.size() * dim_.nThreads;
    const size_t first = random()() % n;
    // Prime to the number of threads, which a power of two and three divide alone.
    const size_t step = n == 1 ? 1 : 6 * (random()() % n) + 1;
    for (size_t i = 0; i < n; ++i) {
      Thread& thread = threads()[(first + i * step) % n];
      if (!thread.cta) continue;
      grid.current = &thread;
      threadIdx = {thread.index, 0, 0};
      blockIdx = thread.cta->block;
      grid.scheduler->switchTo(thread.fibre);
    }
  }

  Dim dim_;
  uint32_t nLeft_;
  uint32_t next_ = 0;
  std::vector<Cta*> resident_;
  // To the end, each at an address of its own: by that ThreadSanitizer knows gates and shared
  // memory, and nothing that one CTA has done is in order with another.
  std::deque<Cta> all_;
};

}  // namespace

void run(Dim dim, const std::function<void()>& thread) {
  static Fibre scheduler;
  grid.thread = &thread;
  grid.scheduler = &scheduler;
  gridDim = dim.grid;
  blockDim = {dim.nThreads, 1, 1};
  Scheduler scheduled(dim);
  scheduled.run();
  acquireMemory(&grid.end);
}

void joinWarp(Place place) {
  wait(warpGate(), place, barriers.ordersMemory(place));
}

void joinCta(Place place) {
  wait(currentCta().all, place, barriers.ordersMemory(place));
}

uint32_t countInCta(bool isSo, Place place) {
  Cta& cta = currentCta();
  cta.nSo += isSo;
  wait(cta.all, place, barriers.ordersMemory(place));
  const uint32_t count = cta.nSo;
  wait(cta.all, place, false);
  cta.nSo = 0;
  // Not before all have cleared it.
  wait(cta.all, place, false);
  return count;
}

uint64_t exchange(uint64_t bits, uint32_t sourceLane, Place place) {
  uint64_t* const given = currentCta().given.data() + threadIdx.x / kWarpThreads * kWarpThreads;
  given[threadIdx.x % kWarpThreads] = bits;
  wait(warpGate(), place, false);
  bits = given[sourceLane];
  wait(warpGate(), place, false);
  return bits;
}

void fence(Place place) {
  if (!barriers.ordersMemory(place)) return;
  Thread& thread = *grid.current;
  releaseMemory(&thread.fenced);
  acquireMemory(&thread.drawn);
}

void beforeAtomic(void* target) {
  Thread& thread = *grid.current;
  thread.reader.carry(target, &thread.drawn);
  thread.publisher.carry(&thread.fenced, target);
}

void* sharedMemory(const void* kind, size_t nBytes) {
  return currentCta().shared.ofKind(kind, nBytes);
}

void fail(const char* message) {
  fprintf(stderr, "simt: block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
          threadIdx.x, message);
  abort();
}

}  // namespace cinch::simt
