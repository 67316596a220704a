// What the tests of the transport lean on: the fake does what devices do, in all that matters here.
#include "fake_provider.h"

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <array>
#include <set>

#include "fake_ports.h"

namespace cinch::net::ib {
namespace {

constexpr size_t kBytes = 64 << 10;

// One end of a queue pair, its memory and its completion queue, made by the table alone.
struct End {
  End(FakeProvider& provider, int device, uint32_t depth, int nCompletions)
      : api(provider.api()), memory(kBytes) {
    context = api.openDevice(deviceAt(api, device));
    domain = api.allocPd(context);
    region = api.regMr(domain, memory.data(), memory.size(),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    completions = api.createCq(context, nCompletions, nullptr, nullptr, 0);
    pair = makePair(depth);
    api.queryGid(context, 1, 1, &address, 0, sizeof address);
  }
  ~End() {
    if (pair != nullptr) api.destroyQp(pair);
    api.destroyCq(completions);
    api.deregMr(region);
    api.deallocPd(domain);
    api.closeDevice(context);
  }

  ibv_qp* makePair(uint32_t depth) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {depth, depth, 1, 1, 64};
    ibv_qp* made = api.createQp(domain, &wanted);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    EXPECT_EQ(api.modifyQp(made, &to,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    return made;
  }
  void connect(ibv_qp* own, const End& peer, const ibv_qp* other, uint8_t notReadyRetries = 7) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.dest_qp_num = other->qp_num;
    to.ah_attr.grh.dgid = peer.address.gid;
    EXPECT_EQ(api.modifyQp(own, &to,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    to = {};
    to.qp_state = IBV_QPS_RTS;
    to.rnr_retry = notReadyRetries;
    EXPECT_EQ(api.modifyQp(own, &to,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  int postReceive(ibv_qp* own, uint64_t id) {
    ibv_recv_wr request{};
    request.wr_id = id;
    ibv_recv_wr* refused = nullptr;
    return api.postReceive(own, &request, &refused);
  }
  std::vector<ibv_wc> poll(int steps = 400) {
    std::vector<ibv_wc> all;
    std::array<ibv_wc, 4> found;
    for (; steps > 0; --steps) {
      const int n = api.pollCq(completions, found.size(), found.data());
      all.insert(all.end(), found.begin(), found.begin() + n);
    }
    return all;
  }
  ibv_event_type event() {
    ibv_async_event event{};
    const bool isThere = api.getAsyncEvent(context, &event) == 0;
    return isThere ? event.event_type : IBV_EVENT_CLIENT_REREGISTER;
  }

  const VerbsApi& api;
  std::vector<uint8_t> memory;
  ibv_context* context;
  ibv_pd* domain;
  ibv_mr* region;
  ibv_cq* completions;
  ibv_qp* pair;
  ibv_gid_entry address{};
};

// Two connected ends.
struct Ends {
  explicit Ends(const FakeOptions& options = {}, uint32_t depth = 32, int nCompletions = 1000,
                uint8_t notReadyRetries = 7)
      : provider(options),
        from(provider, 0, depth, nCompletions),
        to(provider, 1, depth, nCompletions) {
    from.connect(from.pair, to, to.pair, notReadyRetries);
    to.connect(to.pair, from, from.pair, notReadyRetries);
  }

  // A write of the same place at both ends.
  struct Write {
    ibv_sge piece{};
    ibv_send_wr request{};
  };
  Write write(uint64_t id, size_t offset, uint32_t nBytes) {
    Write it;
    it.piece = {reinterpret_cast<uint64_t>(from.memory.data() + offset), nBytes, from.region->lkey};
    it.request.wr_id = id;
    it.request.opcode = IBV_WR_RDMA_WRITE;
    it.request.send_flags = IBV_SEND_SIGNALED;
    it.request.num_sge = nBytes > 0 ? 1 : 0;
    it.request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to.memory.data() + offset);
    it.request.wr.rdma.rkey = to.region->rkey;
    return it;
  }
  int post(Write write, ibv_qp* pair = nullptr) {
    write.request.sg_list = &write.piece;
    ibv_send_wr* refused = nullptr;
    return from.api.postSend(pair == nullptr ? from.pair : pair, &write.request, &refused);
  }
  int postImmediate(uint32_t immediate, ibv_qp* pair = nullptr) {
    Write it = write(immediate, 0, 0);
    it.request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    it.request.imm_data = immediate;
    return post(it, pair);
  }

  FakeProvider provider;
  End from;
  End to;
};

std::vector<uint64_t> idsOf(const std::vector<ibv_wc>& found) {
  std::vector<uint64_t> ids;
  for (const ibv_wc& it : found) ids.push_back(it.wr_id);
  return ids;
}

TEST(FakeProvider, WritesArriveWhereTheyBelongAndNowhereElse) {
  Ends ends;
  std::fill(ends.from.memory.begin(), ends.from.memory.end(), uint8_t{9});
  ASSERT_EQ(ends.post(ends.write(4, 1001, 3000)), 0);
  EXPECT_EQ(ends.to.memory, std::vector<uint8_t>(kBytes, 0)) << "nothing happens at a posting";
  const auto found = ends.from.poll();
  ASSERT_EQ(idsOf(found), std::vector<uint64_t>{4});
  EXPECT_EQ(found[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(found[0].qp_num, ends.from.pair->qp_num);
  for (size_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(ends.to.memory[i], i >= 1001 && i < 4001 ? 9 : 0) << i;
  }
  EXPECT_EQ(ends.provider.bytesWritten(0), 3000u);
  EXPECT_EQ(ends.provider.bytesWritten(1), 0u);
}

// The bytes belong to the device until the completion: it may take them late.
TEST(FakeProvider, TakesDataWhenItMovesItAndInlineDataAtOnce) {
  for (const bool isInline : {false, true}) {
    Ends ends({.maxDelay = 0});
    auto write = ends.write(1, 0, 64);
    if (isInline) write.request.send_flags |= IBV_SEND_INLINE;
    ends.from.memory[0] = 1;
    ASSERT_EQ(ends.post(write), 0);
    ends.from.memory[0] = 2;
    ends.from.poll(10);
    EXPECT_EQ(ends.to.memory[0], isInline ? 1 : 2);
  }
}

TEST(FakeProvider, LandsPiecesInAnyOrder) {
  std::set<size_t> firsts;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Ends ends({.seed = seed});
    std::fill(ends.from.memory.begin(), ends.from.memory.end(), uint8_t{1});
    ASSERT_EQ(ends.post(ends.write(1, 0, 8192)), 0);
    while (ends.provider.bytesWritten(0) == 0) ends.provider.step();
    const auto first = std::find(ends.to.memory.begin(), ends.to.memory.end(), 1);
    firsts.insert(static_cast<size_t>(first - ends.to.memory.begin()));
  }
  EXPECT_GT(firsts.size(), 10u);
}

TEST(FakeProvider, KeepsTheOrderWithinAPairAndNotBetweenPairs) {
  bool wereSwapped = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Ends ends({.seed = seed});
    ibv_qp* const fromSecond = ends.from.makePair(32);
    ibv_qp* const toSecond = ends.to.makePair(32);
    ends.from.connect(fromSecond, ends.to, toSecond);
    ends.to.connect(toSecond, ends.from, fromSecond);
    for (uint32_t i = 0; i < 20; ++i) {
      ASSERT_EQ(ends.to.postReceive(i % 2 == 0 ? ends.to.pair : toSecond, i), 0);
      ASSERT_EQ(ends.postImmediate(i, i % 2 == 0 ? ends.from.pair : fromSecond), 0);
    }
    std::vector<uint32_t> byPair[2], all;
    for (const ibv_wc& it : ends.to.poll()) {
      EXPECT_EQ(it.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
      byPair[it.imm_data % 2].push_back(it.imm_data);
      all.push_back(it.imm_data);
    }
    ASSERT_EQ(all.size(), 20u);
    for (const auto& order : byPair) EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    wereSwapped |= !std::is_sorted(all.begin(), all.end());
    ends.from.api.destroyQp(fromSecond);
    ends.to.api.destroyQp(toSecond);
  }
  EXPECT_TRUE(wereSwapped);
}

// An immediate says that the writes before it are there.
TEST(FakeProvider, GivesAnImmediateAfterTheDataBeforeIt) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Ends ends({.seed = seed});
    std::fill(ends.from.memory.begin(), ends.from.memory.end(), uint8_t{1});
    ASSERT_EQ(ends.to.postReceive(ends.to.pair, 70), 0);
    ASSERT_EQ(ends.post(ends.write(1, 0, 20000)), 0);
    ASSERT_EQ(ends.postImmediate(5), 0);
    while (ends.to.poll(1).empty()) {
    }
    EXPECT_EQ(std::count(ends.to.memory.begin(), ends.to.memory.end(), 1), 20000);
  }
}

TEST(FakeProvider, FlushesWhatComesAfterAnError) {
  Ends ends;
  ASSERT_EQ(ends.from.postReceive(ends.from.pair, 90), 0);
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(ends.post(ends.write(id, 0, 100)), 0);
  ends.provider.failQueues(0, IBV_WC_RETRY_EXC_ERR);
  auto found = ends.from.poll();
  ASSERT_EQ(idsOf(found), (std::vector<uint64_t>{1, 2, 3, 4, 90}));
  EXPECT_EQ(found[0].status, IBV_WC_RETRY_EXC_ERR);
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(found[i].status, IBV_WC_WR_FLUSH_ERR);
  // And what is posted later still.
  ASSERT_EQ(ends.post(ends.write(5, 0, 100)), 0);
  found = ends.from.poll();
  ASSERT_EQ(idsOf(found), std::vector<uint64_t>{5});
  EXPECT_EQ(found[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ends.provider.bytesWritten(0), 0u);
}

TEST(FakeProvider, SaysWhatIsWrongWithKeysAndRanges) {
  struct Case {
    const char* what;
    void (*spoil)(Ends::Write& write);
    ibv_wc_status status;
  };
  const Case cases[] = {
      {"remote key", [](Ends::Write& it) { ++it.request.wr.rdma.rkey; }, IBV_WC_REM_ACCESS_ERR},
      {"remote range", [](Ends::Write& it) { it.request.wr.rdma.remote_addr += kBytes - 99; },
       IBV_WC_REM_ACCESS_ERR},
      {"before it", [](Ends::Write& it) { --it.request.wr.rdma.remote_addr; },
       IBV_WC_REM_ACCESS_ERR},
      {"local key", [](Ends::Write& it) { ++it.piece.lkey; }, IBV_WC_LOC_PROT_ERR},
      {"local range", [](Ends::Write& it) { it.piece.addr += kBytes - 99; }, IBV_WC_LOC_PROT_ERR},
  };
  for (const Case& it : cases) {
    Ends ends;
    auto write = ends.write(1, 0, 100);
    it.spoil(write);
    ASSERT_EQ(ends.post(write), 0);
    const auto found = ends.from.poll();
    ASSERT_EQ(found.size(), 1u) << it.what;
    EXPECT_EQ(found[0].status, it.status) << it.what;
  }
}

TEST(FakeProvider, RetriesUntilItsPatienceIsOver) {
  Ends ends({.maxDelay = 0, .patience = 10});
  ends.provider.takeDown(1);
  ASSERT_EQ(ends.post(ends.write(1, 0, 100)), 0);
  EXPECT_TRUE(ends.from.poll(10).empty());
  const auto found = ends.from.poll(2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].status, IBV_WC_RETRY_EXC_ERR);
}

TEST(FakeProvider, GoesOnWhereAPortCameBackInTime) {
  Ends ends({.maxDelay = 0, .patience = 10});
  ends.provider.takeDown(0);
  ASSERT_EQ(ends.post(ends.write(1, 0, 100)), 0);
  EXPECT_TRUE(ends.from.poll(9).empty());
  ends.provider.bringUp(0);
  const auto found = ends.from.poll();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(ends.from.event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(ends.from.event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(ends.to.event(), IBV_EVENT_CLIENT_REREGISTER);
}

TEST(FakeProvider, WaitsForRoomOrSaysThatThereIsNone) {
  Ends patient;
  ASSERT_EQ(patient.postImmediate(1), 0);
  EXPECT_TRUE(patient.from.poll().empty());
  ASSERT_EQ(patient.to.postReceive(patient.to.pair, 2), 0);
  EXPECT_EQ(patient.from.poll().size(), 1u);
  EXPECT_EQ(patient.to.poll().size(), 1u);
}

TEST(FakeProvider, SaysThatThePeerWasNotReadyWhereTriesAreCounted) {
  Ends ends({}, 32, 1000, 3);
  ASSERT_EQ(ends.postImmediate(1), 0);
  const auto found = ends.from.poll();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
}

// Nobody is told that a completion was lost, but by an event; and nothing goes on after.
TEST(FakeProvider, RaisesAnEventWhereCompletionsOverrun) {
  Ends ends({}, 32, 3);
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_EQ(ends.post(ends.write(id, 0, 10)), 0);
  for (int i = 0; i < 200; ++i) ends.provider.step();
  EXPECT_EQ(ends.from.event(), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(ends.from.event(), IBV_EVENT_CLIENT_REREGISTER);
  EXPECT_EQ(idsOf(ends.from.poll()), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(ends.from.pair->state, IBV_QPS_ERR);
  EXPECT_EQ(ends.to.event(), IBV_EVENT_CLIENT_REREGISTER);
}

TEST(FakeProvider, NamesTheQueueThatWasToOverrun) {
  Ends ends;
  ends.provider.overrun(0);
  ASSERT_EQ(ends.post(ends.write(1, 0, 10)), 0);
  EXPECT_TRUE(ends.from.poll().empty());
  ibv_async_event event{};
  ASSERT_EQ(ends.from.api.getAsyncEvent(ends.from.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, ends.from.completions);
}

TEST(FakeProvider, PointsAtTheFirstThatAQueueRefuses) {
  Ends ends({}, 2);
  std::array<Ends::Write, 4> chain;
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i] = ends.write(i, 64 * i, 64);
    chain[i].request.sg_list = &chain[i].piece;
    if (i > 0) chain[i - 1].request.next = &chain[i].request;
  }
  ibv_send_wr* refused = nullptr;
  EXPECT_EQ(ends.from.api.postSend(ends.from.pair, &chain[0].request, &refused), ENOMEM);
  EXPECT_EQ(refused, &chain[2].request);
  EXPECT_EQ(idsOf(ends.from.poll()), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(ends.from.api.postSend(ends.from.pair, refused, &refused), 0);
  EXPECT_EQ(idsOf(ends.from.poll()), (std::vector<uint64_t>{2, 3}));
  // More than fits inline is wrong in itself.
  auto large = ends.write(9, 0, 65);
  large.request.sg_list = &large.piece;
  large.request.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(ends.from.api.postSend(ends.from.pair, &large.request, &refused), EINVAL);
  EXPECT_EQ(refused, &large.request);
}

// Entries of requests without a completion are free only with the next that has one.
TEST(FakeProvider, FreesEntriesWhenTheyAreSeen) {
  Ends ends({}, 2);
  auto silent = ends.write(1, 0, 10);
  silent.request.send_flags = 0;
  ASSERT_EQ(ends.post(silent), 0);
  EXPECT_TRUE(ends.from.poll().empty());
  ASSERT_EQ(ends.post(ends.write(2, 0, 10)), 0);
  EXPECT_EQ(ends.post(ends.write(3, 0, 10)), ENOMEM);
  for (int i = 0; i < 100; ++i) ends.provider.step();
  EXPECT_EQ(ends.post(ends.write(3, 0, 10)), ENOMEM) << "nobody has polled";
  EXPECT_EQ(idsOf(ends.from.poll()), std::vector<uint64_t>{2});
  EXPECT_EQ(ends.post(ends.write(3, 0, 10)), 0);
  EXPECT_EQ(ends.post(ends.write(4, 0, 10)), 0);
}

TEST(FakeProvider, LosesAnswersAsWellAsWrites) {
  size_t nArrived = 0;
  size_t nLost = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Ends ends({.seed = seed, .queueFailure = .3});
    ASSERT_EQ(ends.to.postReceive(ends.to.pair, 1), 0);
    ASSERT_EQ(ends.postImmediate(2), 0);
    const auto sent = ends.from.poll();
    ASSERT_EQ(sent.size(), 1u);
    if (sent[0].status == IBV_WC_SUCCESS) continue;
    const auto arrived = ends.to.poll();
    ++(arrived.empty() ? nLost : nArrived);
  }
  EXPECT_GT(nArrived, 5u);
  EXPECT_GT(nLost, 5u);
}

TEST(FakeProvider, ForgetsTheCompletionsOfAPairThatIsDestroyed) {
  Ends ends;
  ASSERT_EQ(ends.post(ends.write(1, 0, 10)), 0);
  for (int i = 0; i < 100; ++i) ends.provider.step();
  ends.from.api.destroyQp(std::exchange(ends.from.pair, nullptr));
  EXPECT_TRUE(ends.from.poll().empty());
}

TEST(FakeProvider, CountsWhatIsLeft) {
  FakeProvider provider(FakeOptions{});
  EXPECT_EQ(provider.leftovers(), "");
  {
    const End end(provider, 0, 4, 4);
    EXPECT_EQ(provider.leftovers(),
              "1 contexts; 1 protection domains; 1 memory regions; 1 completion queues; "
              "1 queue pairs; ");
  }
  EXPECT_EQ(provider.leftovers(), "");
}

// Those that would be a crash or a leak in a real driver.
TEST(FakeProvider, FailsTheTestWhereSomethingInUseIsDestroyed) {
  FakeProvider provider(FakeOptions{});
  End end(provider, 0, 4, 4);
  EXPECT_NONFATAL_FAILURE(end.api.deallocPd(end.domain), "that is in use");
  end.domain = end.api.allocPd(end.context);
  EXPECT_NONFATAL_FAILURE(end.api.destroyCq(end.completions), "that is in use");
  end.completions = end.api.createCq(end.context, 4, nullptr, nullptr, 0);
}

}  // namespace
}  // namespace cinch::net::ib
