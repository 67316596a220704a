#include "tests/fuzz/generator.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/fuzz/call_sites.h"

namespace cinch::fuzz {
namespace {

constexpr int kMaxLive = 5;

// Which process each rank belongs to: most often one of its own.
std::vector<int> randomPlacement(Random& random, bool shared) {
  if (!shared || random.percent(75)) {
    std::vector<int> own(static_cast<size_t>(random.pick({2, 2, 3, 3, 4, 5})));
    std::iota(own.begin(), own.end(), 0);
    return own;
  }
  return random.pick<std::vector<int>>(
      std::vector<std::vector<int>>{{0, 0, 1}, {0, 0, 1, 1}, {0, 1, 1}, {0, 0, 0, 1, 1}});
}

// A few calls that are made again and again, alone or in groups.
struct Loop {
  std::vector<Site> sites;
  std::vector<GroupSite> groups;

  void moveAllTo(const std::vector<int>& streams, const Builder& builder) {
    for (Site& site : sites) moveTo(streams, site);
    for (GroupSite& group : groups) moveTo(streams, builder, group);
  }

  // The values that one pass reduces, by communicator.
  std::map<int, size_t> reducedValues() const {
    std::map<int, size_t> values;
    const auto addAll = [&values](const std::vector<Site>& these) {
      for (const Site& site : these)
        if (reduces(site.call.kind)) values[site.call.comm] += site.call.count;
    };
    addAll(sites);
    for (const GroupSite& group : groups)
      for (const GroupSite::Part& part : group.parts) addAll(part.sites);
    return values;
  }
};

class Generator {
 public:
  Generator(Random& random, uint64_t seed, const Features& features)
      : features_(features),
        builder_(seed, randomPlacement(random, features.sharedProcess), random.between(1, 3)) {}

  Program run() {
    create(allRanks());
    const int nPhases = random().between(2, 4);
    for (int phase = 0; phase < nPhases; ++phase) {
      if (random().percent(60) && static_cast<int>(builder_.live.size()) < kMaxLive) moreComms();
      training();
      interlude();
    }
    end();
    return builder_.finish();
  }

 private:
  Random& random() { return builder_.random; }

