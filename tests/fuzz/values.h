// The data of a program: every input is a function of (seed, call, round, rank, index), so that any
// rank can compute what any other one sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/program.h"

namespace cinch::fuzz {

using Bytes = std::vector<unsigned char>;

// Which data: the replays of a captured call are rounds from 1, everything else is round 0.
struct DataKey {
  uint64_t seed;
  int uid;
  int round;
};

size_t bytesOf(ncclDataType_t type);
bool isFloat(ncclDataType_t type);

// Values `first` to `first + count - 1` of what `worldRank` puts into a call: floating-point values
// like gradients, whose magnitude varies slowly along the buffer; integers so small that no sum or
// product overflows.
void fillInput(const DataKey& key, int worldRank, ncclDataType_t type, size_t first, size_t count,
               unsigned char* out);

// An upper bound of every rank's |input| within 128 values around `index`.
double envelope(uint64_t seed, size_t index);

double load(const unsigned char* at, ncclDataType_t type);
void store(unsigned char* at, ncclDataType_t type, double value);

// Of one rounding to the type: relative, and absolute near zero.
double roundingOf(ncclDataType_t type);

uint64_t hashOf(const unsigned char* data, size_t nBytes, uint64_t start = 0xcbf29ce484222325u);

}  // namespace cinch::fuzz
