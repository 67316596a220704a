// A plain NCCL program for each corner of the calling surface; it knows nothing of Cinch.
//
// Every case is a function that makes calls and checks each result itself: exactly where NCCL must
// be exact, within a bound where a lossy codec may stand in between. What all ranks must end with,
// bit for bit, is printed for the driver to compare.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "nccl.h"

namespace surface {

// Where this process stands among the others.
struct World {
  int rank = 0;
  int ranks = 1;
  std::string folder;  // shared by all ranks of the run
};

[[noreturn]] void fail(const std::string& what);
void check(ncclResult_t result, const char* what);
void check(cudaError_t error, const char* what);
#define CHECK(call) ::surface::check((call), #call)
// Fails unless `call` gives exactly this result.
void expectResult(ncclResult_t result, ncclResult_t wanted, const char* what);
#define EXPECT_RESULT(call, wanted) ::surface::expectResult((call), (wanted), #call)
void expectTrue(bool condition, const char* what);
#define EXPECT(condition) ::surface::expectTrue((condition), #condition)

// An id that rank 0 makes; `name` tells the ids of one run apart.
ncclUniqueId shareId(const World& world, const std::string& name, bool mine);
// A communicator over those ranks of the world that `members` lists, in that order. Others must not
// call. The first member makes the id.
ncclComm_t makeComm(const World& world, const std::string& name, const std::vector<int>& members,
                    ncclConfig_t* config = nullptr);
ncclComm_t makeWorldComm(const World& world, const std::string& name = "world");
// Waits until a non-blocking communicator is ready.
void awaitReady(ncclComm_t comm);
cudaStream_t makeStream();
// Waits for the stream; gives up on an asynchronous error of `comm`.
void await(ncclComm_t comm, cudaStream_t stream);

// A gradient-like value that fp16 and bf16 hold exactly too.
float valueOf(int rank, int step, size_t index);

// Device memory of fp32 values.
class Floats {
 public:
  explicit Floats(size_t count);
  ~Floats();
  Floats(const Floats&) = delete;

  float* data() const { return data_; }
  size_t count() const { return count_; }
  // Fills it with valueOf(rank, step, .), in the order of the stream.
  void fill(int rank, int step, cudaStream_t stream);
  // Its content, after the stream's work.
  std::vector<float> read(cudaStream_t stream) const;

 private:
  float* data_ = nullptr;
  size_t count_;
};

using Exact = std::function<double(size_t index)>;
// Sum over the world's ranks of valueOf(rank, step, index + first), times `factor`.
Exact sumOf(const std::vector<int>& ranks, int step, size_t first = 0, double factor = 1);
std::vector<int> everybody(const World& world);

// Fails unless the values are `exact` to within fp32 rounding.
void expectExact(const std::vector<float>& values, const Exact& exact, const std::string& label);
// Fails unless the values are near `exact`, and not exactly it: they went through the codec.
void expectCompressed(const std::vector<float>& values, const Exact& exact,
                      const std::string& label);
// Fails unless the values are near `exact`, or exactly it.
void expectNear(const std::vector<float>& values, const Exact& exact, const std::string& label);
// Compressed from call `kWarmup` on, exact before.
constexpr int kWarmup = 3;
void expectStep(int call, const std::vector<float>& values, const Exact& exact,
                const std::string& label);
// Prints a hash that the driver compares among all ranks that print this label.
void expectSameEverywhere(const std::vector<float>& values, const std::string& label);

// One case. `ranks` is how many processes it wants.
struct Case {
  const char* name;
  int ranks;
  void (*run)(const World& world);
};
const std::vector<Case>& groupCases();
const std::vector<Case>& operationCases();
const std::vector<Case>& communicatorCases();
const std::vector<Case>& graphCases();
const std::vector<Case>& trapCases();
const std::vector<Case>& largeCases();
const std::vector<Case>& defaultCases();
const std::vector<Case>& controlCases();

}  // namespace surface
