#include "tests/unit/kernels/cuda/simt.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

cinch::simt::Index threadIdx, blockIdx, gridDim, blockDim;

namespace cinch::simt {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr uint32_t kWarpThreads = 32;

// Opens once as many threads as belong to it have arrived, then closes again.
struct Gate {
  uint32_t size = 0;
  uint32_t arrived = 0;
  uint64_t generation = 0;
};

struct Fibre {
  ucontext_t context;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  bool isDone = false;
};

struct Cta {
  const std::function<void()>* thread = nullptr;
  ucontext_t scheduler;
  std::vector<Fibre> fibres;
  std::vector<Gate> warps;
  Gate all;
  std::vector<uint64_t> warpSlots, ctaSlots;
  bool progressed = false;
};
Cta cta;

Fibre& currentFibre() {
  return cta.fibres[threadIdx.x];
}

void enterFibre() {
  (*cta.thread)();
  currentFibre().isDone = true;
  cta.progressed = true;
  swapcontext(&currentFibre().context, &cta.scheduler);
}

void wait(Gate& gate) {
  const uint64_t generation = gate.generation;
  if (++gate.arrived == gate.size) {
    gate.arrived = 0;
    ++gate.generation;
    cta.progressed = true;
    return;
  }
  while (gate.generation == generation) swapcontext(&currentFibre().context, &cta.scheduler);
}

void prepareCta(uint32_t nThreads) {
  if (cta.fibres.size() != nThreads) cta.fibres = std::vector<Fibre>(nThreads);
  cta.warps.assign(nThreads / kWarpThreads, Gate{kWarpThreads});
  cta.all = Gate{nThreads};
  cta.warpSlots.assign(nThreads, 0);
  cta.ctaSlots.assign(nThreads, 0);
  for (Fibre& fibre : cta.fibres) {
    fibre.isDone = false;
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = kStackBytes;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, enterFibre, 0);
  }
}

// Gives every unfinished fibre a turn; returns how many are left.
uint32_t runTurn() {
  uint32_t nLeft = 0;
  for (uint32_t i = 0; i < cta.fibres.size(); ++i) {
    if (cta.fibres[i].isDone) continue;
    threadIdx = {i, 0, 0};
    swapcontext(&cta.scheduler, &cta.fibres[i].context);
    nLeft += !cta.fibres[i].isDone;
  }
  return nLeft;
}

void runCta(uint32_t nThreads) {
  prepareCta(nThreads);
  uint32_t nLeft = nThreads;
  while (nLeft > 0) {
    cta.progressed = false;
    nLeft = runTurn();
    if (nLeft > 0 && !cta.progressed) fail("a collective that not all of its threads reach");
  }
}

}  // namespace

void run(Dim dim, const std::function<void()>& thread) {
  cta.thread = &thread;
  gridDim = dim.grid;
  blockDim = {dim.nThreads, 1, 1};
  for (uint32_t z = 0; z < dim.grid.z; ++z)
    for (uint32_t y = 0; y < dim.grid.y; ++y)
      for (uint32_t x = 0; x < dim.grid.x; ++x) {
        blockIdx = {x, y, z};
        runCta(dim.nThreads);
      }
}

void joinWarp() {
  wait(cta.warps[threadIdx.x / kWarpThreads]);
}
void joinCta() {
  wait(cta.all);
}
uint64_t* warpSlots() {
  return &cta.warpSlots[threadIdx.x / kWarpThreads * kWarpThreads];
}
uint64_t* ctaSlots() {
  return cta.ctaSlots.data();
}
uint32_t nCtaThreads() {
  return static_cast<uint32_t>(cta.fibres.size());
}

void fail(const char* message) {
  fprintf(stderr, "simt: block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
          threadIdx.x, message);
  abort();
}

}  // namespace cinch::simt
