// Buffers of more than 2^31 values: counts and offsets must be 64 bits wide all the way.
#include <algorithm>
#include <cstring>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

constexpr size_t kCount = (size_t{1} << 31) + 12345;
constexpr size_t kChunk = size_t{1} << 22;
constexpr int kCalls = 4;  // with CINCH_WARMUP_CALLS=2: two exact ones, then two compressed ones

// Values repeat with this period, which is odd so that no border of shards or tiles falls on it.
constexpr size_t kPeriod = 1000003;

uint16_t bfloatOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

float floatOf(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

// Calls body(first index, number of values) for the whole buffer.
template <class Body>
void inChunks(Body body) {
  for (size_t first = 0; first < kCount; first += kChunk)
    body(first, std::min(kChunk, kCount - first));
}

void fill(uint16_t* buffer, int rank, int call) {
  std::vector<uint16_t> period(kPeriod), chunk(kChunk);
  for (size_t i = 0; i < kPeriod; ++i) period[i] = bfloatOf(valueOf(rank, call, i));
  inChunks([&](size_t first, size_t n) {
    for (size_t i = 0; i < n; ++i) chunk[i] = period[(first + i) % kPeriod];
    CHECK(cudaMemcpy(buffer + first, chunk.data(), n * sizeof(uint16_t), cudaMemcpyHostToDevice));
  });
}

double nmseOf(const uint16_t* buffer, int call) {
  std::vector<float> exact(kPeriod);
  for (size_t i = 0; i < kPeriod; ++i) exact[i] = valueOf(0, call, i) + valueOf(1, call, i);
  std::vector<uint16_t> chunk(kChunk);
  double error = 0, power = 0;
  inChunks([&](size_t first, size_t n) {
    CHECK(cudaMemcpy(chunk.data(), buffer + first, n * sizeof(uint16_t), cudaMemcpyDeviceToHost));
    double chunkError = 0, chunkPower = 0;
    for (size_t i = 0; i < n; ++i) {
      const double wanted = exact[(first + i) % kPeriod], off = floatOf(chunk[i]) - wanted;
      chunkError += off * off;
      chunkPower += wanted * wanted;
    }
    // Wherever something is wrong, and not only on average.
    if (!(chunkError <= 0.05 * chunkPower)) fail("wrong values after " + std::to_string(first));
    error += chunkError;
    power += chunkPower;
  });
  return error / power;
}

void allReduce(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  const cudaStream_t stream = makeStream();
  uint16_t* buffer = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(uint16_t)));
  double found[kCalls];
  for (int call = 0; call < kCalls; ++call) {
    fill(buffer, world.rank, call);
    CHECK(ncclAllReduce(buffer, buffer, kCount, ncclBfloat16, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    found[call] = nmseOf(buffer, call);
  }
  EXPECT(found[0] < 1e-4 && found[1] < 1e-4);  // bf16 rounding
  EXPECT(found[2] > 1e-3 && found[3] > 1e-3);  // 4 bits
  CHECK(ncclCommDestroy(comm));
}

}  // namespace

const std::vector<Case>& largeCases() {
  static const std::vector<Case> cases = {{"large-all-reduce", 2, allReduce}};
  return cases;
}

}  // namespace surface
