#include "interpose/agree/agreement_verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

const IpAddress kServer = ipv4(10, 0, 0, 0);

IpAddress addressOf(int rank) {
  return ipv4(10, 0, 0, static_cast<uint8_t>(rank));
}

// Ranks on hosts of their own, rank r at 10.0.0.r, connected to both of its ring neighbours.
std::vector<Member> ring(int nRanks) {
  std::vector<Member> members;
  for (int rank = 0; rank < nRanks; ++rank) {
    Member member;
    member.hello = makeHello(rank, nRanks);
    member.from = addressOf(rank);
    member.reported = true;
    member.own = {addressOf(rank)};
    member.peers = {addressOf((rank + 1) % nRanks), addressOf((rank + nRanks - 1) % nRanks)};
    members.push_back(member);
  }
  return members;
}

std::vector<Member> without(std::vector<Member> members, int rank) {
  std::erase_if(members, [&](const Member& member) { return member.hello.rank == rank; });
  return members;
}

std::string reasonOf(const std::vector<Member>& members, const std::string& conflict = "") {
  Verdict verdict = judge(members, kServer, conflict);
  EXPECT_FALSE(verdict.compress);
  EXPECT_TRUE(verdict.hostIds.empty());
  return verdict.reason;
}

TEST(AgreementVerdict, EqualRanksCompressAndLearnTheHosts) {
  for (int n = 1; n <= 8; ++n) {
    Verdict verdict = judge(ring(n), kServer, "");
    EXPECT_TRUE(verdict.compress);
    EXPECT_EQ(verdict.reason, "");
    ASSERT_EQ(verdict.hostIds.size(), static_cast<size_t>(n));
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(verdict.hostIds[static_cast<size_t>(rank)], 1000u + static_cast<unsigned>(rank));
    }
  }
}

// Each on a device of its own.
std::vector<Member> linked(const std::vector<Links>& links) {
  std::vector<Member> members = ring(static_cast<int>(links.size()));
  for (size_t i = 0; i < links.size(); ++i) {
    members[i].hello.links = links[i];
    members[i].hello.device = 50 + i;
  }
  return members;
}

TEST(AgreementVerdict, TheSlowestLinkCountsWhereAllAreKnown) {
  constexpr Links u = Links::unknown, p = Links::pcie, n = Links::nvlink;
  const auto linksOf = [](const std::vector<Links>& links) {
    return judge(linked(links), kServer, "").links;
  };
  EXPECT_EQ(linksOf({n, n, n}), n);
  EXPECT_EQ(linksOf({p, p, p}), p);
  EXPECT_EQ(linksOf({n, p, n}), p);
  for (const auto& links : {std::vector{u, u}, {p, u}, {u, n}, {p, n, u}})
    EXPECT_EQ(linksOf(links), u);
  EXPECT_EQ(judge(without(linked({p, p}), 1), kServer, "").links, u) << "no verdict without all";
}

TEST(AgreementVerdict, RankZeroNamesTheCommunicator) {
  std::vector<Member> members = ring(3);
  members[0].hello.communicator = "process4.comm2";
  std::reverse(members.begin(), members.end());
  EXPECT_EQ(judge(members, kServer, "").communicator, "process4.comm2");
}

TEST(AgreementVerdict, RanksOnOneDeviceHaveNoKnownLink) {
  std::vector<Member> members = linked({Links::pcie, Links::pcie, Links::pcie});
  members[2].hello.device = members[0].hello.device;
  EXPECT_EQ(judge(members, kServer, "").links, Links::unknown);
}

TEST(AgreementVerdict, DoesNotDependOnTheOrderOfArrival) {
  std::mt19937 random(21);
  std::vector<Member> good = ring(6);
  std::vector<Member> bad = without(ring(6), 2);
  bad[1].hello.settingsHash = 5;
  bad[3].hello.refusal = "no memory";
  Verdict goodVerdict = judge(good, kServer, "");
  std::string badReason = reasonOf(bad);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(good.begin(), good.end(), random);
    std::shuffle(bad.begin(), bad.end(), random);
    EXPECT_EQ(judge(good, kServer, "").hostIds, goodVerdict.hostIds);
    EXPECT_EQ(reasonOf(bad), badReason);
  }
}

TEST(AgreementVerdict, NamesOtherSettings) {
  std::vector<Member> members = ring(4);
  members[3].hello.settingsHash = 78;
  members[3].hello.settings = "CINCH_MODE=on CINCH_CODEC=q4";
  members[3].hello.host = "gpu-17";
  EXPECT_EQ(reasonOf(members),
            "rank 3 on host gpu-17 has other settings: CINCH_CODEC=q4 there, q8 on rank 0");
}

TEST(AgreementVerdict, TheMajorityIsRightEvenAgainstRankZero) {
  std::vector<Member> members = ring(4);
  members[0].hello.settingsHash = 78;
  members[0].hello.settings = "CINCH_MODE=on CINCH_CODEC=q4";
  EXPECT_EQ(reasonOf(members),
            "rank 0 on host host-0 has other settings: CINCH_CODEC=q4 there, q8 on rank 1");
}

TEST(AgreementVerdict, DifferentHashesWithEqualTextsStillDiffer) {
  std::vector<Member> members = ring(2);
  members[1].hello.settingsHash = 78;
  EXPECT_EQ(reasonOf(members),
            "rank 1 on host host-1 has other settings than rank 0 on host host-0");
}

