#include "tests/fuzz/call_sites.h"

#include <algorithm>

#include "tests/fuzz/values.h"

namespace cinch::fuzz {
namespace {

size_t randomCount(Random& random) {
  const int shape = random.below(100);
  if (shape < 3) return 0;
  if (shape < 15) return random.pick({1, 2, 7, 127, 128, 129});
  if (shape < 75) return random.pick({300, 511, 1000, 1023, 1024, 1025, 2048, 3333, 4097});
  if (shape < 97) return static_cast<size_t>(random.between(4000, 20000));
  return static_cast<size_t>(random.between(50000, 120000));
}

ncclDataType_t randomType(Random& random) {
  if (random.percent(75)) return random.pick({ncclFloat32, ncclFloat32, ncclFloat16, ncclBfloat16});
  return random.pick(
      {ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat64});
}

ncclRedOp_t randomOp(Random& random) {
  if (random.percent(80)) return random.pick({ncclSum, ncclSum, ncclAvg});
  return random.pick({ncclProd, ncclMax, ncclMin});
}

Kind randomKind(Random& random) {
  if (random.percent(65))
    return random.pick({Kind::allReduce, Kind::allReduce, Kind::reduceScatter});
  return random.pick({Kind::allGather, Kind::broadcast, Kind::bcast, Kind::reduce});
}

bool isRooted(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::bcast || kind == Kind::reduce;
}

// Large buckets for AllReduce only: the others multiply them by the ranks.
size_t bounded(Kind kind, size_t count) {
  return kind == Kind::reduceScatter || kind == Kind::allGather ? std::min<size_t>(count, 20000)
                                                                : count;
}

double randomScalar(Random& random, ncclDataType_t type) {
  return isFloat(type) ? random.pick({0.5, 0.25, 1.5, -0.75, 1.0 / 3}) : random.pick({1, 2});
}

Message randomMessage(Builder& builder, int comm) {
  Random& random = builder.random;
  const int size = builder.comm(comm).size();
  Message message{};
  message.call.comm = comm;
  message.call.count = static_cast<size_t>(random.between(0, 6000));
  message.call.type = randomType(random);
  message.from = random.below(size);
  message.to = random.percent(10) ? message.from : random.below(size);
  message.fromStream = builder.pickStream();
  message.toStream = builder.pickStream();
  return message;
}

// Which of the part's calls a rank makes, in an order of its own choice: collectives stay in
// theirs, and so do the messages.
std::vector<int> randomOrder(Random& random, const GroupSite::Part& part, int rank) {
  std::vector<int> order;
  for (size_t i = 0; i < part.sites.size(); ++i) order.push_back(static_cast<int>(i));
  size_t at = 0;
  for (size_t i = 0; i < part.messages.size(); ++i) {
    if (part.messages[i].from != rank && part.messages[i].to != rank) continue;
    at = static_cast<size_t>(random.between(static_cast<int>(at), static_cast<int>(order.size())));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at++), -1 - static_cast<int>(i));
  }
  return order;
}

GroupSite::Part randomPart(Builder& builder, int comm, bool userOps) {
  Random& random = builder.random;
  GroupSite::Part part{comm, {}, {}, {}};
  const int nSites = random.percent(15) ? 0 : random.between(1, 3);
  for (int i = 0; i < nSites; ++i)
    part.sites.push_back(userOps && random.percent(20) ? randomUserSite(builder, comm)
                                                       : randomSite(builder, comm));
  const int nMessages = nSites == 0 || random.percent(40) ? random.between(1, 4) : 0;
  for (int i = 0; i < nMessages; ++i) part.messages.push_back(randomMessage(builder, comm));
  for (int rank = 0; rank < builder.comm(comm).size(); ++rank)
    part.order.push_back(randomOrder(random, part, rank));
  return part;
}

}  // namespace

Site randomSite(Builder& builder, int comm) {
  Random& random = builder.random;
  Site site;
  site.call.comm = comm;
  site.call.kind = randomKind(random);
  site.call.count = bounded(site.call.kind, randomCount(random));
  site.call.type = randomType(random);
  if (reduces(site.call.kind)) site.call.op = randomOp(random);
  if (isRooted(site.call.kind)) site.call.peer = random.below(builder.comm(comm).size());
  const bool oneStream = random.percent(70), mixedForms = random.percent(15);
  const int stream = builder.pickStream();
  const bool inPlace = random.percent(35);
  for (int rank = 0; rank < builder.nRanks(); ++rank) {
    site.streams.push_back(oneStream ? stream : builder.pickStream());
    site.offsets.push_back(random.percent(80) ? 0 : random.between(1, 5));
    const bool here = mixedForms ? random.percent(50) : inPlace;
    site.inPlace.push_back(here || site.call.kind == Kind::bcast);
  }
  return site;
}

GroupSite randomGroup(Builder& builder, const std::vector<int>& comms, bool userOps) {
  Random& random = builder.random;
  GroupSite group;
  for (const int comm : comms) group.parts.push_back(randomPart(builder, comm, userOps));
  for (int rank = 0; rank < builder.nRanks(); ++rank) {
    group.interleaved.push_back(random.percent(30));
    group.nesting.push_back(random.percent(25) ? random.between(1, 2) : 0);
  }
  return group;
}

Site randomUserSite(Builder& builder, int comm) {
  Random& random = builder.random;
  Site site = randomSite(builder, comm);
  while (!reduces(site.call.kind)) site = randomSite(builder, comm);
  site.call.op = ncclNumOps;
  site.scalarOnDevice = random.percent(40);
  const bool alike = random.percent(70);
  const double scalar = randomScalar(random, site.call.type);
  for (int rank = 0; rank < builder.nRanks(); ++rank)
    site.scalars.push_back(alike ? scalar : randomScalar(random, site.call.type));
  return site;
}

void moveTo(const std::vector<int>& streams, Site& site) {
  site.streams = streams;
}

void moveTo(const std::vector<int>& streams, const Builder& builder, GroupSite& group) {
  for (GroupSite::Part& part : group.parts) {
    const std::vector<int>& members = builder.comm(part.comm).members;
    for (Site& site : part.sites) moveTo(streams, site);
    for (Message& message : part.messages) {
      message.fromStream = streams[members[message.from]];
      message.toStream = streams[members[message.to]];
    }
  }
}

}  // namespace cinch::fuzz
