#include "tests/fuzz/generator.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/fuzz/legality.h"
#include "tests/fuzz/random.h"

namespace cinch::fuzz {
namespace {

constexpr uint64_t kPrograms = 1500;

Features all() {
  Features features;
  features.sharedProcess = true;
  return features;
}

TEST(Generator, ProgramsAreLegal) {
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const Program program = generate(seed, all());
    const auto violations = violationsOf(program);
    ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations.front();
  }
}

TEST(Generator, SameSeedSameProgram) {
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = describe(generate(seed, all()));
    EXPECT_EQ(text, describe(generate(seed, all())));
    different.insert(text.substr(text.find('\n')));
  }
  EXPECT_EQ(different.size(), 200u);
}

// What the programs of many seeds contain together.
struct Coverage {
  std::set<std::string> seen;

  void add(const std::vector<Stepped>& actions) {
    for (const Stepped& stepped : actions) {
      seen.insert("action " + std::to_string(stepped.action.index()));
      if (const auto* call = std::get_if<Call>(&stepped.action)) addCall(*call);
      if (const auto* parallel = std::get_if<Parallel>(&stepped.action)) {
        add(parallel->first);
        add(parallel->second);
      }
    }
  }
  void addCall(const Call& call) {
    seen.insert(nameOf(call.kind));
    seen.insert(nameOf(call.type));
    seen.insert("op " + std::to_string(call.op));
    seen.insert("fault " + std::to_string(static_cast<int>(call.fault)));
    if (call.count == 0) seen.insert("empty");
    if (call.inPlace) seen.insert(std::string("in place ") + nameOf(call.kind));
    if (call.offset % 2 == 1) seen.insert("odd offset");
  }
};

TEST(Generator, EverythingOccurs) {
  Coverage coverage;
  std::set<size_t> ranks;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const Program program = generate(seed, all());
    ranks.insert(program.ranks.size());
    for (const auto& actions : program.ranks) coverage.add(actions);
  }
  EXPECT_EQ(ranks, (std::set<size_t>{2, 3, 4, 5}));
  for (const char* name : {"AllReduce",
                           "ReduceScatter",
                           "AllGather",
                           "Broadcast",
                           "Bcast",
                           "Reduce",
                           "Send",
                           "Recv",
                           "int8",
                           "uint8",
                           "int32",
                           "uint32",
                           "int64",
                           "uint64",
                           "fp16",
                           "fp32",
                           "fp64",
                           "bf16",
                           "op 0",
                           "op 1",
                           "op 2",
                           "op 3",
                           "op 4",
                           "fault 1",
                           "fault 2",
                           "fault 3",
                           "fault 4",
                           "fault 5",
                           "empty",
                           "in place AllReduce",
                           "in place ReduceScatter",
                           "in place AllGather",
                           "in place Reduce",
                           "odd offset"})
    EXPECT_EQ(coverage.seen.count(name), 1u) << name;
}

bool matters(const Program& program, const Action& action) {
  const auto* call = std::get_if<Call>(&action);
  return call != nullptr && !call->idle && call->count > 0 &&
         program.comms[call->comm].size() > 1 && call->peer != program.comms[call->comm].size();
}

// A rank that leaves out one call leaves the others waiting, or meets them with another one.
TEST(Legality, AMissingCallIsFound) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Program program = generate(seed, all());
    Random random(seed);
    auto& actions = program.ranks[random.next() % program.ranks.size()];
    std::vector<size_t> candidates;
    for (size_t i = 0; i < actions.size(); ++i)
      if (matters(program, actions[i].action)) candidates.push_back(i);
    if (candidates.empty()) continue;
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(random.pick(candidates)));
    EXPECT_FALSE(violationsOf(program).empty()) << seed;
  }
}

Program twoRanks() {
  Program program;
  program.processOf = {0, 1};
  program.comms = {{{0, 1}}, {{0, 1}}};
  for (int rank = 0; rank < 2; ++rank)
    program.ranks.push_back({{1, InitRank{0, false}}, {2, InitRank{1, false}}});
  return program;
}

Call allReduce(int comm, int uid) {
  Call call;
  call.comm = comm;
  call.uid = uid;
  call.count = 10;
  call.slot = uid;
  return call;
}

void append(Program& program, int rank, std::vector<Action> actions) {
  for (Action& action : actions) program.ranks[rank].push_back({3, std::move(action)});
}

TEST(Legality, CommunicatorsInAnotherOrderAreFound) {
  Program program = twoRanks();
  append(program, 0, {allReduce(0, 0), allReduce(1, 1)});
  append(program, 1, {allReduce(1, 1), allReduce(0, 0)});
  EXPECT_FALSE(violationsOf(program).empty());
}

TEST(Legality, OneGroupAgainstTwoCallsIsFound) {
  Program program = twoRanks();
  append(program, 0, {GroupStart{}, allReduce(0, 0), allReduce(0, 1), GroupEnd{}});
  append(program, 1, {allReduce(0, 0), allReduce(0, 1)});
  EXPECT_FALSE(violationsOf(program).empty());
}

TEST(Legality, MessagesMayStandAnywhereInTheirGroup) {
  Program program = twoRanks();
  Call send = allReduce(0, 1), receive = send;
  send.kind = Kind::send;
  send.peer = 1;
  receive.kind = Kind::receive;
  receive.peer = 0;
  append(program, 0, {GroupStart{}, send, allReduce(0, 0), GroupEnd{}});
  append(program, 1, {GroupStart{}, allReduce(0, 0), receive, GroupEnd{}});
  EXPECT_TRUE(violationsOf(program).empty());
  Program alone = twoRanks();
  append(alone, 0, {send, allReduce(0, 0)});
  append(alone, 1, {allReduce(0, 0), receive});
  EXPECT_FALSE(violationsOf(alone).empty());
}

TEST(Legality, RulesOfOneRankAreChecked) {
  const std::vector<std::vector<Action>> wrong = {
      {GroupStart{}},                                                // never ended
      {GroupStart{}, allReduce(0, 0), Sync{}, GroupEnd{}},           // waits inside
      {GroupStart{}, allReduce(0, 0), allReduce(0, 0), GroupEnd{}},  // memory twice
      {allReduce(0, 0), Destroy{0}},                                 // not waited for
      {Destroy{0}, allReduce(0, 0)},                                 // not there any more
  };
  for (const auto& actions : wrong) {
    Program program = twoRanks();
    append(program, 0, actions);
    append(program, 1, actions);
    EXPECT_FALSE(violationsOf(program).empty());
  }
}

}  // namespace
}  // namespace cinch::fuzz
