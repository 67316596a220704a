#include "tools/cinch/tune/combination.h"

#include <charconv>
#include <cstdlib>

#include "common/text.h"

namespace cinch::tune {
namespace {

bool exists(Algorithm algorithm, TunedCollective collective) {
  const bool isAllReduce = collective == TunedCollective::allReduce;
  switch (algorithm) {
    case Algorithm::tree:
    case Algorithm::nvlsTree:
    case Algorithm::collnetChain:
      return isAllReduce;
    case Algorithm::pat:
      return !isAllReduce;
    default:
      return true;
  }
}

bool exists(Algorithm algorithm, Protocol protocol) {
  const bool takesAll = algorithm == Algorithm::ring || algorithm == Algorithm::tree;
  return takesAll || protocol == Protocol::simple;
}

// NCCL's variables for channels are about these. How many the switches' sums take is another
// matter.
bool takesChannels(Algorithm algorithm) {
  return algorithm == Algorithm::ring || algorithm == Algorithm::tree ||
         algorithm == Algorithm::pat;
}

// As NCCL's variables have it.
std::string ncclName(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::collnetDirect:
      return "collnetdirect";
    case Algorithm::collnetChain:
      return "collnetchain";
    case Algorithm::nvlsTree:
      return "nvlstree";
    default:
      return nameOf(algorithm);
  }
}

// From 2.24 on NCCL takes a choice for each collective. Before that NCCL_ALGO is for AllReduce
// only, whatever it says.
bool takesCollectives(const std::string& ncclVersion) {
  constexpr int kSince = 2 * 100 + 24;
  std::string_view rest = ncclVersion;
  int number = 0;
  for (int part = 0; part < 2; ++part) {
    const std::string_view digits = takeUntil(rest, ".");
    int value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    number = number * 100 + value;
  }
  return number >= kSince;
}

int channelsOf(const std::string& text) {
  return text == "auto" ? 0 : std::atoi(text.c_str());
}

}  // namespace

std::string describe(const Combination& combination) {
  const std::string text = nameOf(combination.algorithm) + " " + nameOf(combination.protocol);
  return combination.channels == 0 ? text : text + " x" + std::to_string(combination.channels);
}

TunedCollective tunedCollective(const std::string& benchName) {
  if (benchName == "all_gather") return TunedCollective::allGather;
  return benchName == "all_reduce" ? TunedCollective::allReduce : TunedCollective::reduceScatter;
}

std::vector<Combination> combinationsOf(TunedCollective collective, const Options& options) {
  std::vector<Combination> all;
  for (const std::string& algorithmName : options.algorithms)
    for (const std::string& protocolName : options.protocols) {
      const Algorithm algorithm = *algorithmNamed(algorithmName);
      const Protocol protocol = *protocolNamed(protocolName);
      if (!exists(algorithm, collective) || !exists(algorithm, protocol)) continue;
      if (!takesChannels(algorithm)) {
        all.push_back({algorithm, protocol, 0});
        continue;
      }
      for (const std::string& channels : options.channels)
        all.push_back({algorithm, protocol, channelsOf(channels)});
    }
  return all;
}

std::vector<std::string> variablesOf(const Combination& combination, TunedCollective collective,
                                     const std::string& ncclVersion) {
  const std::string algorithm = ncclName(combination.algorithm);
  const std::string protocol = nameOf(combination.protocol);
  const std::string prefix = nameOf(collective) + ":";
  const bool isExact = takesCollectives(ncclVersion);
  std::vector<std::string> variables = {
      "NCCL_ALGO=" + (isExact ? "ring;" + prefix + algorithm : algorithm),
      "NCCL_PROTO=" + (isExact ? "simple;" + prefix + protocol : protocol)};
  if (combination.channels != 0)
    for (const char* name : {"NCCL_MIN_NCHANNELS=", "NCCL_MAX_NCHANNELS="})
      variables.push_back(name + std::to_string(combination.channels));
  return variables;
}

std::vector<Pair> pairsOf(const Options& options) {
  std::vector<Pair> pairs;
  for (const std::string& collective : options.collectives)
    for (int round = 0; round < options.repeats; ++round)
      for (const Combination& combination : combinationsOf(tunedCollective(collective), options))
        pairs.push_back({collective, combination, round});
  return pairs;
}

}  // namespace cinch::tune
