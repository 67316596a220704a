#include "interpose/agree/agreement_verdict.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace cinch {
namespace {

constexpr size_t kNamedComplaints = 4;
constexpr size_t kNamedAddresses = 3;

// Complaints in order, of which only the first few are spelt out: of 16,384 ranks with other
// settings each would take a while.
class Complaints {
 public:
  template <class Describe>
  void add(const Describe& describe) {
    if (count_++ >= kNamedComplaints) return;
    text_ += (text_.empty() ? "" : "; ") + describe();
  }
  bool none() const { return count_ == 0; }
  std::string text() const {
    if (count_ <= kNamedComplaints) return text_;
    return text_ + "; and " + std::to_string(count_ - kNamedComplaints) + " more";
  }

 private:
  std::string text_;
  size_t count_ = 0;
};

using Members = std::vector<Member>;
using Addresses = std::set<IpAddress>;

// A member, the first such, with the value of `fact` that most members share.
template <class Fact>
const Hello& mostCommon(const Members& members, Fact fact) {
  std::map<decltype(fact(members[0].hello)), size_t> votes;
  for (const Member& member : members) votes[fact(member.hello)]++;
  auto fewer = [&](const Member& a, const Member& b) {
    return votes[fact(a.hello)] < votes[fact(b.hello)];
  };
  return std::max_element(members.begin(), members.end(), fewer)->hello;
}

// Calls complain(odd, reference) for each member whose `fact` is not the one that most share;
// `reference` is a rank that has that one.
template <class Fact, class Complain>
void forEachOdd(const Members& members, Fact fact, Complain complain) {
  const Hello& reference = mostCommon(members, fact);
  for (const Member& member : members) {
    if (fact(member.hello) != fact(reference)) complain(member.hello, reference);
  }
}

void compareSizes(const Members& members, Complaints& complaints) {
  auto size = [](const Hello& hello) { return hello.nRanks; };
  forEachOdd(members, size, [&](const Hello& odd, const Hello& reference) {
    complaints.add([&] {
      return rankOnHost(odd) + " says that there are " + std::to_string(odd.nRanks) + " ranks, " +
             rankOnHost(reference) + " says " + std::to_string(reference.nRanks);
    });
  });
}

void compareVersions(const Members& members, Complaints& complaints) {
  auto version = [](const Hello& hello) { return hello.version; };
  forEachOdd(members, version, [&](const Hello& odd, const Hello& reference) {
    complaints.add([&] {
      return "Cinch versions differ: " + rankOnHost(odd) + " has " + std::to_string(odd.version) +
             ", " + rankOnHost(reference) + " has " + std::to_string(reference.version);
    });
  });
}

void compareSettings(const Members& members, Complaints& complaints) {
  auto hash = [](const Hello& hello) { return hello.settingsHash; };
  forEachOdd(members, hash, [&](const Hello& odd, const Hello& reference) {
    complaints.add([&] {
      const std::string difference =
          settingsDifference(odd.settings, reference.settings, reference.rank);
      return rankOnHost(odd) + " has other settings" +
             (difference.empty() ? " than " + rankOnHost(reference) : ": " + difference);
    });
  });
}

void findMissing(const Members& members, const IpAddress& server, Complaints& complaints) {
  std::set<int> present;
  for (const Member& member : members) present.insert(member.hello.rank);
  for (int rank = 0; rank < members[0].hello.nRanks; ++rank) {
    if (present.count(rank) != 0) continue;
    complaints.add([&] {
      return "rank " + std::to_string(rank) + " (on " + whereabouts(rank, members, server) +
             ") runs without Cinch: preload libcinch.so there too";
    });
  }
}

void findUnable(const Members& members, Complaints& complaints) {
  for (const Member& member : members) {
    if (!member.hello.refusal.empty()) {
      complaints.add(
          [&] { return rankOnHost(member.hello) + " cannot take part: " + member.hello.refusal; });
    } else if (member.left) {
      complaints.add([&] { return leftTooEarly(member.hello); });
    }
  }
}

// Where all ranks are on one host. Ranks that share a device have no link between them that anybody
// knows.
Links slowestLinkOf(const Members& members) {
  std::set<uint64_t> devices;
  Links slowest = Links::nvlink;
  for (const Member& member : members) {
    const Hello& hello = member.hello;
    const bool isAlone = devices.insert(hello.device).second;
    if (hello.links == Links::unknown || !isAlone) return Links::unknown;
    slowest = std::min(slowest, hello.links);
  }
  return slowest;
}

Addresses knownAddresses(const Members& members, const IpAddress& server) {
  Addresses known = {server};
  for (const Member& member : members) {
    known.insert(member.from);
    known.insert(member.own.begin(), member.own.end());
  }
  return known;
}

Addresses strangers(const Member& member, const Addresses& known) {
  Addresses found;
  for (const IpAddress& address : member.peers) {
    if (known.count(address) == 0) found.insert(address);
  }
  return found;
}

// Members that sit beside `rank` in the ring.
std::vector<const Member*> neighbours(int rank, const Members& members) {
  std::vector<const Member*> found;
  int nRanks = members[0].hello.nRanks;
  for (const Member& member : members) {
    int distance = (member.hello.rank - rank + nRanks) % nRanks;
    if (distance == 1 || distance == nRanks - 1) found.push_back(&member);
  }
  return found;
}

std::string listed(const Addresses& addresses) {
  std::string text;
  size_t n = 0;
  for (const IpAddress& address : addresses) {
    if (n++ == kNamedAddresses) return text + " or another";
    text += (text.empty() ? "" : " or ") + address.text();
  }
  return text;
}

Addresses seenByNeighbours(int missing, const Members& members, const Addresses& known) {
  Addresses all;
  std::map<IpAddress, size_t> sightings;
  std::vector<const Member*> beside = neighbours(missing, members);
  for (const Member* member : beside) {
    for (const IpAddress& address : strangers(*member, known)) {
      sightings[address]++;
      all.insert(address);
    }
  }
  Addresses seenByEach;
  for (const auto& [address, n] : sightings) {
    if (n == beside.size()) seenByEach.insert(address);
  }
  return seenByEach.empty() ? all : seenByEach;
}

// The host, among those of the ranks nearest to `missing` on both sides, with the fewest known
// ranks: jobs put equally many neighbouring ranks on each host.
std::string emptiestHostBeside(int missing, const Members& members) {
  std::map<uint64_t, size_t> ranksOn;
  const Hello* below = nullptr;
  const Hello* above = nullptr;
  for (const Member& member : members) {
    const Hello& hello = member.hello;
    ranksOn[hello.hostId]++;
    if (hello.rank < missing && (below == nullptr || hello.rank > below->rank)) below = &hello;
    if (hello.rank > missing && (above == nullptr || hello.rank < above->rank)) above = &hello;
  }
  if (below == nullptr) return "host " + above->host;
  if (above == nullptr || below->hostId == above->hostId) return "host " + below->host;
  size_t nBelow = ranksOn[below->hostId];
  size_t nAbove = ranksOn[above->hostId];
  if (nBelow == nAbove) return "host " + below->host + " or " + above->host;
  return "host " + (nBelow < nAbove ? below : above)->host;
}

}  // namespace

