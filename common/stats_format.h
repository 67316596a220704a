// The report's figures at one moment, and how they look as text and as JSON. Pure; private to
// common/ and its tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cinch {

struct SlotFigures {
  std::string name;
  std::string codec;
  double gain = 0;
  uint64_t calls = 0;
  uint64_t bytesIn = 0;
  uint64_t wireBytes = 0;
  double ratio = 0;       // wireRatio() of the slot
  double nmse = 0;        // of stage 1, encode
  double nmseReduce = 0;  // of stage 2
  uint64_t residualResets = 0;
};

struct PassedFigures {
  std::string reason;
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

struct Totals {
  uint64_t compressedCalls = 0;
  uint64_t bytesIn = 0;
  uint64_t wireBytes = 0;
  uint64_t passedCalls = 0;
  uint64_t passedBytes = 0;

  void add(const SlotFigures& slot);
  void add(const PassedFigures& passed);
  void add(const Totals& other);
};

struct CommFigures {
  std::string name;
  int rank = 0;
  int nRanks = 0;
  std::string verdict;
  std::vector<SlotFigures> slots;
  std::vector<PassedFigures> passed;  // reasons that occurred

  Totals totals() const;
};

// How much smaller the traffic is than plain NCCL's: what one rank of a ring would have sent for
// `bytesIn` of allreduce, 2(P-1)/P of it, over what was sent. 0 where nothing was sent.
double wireRatio(uint64_t bytesIn, uint64_t wireBytes, int nRanks);

// Tables for people.
std::string formatText(const std::vector<CommFigures>& comms);

// An object with "format": 1; figures that are not finite become null.
std::string formatJson(const std::vector<CommFigures>& comms);

}  // namespace cinch
