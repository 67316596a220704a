// All ranks of a communicator in one thread, on the fakes: they have said hello over a real
// agreement channel, each from a host of its own unless a test places them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interpose/comm/comm_state.h"
#include "tests/unit/interpose/support/fake_device.h"
#include "tests/unit/interpose/support/fake_real.h"

namespace cinch::test {

// Clears both fakes, and frees what ended communicators left to those to come.
void resetFakes();

// True where nothing on the device is held any more, by communicators or for those to come.
// Apart from what may be in use for ever.
bool holdsNothing();

CommResources fakeResources();

// The host of each rank.
using Placement = std::vector<uint64_t>;
Placement oneOnEachHost(int nRanks);

// The ends of a channel between ranks, which have greeted and not heard the verdict. A `refusal` is
// the last one's.
std::vector<std::unique_ptr<Agreement>> greetAll(const Placement& hosts,
                                                 const std::string& refusal = "");
inline std::vector<std::unique_ptr<Agreement>> greetAll(int nRanks,
                                                        const std::string& refusal = "") {
  return greetAll(oneOnEachHost(nRanks), refusal);
}
// Rank 0 of two, of which the other one does not come.
std::unique_ptr<Agreement> greetAlone();

struct TestRank {
  explicit TestRank(const FakeRank& rank, std::unique_ptr<Joining> joining)
      : fake(rank),
        comm(std::make_shared<CommState>(fakeRealTable(), fake.handle(), fake.rank, fake.nRanks,
                                         std::move(joining))) {}
  TestRank(const TestRank&) = delete;

  FakeRank fake;
  std::shared_ptr<CommState> comm;
};

using TestRanks = std::vector<std::unique_ptr<TestRank>>;

// `world` tells communicators apart.
TestRanks makeRanks(const Placement& hosts, int world = 0);
inline TestRanks makeRanks(int nRanks, int world = 0) {
  return makeRanks(oneOnEachHost(nRanks), world);
}

// A communicator of two ranks that passes.
TestRank passingRank();

// How many calls on `comm` have passed for `reason`, by the report.
uint64_t passedCalls(const CommState& comm, Reason reason);
// How many calls of each slot of `comm` were compressed, by its name in the report; none left out.
std::map<std::string, uint64_t> compressedCalls(const CommState& comm);

}  // namespace cinch::test
