// Prints how many kernels the library loads before the first launch; library_gates.py knows how
// many it has. Needs no GPU.
#include <cstdio>
#include <set>

#include "kernels/cuda/dispatch/kernels.h"

int main() {
  const cinch::cuda::KernelList kernels = cinch::cuda::allKernels();
  const std::set<const void*> different(kernels.begin(), kernels.end());
  std::printf("%zu\n", different.size());
}
