#include "tests/net/chaos/progress.h"

#include <sys/mman.h>

#include <new>

#include "tests/net/chaos/failure.h"

namespace cinch::chaos {

void Progress::reset() {
  nDone = 0;
  for (LaneProgress& lane : lanes) {
    lane.stage = Stage::waiting;
    lane.life = lane.nPosted = lane.nDone = 0;
  }
}

std::string Progress::text() const {
  static constexpr const char* kNames[] = {"waiting", "accepting", "connecting", "moving", "over"};
  std::string text = std::to_string(nDone) + " messages done";
  for (const LaneProgress& lane : lanes) {
    text += "; life " + std::to_string(lane.life) + " " +
            kNames[static_cast<int>(lane.stage.load())] + " " + std::to_string(lane.nDone) +
            " of " + std::to_string(lane.nPosted) + " posted";
  }
  return text;
}

Progress* makeProgress() {
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CINCH_CHECK(memory != MAP_FAILED, "out of memory");
  return new (memory) Progress;
}

}  // namespace cinch::chaos