  std::vector<int> allRanks() const {
    std::vector<int> ranks(static_cast<size_t>(builder_.nRanks()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  std::vector<int> someRanks() {
    std::vector<int> ranks = allRanks();
    random().shuffle(ranks);
    const int size = random().percent(12) ? 1 : random().between(2, builder_.nRanks());
    ranks.resize(static_cast<size_t>(size));
    if (random().percent(60)) std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  // --- communicators ---

  void moreComms() {
    const int choice = random().below(100);
    if (choice < 15) return createGrouped();
    if (features_.splits && choice < 50) return split();
    create(random().percent(30) ? allRanks() : someRanks());
  }

  void create(std::vector<int> members) {
    builder_.nextStep();
    const bool nonBlocking = features_.nonBlocking && random().percent(20);
    const int comm = builder_.addComm(std::move(members), nonBlocking);
    builder_.addToMembers(comm, Sync{});
    builder_.addToMembers(comm, InitRank{comm, nonBlocking || random().percent(40)});
    builder_.live.push_back(comm);
  }

  // Several communicators of the same ranks, made by one group.
  void createGrouped() {
    builder_.nextStep();
    const std::vector<int> members = someRanks();
    const int first = builder_.addComm(members);
    const int second = builder_.addComm(members);
    for (const int rank : members) {
      builder_.add(rank, Sync{});
      builder_.add(rank, GroupStart{});
      builder_.add(rank, InitRank{first, false});
      builder_.add(rank, InitRank{second, true});
      builder_.add(rank, GroupEnd{});
    }
    builder_.live.push_back(first);
    builder_.live.push_back(second);
  }

  // Every rank of the parent picks a colour, or none, and a key that decides its new rank.
  void split() {
    builder_.nextStep();
    const int parent = random().pick(builder_.live);
    const std::vector<int> members = builder_.comm(parent).members;
    const int nColors = random().between(1, 2);
    const bool reversed = random().percent(30);
    std::vector<int> colors;
    for (size_t i = 0; i < members.size(); ++i)
      colors.push_back(random().percent(12) ? NCCL_SPLIT_NOCOLOR : random().below(nColors));
    std::vector<int> made(static_cast<size_t>(nColors), -1);
    for (int color = 0; color < nColors; ++color)
      made[color] = addPart(parent, colors, color, reversed);
    for (size_t i = 0; i < members.size(); ++i) {
      const int key = reversed ? static_cast<int>(members.size() - i) : 7;
      builder_.add(members[i], Sync{});
      builder_.add(members[i], Split{parent, colors[i] < 0 ? -1 : made[colors[i]], colors[i], key});
    }
  }

  // The communicator of one colour; -1: nobody picked it.
  int addPart(int parent, const std::vector<int>& colors, int color, bool reversed) {
    const std::vector<int>& members = builder_.comm(parent).members;
    std::vector<int> part;
    for (size_t i = 0; i < members.size(); ++i)
      if (colors[i] == color) part.push_back(members[i]);
    if (part.empty()) return -1;
    if (reversed) std::reverse(part.begin(), part.end());
    builder_.live.push_back(builder_.addComm(part, builder_.comm(parent).nonBlocking));
    return builder_.live.back();
  }

  // Live communicators that block, or that do not: the two do not mix in a group.
  std::vector<int> ofMode(const std::vector<int>& from, bool nonBlocking) const {
    std::vector<int> comms;
    for (const int comm : from)
      if (builder_.comm(comm).nonBlocking == nonBlocking) comms.push_back(comm);
    return comms;
  }

  std::vector<int> pickComms(const std::vector<int>& from) {
    std::vector<int> comms = ofMode(from, builder_.comm(random().pick(from)).nonBlocking);
    random().shuffle(comms);
    comms.resize(static_cast<size_t>(
        std::min<int>(random().pick({1, 1, 2, 2, 3}), static_cast<int>(comms.size()))));
    return comms;
  }

  void destroy(int comm) {
    builder_.addToMembers(comm, Sync{});
    if (random().percent(30)) builder_.addToMembers(comm, Finalize{comm});
    builder_.addToMembers(comm, Destroy{comm});
    std::erase(builder_.live, comm);
  }

  // --- the same calls again and again ---

  Site oneSite(int comm) {
    return features_.userOps && random().percent(20) ? randomUserSite(builder_, comm)
                                                     : randomSite(builder_, comm);
  }

  Loop randomLoop(const std::vector<int>& comms) {
    Loop loop;
    const int nUnits = random().between(1, 3);
    for (int unit = 0; unit < nUnits; ++unit) {
      if (random().percent(45))
        loop.groups.push_back(randomGroup(builder_, pickComms(comms), features_.userOps));
      else
        loop.sites.push_back(oneSite(random().pick(comms)));
    }
    return loop;
  }

  // Returns the first buffer slot that was not used.
  int emit(const Loop& loop, int slot = 0, bool sharesMemory = true) {
    int next = slot;
    for (const GroupSite& group : loop.groups) {
      builder_.nextStep();
      const int end = emitGroup(builder_, group, sharesMemory ? slot : next);
      next = std::max(next, end);
    }
    for (const Site& site : loop.sites) {
      builder_.nextStep();
      emitSite(builder_, site, sharesMemory ? slot : next++);
    }
    return next;
  }

  void rounds(const Loop& loop, int nRounds) {
    for (int round = 0; round < nRounds; ++round) {
      emit(loop);
      perhapsSync();
    }
  }

  void training() {
    const int choice = random().below(100);
    if (features_.graphs && choice < 25) return captured();
    if (features_.threads && choice < 40 && builder_.nStreams() > 1 && builder_.live.size() > 1)
      return twoThreads();
    const Loop loop = randomLoop(builder_.live);
    if (random().percent(40)) return rounds(loop, random().between(4, 8));
    broadcastModels(loop);
    rounds(loop, random().between(6, 10));
  }

  // Where as many values are broadcast first as a loop reduces, its rounds may be known for the
  // steps of a training job.
  void broadcastModels(const Loop& loop) {
    for (const auto& [comm, nParameters] : loop.reducedValues()) {
      builder_.nextStep();
      Site site = randomSite(builder_, comm);
      site.call.kind = Kind::broadcast;
      site.call.type = ncclFloat32;
      site.call.op = ncclSum;
      site.call.count = nParameters;
      site.call.peer = random().below(builder_.comm(comm).size());
      emitSite(builder_, site);
    }
  }

  // Waiting is every rank's own affair.
  void perhapsSync() {
    builder_.nextStep();
    for (int rank = 0; rank < builder_.nRanks(); ++rank)
      if (random().percent(20)) builder_.add(rank, Sync{});
  }

  // Calls that are made a few times, then captured, and replayed between others.
  void captured() {
    const std::vector<int> blocking = ofMode(builder_.live, false);
    if (blocking.empty()) return rounds(randomLoop(builder_.live), 6);
    Loop loop = randomLoop(blocking);
    const Loop between = randomLoop(builder_.live);
    std::vector<int> streams;
    for (int rank = 0; rank < builder_.nRanks(); ++rank) streams.push_back(builder_.pickStream());
    loop.moveAllTo(streams, builder_);
    rounds(loop, random().between(0, 6));

    const int graph = builder_.newGraph();
    builder_.nextStep();
    for (int rank = 0; rank < builder_.nRanks(); ++rank)
      builder_.add(rank, BeginCapture{graph, streams[static_cast<size_t>(rank)]});
    // Nothing else may use a graph's memory, so its slots begin behind all others.
    const int nCaptures = random().between(1, 2);
    for (int i = 0; i < nCaptures; ++i) graphSlot_ = emit(loop, graphSlot_, false);
    builder_.addToAll(EndCapture{});

    const int nRounds = random().between(1, 4);
    for (int round = 1; round <= nRounds; ++round) {
      builder_.nextStep();
      builder_.addToAll(Replay{graph, round});
      if (random().percent(40)) emit(between);
      if (random().percent(20)) emit(loop);
      perhapsSync();
    }
    builder_.nextStep();
    builder_.addToAll(Sync{});
    builder_.addToAll(DropGraph{graph});
  }

  // Two threads of every rank, each with communicators and streams of its own.
  void twoThreads() {
    std::vector<int> comms = builder_.live;
    random().shuffle(comms);
    const int border = random().between(1, static_cast<int>(comms.size()) - 1);
    const int streamBorder = random().between(1, builder_.nStreams() - 1);
    auto first = separately({comms.begin(), comms.begin() + border}, 0, streamBorder);
    auto second =
        separately({comms.begin() + border, comms.end()}, streamBorder, builder_.nStreams());
    builder_.nextStep();
    builder_.addToAll(Sync{});
    for (int rank = 0; rank < builder_.nRanks(); ++rank)
      builder_.add(rank, Parallel{std::move(first[rank]), std::move(second[rank])});
    builder_.useStreams(0, builder_.nStreams());
  }

  // The actions of a loop on some of the communicators and streams, by rank.
  std::vector<std::vector<Stepped>> separately(const std::vector<int>& comms, int firstStream,
                                               int lastStream) {
    std::vector<std::vector<Stepped>> lists(static_cast<size_t>(builder_.nRanks()));
    builder_.useStreams(firstStream, lastStream);
    builder_.swapLists(lists);
    rounds(randomLoop(comms), random().between(4, 7));
    builder_.swapLists(lists);
    return lists;
  }

  // --- between the loops ---

  void interlude() {
    if (random().percent(25)) wrongCall();
    if (random().percent(20)) wrongGroup();
    if (random().percent(25)) emptyGroups();
    if (features_.simulate && random().percent(30)) simulated();
    if (random().percent(30)) message();
    if (random().percent(30) && builder_.live.size() > 1) {
      builder_.nextStep();
      destroy(random().pick(builder_.live));
    }
  }

  Site wrongSite(int comm) {
    Site site = randomSite(builder_, comm);
    site.call.count = std::max<size_t>(site.call.count, 1);
    site.call.idle = true;
    std::vector<Fault> faults = {Fault::dataType, Fault::nullBuffer, Fault::communicator};
    if (reduces(site.call.kind)) faults.push_back(Fault::operation);
    if (site.call.peer >= 0) faults.push_back(Fault::root);
    site.call.fault = random().pick(faults);
    return site;
  }

  void wrongCall() {
    builder_.nextStep();
    const int comm = random().pick(builder_.live);
    // An error is the end of a non-blocking communicator.
    if (!builder_.comm(comm).nonBlocking) emitSite(builder_, wrongSite(comm));
  }

  // One wrong call, and nothing of its group is launched.
  void wrongGroup() {
    builder_.nextStep();
    const int comm = random().pick(builder_.live);
    // NCCL carries out the calls of a single rank at once, without waiting for the group's end.
    if (builder_.comm(comm).size() == 1 || builder_.comm(comm).nonBlocking) return;
    builder_.addToMembers(comm, GroupStart{});
    for (int slot = 0; slot < 3; ++slot) {
      Site site = slot == 1 ? wrongSite(comm) : randomSite(builder_, comm);
      site.call.idle = true;
      emitSite(builder_, site, slot);
    }
    builder_.addToMembers(comm, GroupEnd{});
  }

  void emptyGroups() {
    builder_.nextStep();
    for (int rank = 0; rank < builder_.nRanks(); ++rank) {
      const int depth = random().between(0, 2);
      for (int level = 0; level < depth; ++level) builder_.add(rank, GroupStart{});
      for (int level = 0; level < depth; ++level) builder_.add(rank, GroupEnd{});
    }
  }

  // A group that is not launched: a rank may do that alone.
  void simulated() {
    builder_.nextStep();
    const int comm = random().pick(builder_.live);
    if (builder_.comm(comm).size() == 1 || builder_.comm(comm).nonBlocking) return;
    Site site = randomSite(builder_, comm);
    site.call.idle = true;
    std::vector<std::vector<Stepped>> lists(static_cast<size_t>(builder_.nRanks()));
    builder_.swapLists(lists);
    builder_.addToMembers(comm, GroupStart{});
    emitSite(builder_, site);
    builder_.addToMembers(comm, SimulateEnd{});
    builder_.swapLists(lists);
    for (const int rank : builder_.comm(comm).members)
      if (random().percent(50))
        for (const Stepped& stepped : lists[static_cast<size_t>(rank)])
          builder_.add(rank, stepped.action);
  }

  // One message between two ranks, without a group.
  void message() {
    builder_.nextStep();
    const int comm = random().pick(builder_.live);
    const int size = builder_.comm(comm).size();
    if (size < 2) return;
    Call call;
    call.comm = comm;
    call.uid = builder_.newUid();
    call.count = static_cast<size_t>(random().between(1, 5000));
    const int from = random().below(size), to = (from + random().between(1, size - 1)) % size;
    call.kind = Kind::send;
    call.peer = to;
    call.stream = builder_.pickStream();
    builder_.add(builder_.comm(comm).members[static_cast<size_t>(from)], call);
    call.kind = Kind::receive;
    call.peer = from;
    call.stream = builder_.pickStream();
    builder_.add(builder_.comm(comm).members[static_cast<size_t>(to)], call);
  }

  // --- the end ---

  void end() {
    builder_.nextStep();
    builder_.addToAll(Sync{});
    if (features_.aborts && random().percent(20)) abortOne();
    std::vector<int> left = builder_.live;
    random().shuffle(left);
    for (const int comm : left) destroy(comm);
  }

  // As a watchdog ends a job that is stuck: one rank does not take part in a call.
  void abortOne() {
    const int comm = random().pick(builder_.live);
    Site site = randomSite(builder_, comm);
    site.call.abandoned = true;
    std::vector<std::vector<Stepped>> lists(static_cast<size_t>(builder_.nRanks()));
    builder_.swapLists(lists);
    emitSite(builder_, site);
    builder_.swapLists(lists);
    const std::vector<int> members = builder_.comm(comm).members;
    const int absent = random().pick(members);
    for (const int rank : members) {
      if (rank != absent)
        for (const Stepped& stepped : lists[static_cast<size_t>(rank)])
          builder_.add(rank, stepped.action);
      builder_.add(rank, Abort{comm, random().percent(70)});
      builder_.add(rank, Sync{});
    }
    std::erase(builder_.live, comm);
  }

  const Features features_;
  Builder builder_;
  int graphSlot_ = 1000;
};

}  // namespace

Program generate(uint64_t seed, const Features& features) {
  Random random(~seed);
  return Generator(random, seed, features).run();
}

}  // namespace cinch::fuzz
