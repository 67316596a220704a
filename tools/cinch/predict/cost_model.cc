#include "tools/cinch/predict/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "interpose/policy/policy.h"
#include "interpose/policy/precision/error_model.h"

namespace cinch {
namespace {

double real(uint64_t value) {
  return static_cast<double>(value);
}

// Halves of an AllReduce: scatter and reduce, and gather. ReduceScatter is the first of them.
double halvesOf(const CostedCall& call) {
  return call.kind == CallKind::allReduce ? 2 : 1;
}

// The part of something that each of n members sends away where everyone keeps its own share.
double sentShare(uint64_t members) {
  return real(members - 1) / real(members);
}

// Links of a host and inside of it are busy at the same time.
double wireSeconds(const LinkCost& link, double networkBytes, double localBytes) {
  return std::max(link.network.secondsPerByte * networkBytes,
                  link.local.secondsPerByte * localBytes);
}

// Hops of one half of a ring that enters and leaves each host once.
double ringHops(const CostFacts& facts) {
  const Topology& topology = facts.topology;
  return real(topology.hosts - 1) * facts.link.network.fixedSeconds +
         real(topology.ranks - topology.hosts) * facts.link.local.fixedSeconds;
}

// Everyone sends to everyone: the messages leave at once, but each has its price.
double directHop(const LinkCost& link, const LinearCost& hop, uint64_t members) {
  return members > 1 ? hop.fixedSeconds + real(members - 1) * link.secondsPerMessage : 0;
}

// Encoded bytes of the shard that every member of `members` owns, as the plan cuts it: whole tiles,
// with their header.
double shardBytes(const CostedCall& call, uint64_t count, uint32_t members,
                  wire::CodecFormat codec) {
  if (call.kind == CallKind::allReduce)
    return real(wire::ShardLayout{count, members, codec}.strideBytes());
  const uint64_t shard = (count + members - 1) / members;
  return real(wire::ShardLayout::fixed(shard, members, codec).strideBytes());
}

Prediction ring(const CostedCall& call, const CostFacts& facts) {
  const Topology& topology = facts.topology;
  const double halves = halvesOf(call);
  const double nBytes = halves * sentShare(topology.ranks) * call.inputBytes();
  Prediction made;
  made.hostLinkBytes = topology.hosts > 1 ? nBytes : 0;
  made.wireSeconds =
      wireSeconds(facts.link, made.hostLinkBytes, topology.ranksPerHost() > 1 ? nBytes : 0);
  made.latencySeconds = halves * ringHops(facts);
  return made;
}

// Every host is a leaf of one tree and an inner node of the other one, each of which carries half
// of the bucket, up and down.
Prediction tree(const CostedCall& call, const CostFacts& facts) {
  const Topology& topology = facts.topology;
  const double nBytes = 2 * call.inputBytes();
  Prediction made;
  made.hostLinkBytes = topology.hosts > 1 ? nBytes : 0;
  made.wireSeconds =
      wireSeconds(facts.link, made.hostLinkBytes, topology.ranksPerHost() > 1 ? nBytes : 0);
  const double levels = std::ceil(std::log2(real(topology.hosts)));
  made.latencySeconds = 2 * (levels * facts.link.network.fixedSeconds +
                             real(topology.ranksPerHost() - 1) * facts.link.local.fixedSeconds);
  return made;
}

// Encode all but the own shard, sum the parts of that one, and decode all.
double codecSeconds(const CostedCall& call, const CodecCost& cost, double nBytes,
                    uint32_t members) {
  const double decode = call.kind == CallKind::allReduce ? cost.decode.of(nBytes) : 0;
  return cost.encode.of(sentShare(members) * nBytes) + cost.reduce.of(nBytes) + decode;
}

// The own part is exact when it is summed up; the sum is coded for all, the owner included.
double flatQuantisations(const CostedCall& call, uint32_t members) {
  return sentShare(members) + (call.kind == CallKind::allReduce ? 1 : 0);
}

// The exchange goes from each rank to each rank; so does the gather where each has a host. Else
// that is NCCL's own and goes round a ring.
Prediction flat(const CostedCall& call, const CostFacts& facts) {
  const Topology& topology = facts.topology;
  const bool gathers = call.kind == CallKind::allReduce;
  const double local = topology.ranksPerHost(), ranks = topology.ranks;
  const double shard = shardBytes(call, call.count, topology.ranks, facts.codec);
  const double exchanged = topology.hosts > 1 ? local * (ranks - local) * shard : 0;
  const double gathered = gathers ? (ranks - 1) * shard : 0;
  const double gatheredOut = topology.hosts > 1 ? gathered : 0;
  Prediction made;
  made.hostLinkBytes = exchanged + gatheredOut;
  made.wireSeconds = wireSeconds(facts.link, exchanged, (local - 1) * shard) +
                     wireSeconds(facts.link, gatheredOut, local > 1 ? gathered : 0);
  const LinearCost& hop = topology.hosts > 1 ? facts.link.network : facts.link.local;
  const double direct = directHop(facts.link, hop, topology.ranks);
  const double gather = gathersDirectly(topology.ranks, topology.hosts) ? direct : ringHops(facts);
  made.latencySeconds = direct + (gathers ? gather : 0);
  made.codecSeconds = codecSeconds(call, facts.codecCost, call.inputBytes(), topology.ranks);
  made.quantisations = flatQuantisations(call, topology.ranks);
  return made;
}

double pairCodecSeconds(const CodecCost& cost, double nBytes) {
  return cost.encode.of(nBytes) + cost.reduce.of(2 * nBytes);
}

// Both decode both, their own codes included, and so get the same sum.
Prediction pair(const CostedCall& call, const CostFacts& facts) {
  const bool isRemote = facts.topology.hosts > 1;
  const double nBytes = real(wire::ShardLayout{call.count, 1, facts.codec}.strideBytes());
  Prediction made;
  made.hostLinkBytes = isRemote ? nBytes : 0;
  made.wireSeconds = wireSeconds(facts.link, made.hostLinkBytes, isRemote ? 0 : nBytes);
  made.latencySeconds = directHop(facts.link, isRemote ? facts.link.network : facts.link.local, 2);
  made.codecSeconds = pairCodecSeconds(facts.codecCost, call.inputBytes());
  made.quantisations = 1;
  return made;
}

// Scatter and gather of exact values inside the host, all ranks to all.
void addLocalHalves(const CostedCall& call, const CostFacts& facts, Prediction& made) {
  const uint32_t local = facts.topology.ranksPerHost();
  const double halves = halvesOf(call);
  made.wireSeconds +=
      halves * facts.link.local.secondsPerByte * sentShare(local) * call.inputBytes();
  made.latencySeconds += halves * directHop(facts.link, facts.link.local, local);
}

// Every rank of a host does this with its share of the bucket and its like on other hosts: of two
// hosts, as a pair.
Prediction hierarchical(const CostedCall& call, const CostFacts& facts) {
  const Topology& topology = facts.topology;
  const uint32_t local = topology.ranksPerHost();
  const uint64_t share = (call.count + local - 1) / local;
  const double shard = shardBytes(call, share, topology.hosts, facts.codec);
  Prediction made;
  made.hostLinkBytes = halvesOf(call) * local * real(topology.hosts - 1) * shard;
  made.wireSeconds = facts.link.network.secondsPerByte * made.hostLinkBytes;
  const bool arePairs = topology.hosts == 2;
  const double shareBytes = call.inputBytes() / local;
  made.latencySeconds =
      (arePairs ? 1 : halvesOf(call)) * directHop(facts.link, facts.link.network, topology.hosts);
  made.codecSeconds = arePairs ? pairCodecSeconds(facts.codecCost, shareBytes)
                               : codecSeconds(call, facts.codecCost, shareBytes, topology.hosts);
  made.quantisations = arePairs ? 1 : flatQuantisations(call, topology.hosts);
  addLocalHalves(call, facts, made);
  return made;
}

// A row sums up first and codes its sums once more for the columns. What those gather is handed on
// along the rows as it is.
Prediction grid(const CostedCall& call, const CostFacts& facts) {
  const uint32_t local = facts.topology.ranksPerHost();
  const auto [rows, columns] = gridOf(facts.topology.hosts);
  const uint64_t share = (call.count + local - 1) / local;
  const uint64_t rowShare = (share + columns - 1) / columns;
  const double rowShard = shardBytes(call, share, columns, facts.codec);
  const double columnShard = shardBytes(call, rowShare, rows, facts.codec);
  const double halves = halvesOf(call);
  Prediction made;
  made.hostLinkBytes =
      halves * local * (real(columns - 1) * rowShard + real(rows - 1) * columnShard);
  made.wireSeconds = facts.link.network.secondsPerByte * made.hostLinkBytes;
  made.latencySeconds = halves * (directHop(facts.link, facts.link.network, columns) +
                                  directHop(facts.link, facts.link.network, rows));
  const double shareBytes = call.inputBytes() / local;
  made.codecSeconds = codecSeconds(call, facts.codecCost, shareBytes, columns) +
                      facts.codecCost.reduce.of(shareBytes / columns);
  made.quantisations = sentShare(columns) + flatQuantisations(call, rows);
  addLocalHalves(call, facts, made);
  return made;
}

bool canDo(Scheme scheme, const CostedCall& call, const Topology& topology) {
  const bool isAllReduce = call.kind == CallKind::allReduce;
  switch (scheme) {
    case Scheme::ring:
      return true;
    case Scheme::tree:
      return isAllReduce;
    case Scheme::flat:
      return topology.ranks > 1;
    case Scheme::pair:
      return isAllReduce && topology.ranks == 2;
    case Scheme::hierarchical:
      return isAllReduce && topology.hosts > 1 && topology.ranksPerHost() > 1;
    case Scheme::grid:
      return topology.hosts >= kSmallestGrid && gridOf(topology.hosts).rows > 1;
    default:
      return false;
  }
}

constexpr double kSmallestBytes = 1024, kLargestBytes = 1e12;

bool isFaster(Scheme scheme, const CostedCall& call, const CostFacts& facts) {
  const auto made = predict(scheme, call, facts);
  return made && made->seconds() < predictExact(call, facts).seconds();
}

bool isFasterFor(Scheme scheme, CostedCall call, const CostFacts& facts, double nBytes) {
  call.count = static_cast<uint64_t>(nBytes / elementBytes(call.type));
  return isFaster(scheme, call, facts);
}

// Where `isBelow` turns from true to false between two positive numbers, to a thousandth.
template <class Test>
double turnBetween(double low, double high, Test isBelow) {
  while (high > low * 1.001) {
    const double middle = std::sqrt(low * high);
    (isBelow(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace

HostGrid gridOf(uint32_t hosts) {
  uint32_t rows = static_cast<uint32_t>(std::sqrt(real(hosts)));
  while (rows > 1 && hosts % rows != 0) --rows;
  rows = std::max(rows, 1u);
  constexpr uint32_t kLongest = 8;  // columns for each row; beyond it, it is hardly a grid
  return hosts / rows > kLongest * rows ? HostGrid{1, hosts} : HostGrid{rows, hosts / rows};
}

SchemeInfo infoOf(Scheme scheme) {
  constexpr std::array<SchemeInfo, kSchemeCount> kInfos = {{{"ring", true, true},
                                                            {"tree", true, true},
                                                            {"flat", false, true},
                                                            {"pair", false, true},
                                                            {"hierarchical", false, true},
                                                            {"grid", false, false}}};
  return kInfos[static_cast<size_t>(scheme)];
}

std::optional<Prediction> predict(Scheme scheme, const CostedCall& call, const CostFacts& facts) {
  if (!facts.topology.isValid() || !canDo(scheme, call, facts.topology)) return std::nullopt;
  switch (scheme) {
    case Scheme::ring:
      return ring(call, facts);
    case Scheme::tree:
      return tree(call, facts);
    case Scheme::flat:
      return flat(call, facts);
    case Scheme::pair:
      return pair(call, facts);
    case Scheme::hierarchical:
      return hierarchical(call, facts);
    case Scheme::grid:
      return grid(call, facts);
    default:
      return std::nullopt;
  }
}

Scheme compressedScheme(const CostedCall& call, const Topology& topology) {
  for (const Scheme scheme : {Scheme::pair, Scheme::hierarchical})
    if (canDo(scheme, call, topology)) return scheme;
  return Scheme::flat;
}

Scheme fastestScheme(const CostedCall& call, const CostFacts& facts, bool isExecuted) {
  Scheme best = Scheme::ring;
  double least = HUGE_VAL;
  for (size_t i = 0; i < kSchemeCount; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    const auto made = predict(scheme, call, facts);
    const bool isDone = infoOf(scheme).isExact || scheme == compressedScheme(call, facts.topology);
    if (!made || (isExecuted && !isDone) || made->seconds() >= least) continue;
    best = scheme;
    least = made->seconds();
  }
  return best;
}

Prediction predictExact(const CostedCall& call, const CostFacts& facts) {
  const Prediction byRing = ring(call, facts);
  if (!canDo(Scheme::tree, call, facts.topology)) return byRing;
  const Prediction byTree = tree(call, facts);
  return byTree.seconds() < byRing.seconds() ? byTree : byRing;
}

std::optional<double> breakEvenBytes(Scheme scheme, CostedCall call, const CostFacts& facts) {
  const auto isSlower = [&](double nBytes) { return !isFasterFor(scheme, call, facts, nBytes); };
  double above = kLargestBytes;
  if (isSlower(above)) return std::nullopt;
  while (above > kSmallestBytes && !isSlower(above / 2)) above /= 2;
  if (above <= kSmallestBytes) return kSmallestBytes;
  return turnBetween(above / 2, above, isSlower);
}

std::optional<double> breakEvenRate(Scheme scheme, const CostedCall& call, CostFacts facts) {
  const auto isFasterAt = [&](double bytesPerSecond) {
    facts.link.network.secondsPerByte = 1 / bytesPerSecond;
    return isFaster(scheme, call, facts);
  };
  constexpr double kSlowest = 1e3, kFastest = 1e14;
  double above = kSlowest;
  if (!isFasterAt(above)) return std::nullopt;
  while (above < kFastest && isFasterAt(2 * above)) above *= 2;
  return above < kFastest ? turnBetween(above, 2 * above, isFasterAt) : HUGE_VAL;
}

std::optional<double> gaussianNmse(const codec::CodecInfo& codec) {
  constexpr uint64_t kBlock = 128;
  constexpr double kSquaredRange = 27.3;  // mean of that of 128 Gaussian values of variance 1
  const auto error = predictError(
      codec, Rounding::nearest, {.count = kBlock, .power = kBlock, .squaredRanges = kSquaredRange});
  return error ? std::optional(*error / kBlock) : std::nullopt;
}

}  // namespace cinch
