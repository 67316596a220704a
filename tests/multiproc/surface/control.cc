// What the channel over which Cinch's ranks agree costs a program, which sees descriptors and time.
// tests/control compares the numbers that are printed here with those of plain NCCL.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

size_t openDescriptors() {
  size_t n = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++n;
  closedir(folder);
  return n;
}

ncclComm_t makeAndUse(const World& world, const std::string& name, cudaStream_t stream) {
  const ncclComm_t comm = makeWorldComm(world, name);
  Floats values(16);
  values.fill(world.rank, 0, stream);
  CHECK(ncclAllReduce(values.data(), values.data(), values.count(), ncclFloat32, ncclSum, comm,
                      stream));
  await(comm, stream);
  expectExact(values.read(stream), sumOf(everybody(world), 0), name);
  return comm;
}

// As many as TEST_COMMUNICATORS says, all at the same time.
void keepsManyCommunicators(const World& world) {
  const char* const given = getenv("TEST_COMMUNICATORS");
  const int n = given == nullptr ? 20 : atoi(given);
  const cudaStream_t stream = makeStream();
  std::vector<ncclComm_t> comms;
  for (int i = 0; i < n; ++i)
    comms.push_back(makeAndUse(world, "comm" + std::to_string(i), stream));
  printf("descriptors %zu\n", openDescriptors());
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm));
}

// Until the file `stop` is there, which is when strangers have come and stayed for a while: opens
// files, and then makes another communicator.
void isFlooded(const World& world) {
  const cudaStream_t stream = makeStream();
  const ncclComm_t first = makeAndUse(world, "world", stream);
  std::ofstream(world.folder + "/steady-" + std::to_string(world.rank)).close();
  size_t nFailed = 0;
  while (!std::filesystem::exists(world.folder + "/stop")) {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      ++nFailed;
    else
      close(fd);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const auto begin = steady_clock::now();
  const ncclComm_t second = makeAndUse(world, "second", stream);
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  printf("failed %zu\nstart %ld\n", nFailed, static_cast<long>(took.count()));
  CHECK(ncclCommDestroy(first));
  CHECK(ncclCommDestroy(second));
}

}  // namespace

const std::vector<Case>& controlCases() {
  static const std::vector<Case> cases = {
      {"control-many-communicators", 8, keepsManyCommunicators},
      {"control-flood", 2, isFlooded},
  };
  return cases;
}

}  // namespace surface