std::string rankOnHost(const Hello& hello) {
  return "rank " + std::to_string(hello.rank) + " on host " + hello.host;
}

std::string leftTooEarly(const Hello& hello) {
  return rankOnHost(hello) + " has left before the ranks had agreed";
}

std::string settingsDifference(const std::string& theirs, const std::string& ours, int ourRank) {
  std::map<std::string, std::string> values;
  auto split = [](const std::string& word) { return std::min(word.find('='), word.size()); };
  std::istringstream ourWords(ours);
  for (std::string word; ourWords >> word;) {
    size_t at = split(word);
    values[word.substr(0, at)] = word.substr(std::min(at + 1, word.size()));
  }
  std::string text;
  std::istringstream theirWords(theirs);
  for (std::string word; theirWords >> word;) {
    auto found = values.find(word.substr(0, split(word)));
    std::string value = word.substr(std::min(split(word) + 1, word.size()));
    if (found != values.end() && found->second == value) continue;
    text += (text.empty() ? "" : ", ") + word + " there, " +
            (found == values.end() ? "not set" : found->second) + " on rank " +
            std::to_string(ourRank);
  }
  return text;
}

std::string whereabouts(int missing, const Members& members, const IpAddress& server) {
  Addresses known = knownAddresses(members, server);
  Addresses seen = seenByNeighbours(missing, members, known);
  if (seen.empty()) {
    for (const Member& member : members) seen.merge(strangers(member, known));
  }
  return seen.empty() ? emptiestHostBeside(missing, members) : listed(seen);
}

Verdict judge(const Members& unordered, const IpAddress& server, const std::string& conflict) {
  Members members = unordered;
  auto byRank = [](const Member& a, const Member& b) { return a.hello.rank < b.hello.rank; };
  std::sort(members.begin(), members.end(), byRank);
  Complaints complaints;
  if (!conflict.empty()) complaints.add([&] { return conflict; });
  compareSizes(members, complaints);
  if (complaints.none()) findMissing(members, server, complaints);  // needs one common size
  findUnable(members, complaints);
  compareVersions(members, complaints);
  compareSettings(members, complaints);
  Verdict verdict;
  verdict.compress = complaints.none();
  verdict.reason = complaints.text();
  if (!verdict.compress) return verdict;
  for (const Member& member : members) verdict.hostIds.push_back(member.hello.hostId);
  verdict.links = slowestLinkOf(members);
  verdict.communicator = members[0].hello.communicator;
  verdict.server = members[0].hello.server;
  return verdict;
}

}  // namespace cinch
