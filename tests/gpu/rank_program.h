// What the NCCL programs of tests/gpu/check have in common: their options, how the ranks meet, a
// process each, and how they wait. They use the public CUDA runtime and NCCL only. What fails is an
// exception, which ends the program.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace cinch::ranks {

// The options that all of them have.
struct Place {
  int rank = -1;
  int ranks = 0;
  int device = 0;
  std::string idFile;
  std::string out;  // file for the report; empty: standard output
};

void check(cudaError_t error, const char* what);
void check(ncclResult_t result, const char* what);

// Reads --rank, --ranks, --device, --id-file and --out. Hands each other option to `takeOther`,
// which returns false where it does not know it.
Place parsePlace(int argc, char** argv,
                 const std::function<bool(const std::string& name, const char* value)>& takeOther);

// The communicator of all ranks, which find one another through the file of the id.
ncclComm_t connect(const Place& place);

// Waits for the stream while watching the communicator, as a framework's watchdog does.
void finish(cudaStream_t stream, ncclComm_t comm);

// Has `write` print the report to where the options say.
void writeReport(const Place& place, const std::function<void(FILE*)>& write);

// What main() returns. Where `program` throws, says why and ends the process at once: a peer may
// wait for this rank in a collective for ever, so that NCCL is not torn down.
int runProgram(const char* name, const std::function<void()>& program);

// A number that looks random, the same for the same `x`.
uint64_t mix(uint64_t x);

// A stream, and buffers to send from and to receive into.
class Device {
 public:
  Device(int device, size_t bufferBytes);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  cudaStream_t stream = nullptr;
  void* send = nullptr;
  void* receive = nullptr;
};

}  // namespace cinch::ranks
