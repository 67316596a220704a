#include "tests/unit/interpose/support/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/report_writer.h"

namespace cinch::test {
namespace {

constexpr int kSeconds = 20;  // only a failing test waits for it

using UniqueId = std::array<uint8_t, kUniqueIdBytes>;

UniqueId newId() {
  UniqueId id{};
  EXPECT_TRUE(serveAgreement(id.data()).ok());
  return id;
}

Hello helloOf(int rank, int nRanks, uint64_t host, const std::string& refusal) {
  Hello hello;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.hostId = host;
  hello.host = "host-" + std::to_string(host);
  hello.refusal = refusal;
  return hello;
}

std::unique_ptr<Agreement> greet(const UniqueId& id, const Hello& hello) {
  auto greeted = Agreement::greet(id.data(), hello, kSeconds);
  EXPECT_TRUE(greeted.ok()) << greeted.error().message;
  return std::move(greeted.value());
}

// What earlier tests left in use for ever.
size_t strandedBefore = 0;

// What the report says of `comm`.
nlohmann::json reportOf(const CommState& comm) {
  const auto report = nlohmann::json::parse(processReport().json());
  for (const auto& entry : report.at("communicators"))
    if (entry.at("name") == comm.name) return entry;
  ADD_FAILURE() << comm.name << " is not in the report";
  return {{"passed", nlohmann::json::object()}, {"slots", nlohmann::json::array()}};
}

}  // namespace

void resetFakes() {
  fakeDevice().failAt = -1;
  fakeDevice().eventsPending = false;
  fakeDevice().pendingEvents.clear();
  MemoryReserve::instance().release();
  fakeDevice().reset();
  fakeReal() = {};
  strandedBefore = MemoryReserve::instance().nStranded();
}

bool holdsNothing() {
  MemoryReserve::instance().release();
  const size_t stranded = MemoryReserve::instance().nStranded() - strandedBefore;
  return fakeDevice().memory.size() == stranded && fakeDevice().events.empty();
}

CommResources fakeResources() {
  CommResources resources;
  resources.device = &fakeDeviceTable();
  resources.fault =
      std::move(Buffer::allocate(fakeDeviceTable(), sizeof(uint32_t), Buffer::Where::host).value());
  *resources.fault.as<uint32_t>() = 0;
  return resources;
}

Placement oneOnEachHost(int nRanks) {
  Placement hosts(static_cast<size_t>(nRanks));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

std::vector<std::unique_ptr<Agreement>> greetAll(const Placement& hosts,
                                                 const std::string& refusal) {
  const UniqueId id = newId();
  std::vector<std::unique_ptr<Agreement>> all;
  const auto nRanks = static_cast<int>(hosts.size());
  for (int rank = 0; rank < nRanks; ++rank)
    all.push_back(greet(id, helloOf(rank, nRanks, hosts[static_cast<size_t>(rank)],
                                    rank == nRanks - 1 ? refusal : "")));
  return all;
}

std::unique_ptr<Agreement> greetAlone() {
  return greet(newId(), helloOf(0, 2, 0, ""));
}

TestRanks makeRanks(const Placement& hosts, int world) {
  TestRanks ranks;
  auto channels = greetAll(hosts);
  const auto nRanks = static_cast<int>(hosts.size());
  for (int rank = 0; rank < nRanks; ++rank)
    ranks.push_back(std::make_unique<TestRank>(
        FakeRank{rank, nRanks, world},
        Joining::over(std::move(channels[static_cast<size_t>(rank)]), fakeResources())));
  return ranks;
}

TestRank passingRank() {
  return TestRank({0, 2}, Joining::passing("the test wants it so"));
}

uint64_t passedCalls(const CommState& comm, Reason reason) {
  const auto passed = reportOf(comm).at("passed");
  const char* name = kReasonNames[static_cast<size_t>(reason)];
  return passed.contains(name) ? passed.at(name).at("calls").get<uint64_t>() : 0;
}

std::map<std::string, uint64_t> compressedCalls(const CommState& comm) {
  const auto report = reportOf(comm);
  std::map<std::string, uint64_t> calls;
  for (const auto& slot : report.at("slots")) calls[slot.at("name")] = slot.at("calls");
  return calls;
}

}  // namespace cinch::test