TEST(AgreementVerdict, NamesVersionsRefusalsLeaversAndSizes) {
  std::vector<Member> members = ring(2);
  members[1].hello.version = kAgreementVersion + 1;
  EXPECT_EQ(reasonOf(members), "Cinch versions differ: rank 1 on host host-1 has " +
                                   std::to_string(kAgreementVersion + 1) +
                                   ", rank 0 on host host-0 has " +
                                   std::to_string(kAgreementVersion));
  members = ring(2);
  members[1].hello.refusal = "non-blocking communicator";
  EXPECT_EQ(reasonOf(members), "rank 1 on host host-1 cannot take part: non-blocking communicator");
  members = ring(2);
  members[0].left = true;
  EXPECT_EQ(reasonOf(members), "rank 0 on host host-0 has left before the ranks had agreed");
  members = ring(3);
  members[2].hello.nRanks = 4;
  EXPECT_EQ(reasonOf(members),
            "rank 2 on host host-2 says that there are 4 ranks, rank 0 on host host-0 says 3");
  EXPECT_EQ(reasonOf(ring(2), "rank 1 has greeted twice"), "rank 1 has greeted twice");
}

TEST(AgreementVerdict, NamesTheMissingRankAndItsAddress) {
  for (int missing = 1; missing < 5; ++missing) {
    EXPECT_EQ(reasonOf(without(ring(5), missing)),
              "rank " + std::to_string(missing) + " (on " + addressOf(missing).text() +
                  ") runs without Cinch: preload libcinch.so there too");
  }
}

TEST(AgreementVerdict, TheServersOwnAddressIsNoStrangers) {
  ASSERT_EQ(addressOf(0), kServer);
  EXPECT_EQ(whereabouts(0, without(ring(5), 0), kServer), "host host-1");
}

TEST(AgreementVerdict, OnlyWhatBothNeighboursSeeIsNamedWhereSomethingIs) {
  std::vector<Member> members = without(ring(4), 2);
  members[1].peers.push_back(ipv4(34, 1, 2, 3));  // some service that rank 1 talks to
  EXPECT_EQ(whereabouts(2, members, kServer), "10.0.0.2");
  members[2].peers.clear();
  EXPECT_EQ(whereabouts(2, members, kServer), "10.0.0.2 or 34.1.2.3");
}

TEST(AgreementVerdict, RanksThatAreNoNeighboursHelpWhereNeighboursSawNothing) {
  std::vector<Member> members = without(ring(6), 3);
  for (Member& member : members) member.peers.clear();
  members[0].peers = {ipv4(10, 9, 9, 9)};
  EXPECT_EQ(whereabouts(3, members, kServer), "10.9.9.9");
}

TEST(AgreementVerdict, ManyAddressesAreCutShort) {
  std::vector<Member> members = without(ring(2), 1);
  members[0].peers.clear();
  for (uint8_t i = 1; i < 9; ++i) members[0].peers.push_back(ipv4(10, 0, 1, i));
  EXPECT_EQ(whereabouts(1, members, kServer), "10.0.1.1 or 10.0.1.2 or 10.0.1.3 or another");
}

// Two ranks a host, all addresses known: the host that has a rank too few.
TEST(AgreementVerdict, AMissingRankOnASharedHostIsFoundByCounting) {
  auto pairs = [](int missing) {
    std::vector<Member> members = without(ring(6), missing);
    for (Member& member : members) {
      member.hello.hostId = static_cast<uint64_t>(member.hello.rank / 2);
      member.hello.host = "node" + std::to_string(member.hello.rank / 2);
      member.peers.clear();
    }
    return members;
  };
  for (int missing = 1; missing < 6; ++missing) {
    EXPECT_EQ(whereabouts(missing, pairs(missing), kServer),
              "host node" + std::to_string(missing / 2));
  }
}

TEST(AgreementVerdict, OnOneHostThatHostIsNamed) {
  std::vector<Member> members = without(ring(4), 2);
  for (Member& member : members) {
    member.hello.hostId = 1;
    member.hello.host = "only";
    member.own = {kServer};
    member.peers = {kServer};
    member.from = loopback();
  }
  EXPECT_EQ(reasonOf(members),
            "rank 2 (on host only) runs without Cinch: preload libcinch.so there too");
}

TEST(AgreementVerdict, ManyComplaintsAreCounted) {
  std::vector<Member> members = {ring(1000)[0]};
  std::string reason = reasonOf(members);
  EXPECT_NE(reason.find("rank 1 "), std::string::npos);
  EXPECT_NE(reason.find("rank 4 "), std::string::npos);
  EXPECT_EQ(reason.find("rank 5 "), std::string::npos);
  EXPECT_NE(reason.find("; and 995 more"), std::string::npos) << reason;
  EXPECT_LT(reason.size(), 600u);
}

TEST(SettingsDifference, NamesEachDifferingWord) {
  EXPECT_EQ(settingsDifference("A=1 B=2 C=3", "A=1 B=5 C=3", 0), "B=2 there, 5 on rank 0");
  EXPECT_EQ(settingsDifference("A=1 B=2", "A=2 B=3", 7),
            "A=1 there, 2 on rank 7, B=2 there, 3 on rank 7");
  EXPECT_EQ(settingsDifference("A=1 D=1", "A=1", 0), "D=1 there, not set on rank 0");
  EXPECT_EQ(settingsDifference("A=1", "A=1", 0), "");
  EXPECT_EQ(settingsDifference("", "", 0), "");
  EXPECT_EQ(settingsDifference("word", "other=", 0), "word there, not set on rank 0");
  EXPECT_EQ(settingsDifference("A=", "A=1", 0), "A= there, 1 on rank 0");
}

}  // namespace
}  // namespace cinch
