// NCCL and the CUDA runtime as the loader finds them, or the emulator's: one `cinch` runs on both.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace cinch::bench {

struct Library {
#define CINCH_BENCH_CUDA(name) decltype(&::name) name = nullptr;
#define CINCH_BENCH_NCCL(name) decltype(&::name) name = nullptr;
#include "tools/cinch/bench/library_functions.def"
#undef CINCH_BENCH_CUDA
#undef CINCH_BENCH_NCCL

  std::string path;       // of NCCL
  int version = 0;        // NCCL_VERSION_CODE
  bool emulator = false;  // it carries the emulator's marker
  bool cinch = false;     // Cinch stands in front of it

  // "2.28.9"
  std::string versionText() const;
  // Throw std::runtime_error where the result is an error; `call` names what was tried.
  void check(cudaError_t error, const char* call) const;
  void check(ncclResult_t result, const char* call) const;
};

// `path` names NCCL's library; empty: libnccl.so.2 as the loader finds it, or the emulator of this
// build where the machine has no driver. Throws std::runtime_error where there is none. Stays
// loaded.
Library loadLibrary(const std::string& path);

// The emulator beside this program, in a build folder; empty where there is none.
std::string emulatorPath();

}  // namespace cinch::bench
