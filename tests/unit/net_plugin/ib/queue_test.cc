#include "net_plugin/ib/queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "fake_ports.h"

namespace cinch::net::ib {
namespace {

struct Change {
  ibv_qp_attr to;
  int which;
};

std::vector<Change> changes;
ibv_qp_init_attr wanted;
int result;  // of the replaced function

int keepChange(ibv_qp* pair, ibv_qp_attr* to, int which) {
  changes.push_back({*to, which});
  return fakeApi().modifyQp(pair, to, which);
}

int failBeyondInit(ibv_qp* pair, ibv_qp_attr* to, int which) {
  if (to->qp_state == IBV_QPS_INIT) return fakeApi().modifyQp(pair, to, which);
  errno = result < 0 ? ETIMEDOUT : 0;
  return result;
}

class QueueTest : public testing::Test {
 protected:
  QueueTest() {
    changes.clear();
    for (size_t i = 0; i < 2; ++i) {
      completions_[i] = ports_.api.createCq(ports_[i].context(), 64, nullptr, nullptr, 0);
    }
  }
  ~QueueTest() override {
    for (ibv_cq* queue : completions_) ports_.api.destroyCq(queue);
  }

  std::unique_ptr<Queue> make(size_t port, QueueDepth depth = {4, 2}) {
    auto queue = Queue::create(ports_[port], completions_[port], depth);
    EXPECT_TRUE(queue.ok()) << queue.error().message;
    return queue ? std::move(queue.value()) : nullptr;
  }
  // Nothing but immediates of no bytes, which need no memory.
  static ibv_send_wr announcement(uint64_t id, ibv_send_wr* next = nullptr) {
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = IBV_SEND_SIGNALED;
    request.imm_data = static_cast<uint32_t>(id);
    request.next = next;
    return request;
  }
  void connect(Queue& one, Queue& other) {
    ASSERT_TRUE(one.connect(ports_[1].card(), other.card(0)).ok());
    ASSERT_TRUE(other.connect(ports_[0].card(), one.card(0)).ok());
  }
  std::vector<ibv_wc> poll(size_t port, size_t n) {
    std::vector<ibv_wc> all;
    for (int step = 0; step < 200 && all.size() < n; ++step) {
      ibv_wc found{};
      if (ports_.api.pollCq(completions_[port], 1, &found) == 1) all.push_back(found);
    }
    return all;
  }

  FakePorts ports_;
  ibv_cq* completions_[2];
};

TEST_F(QueueTest, AsksForWhatItsOwnerNeeds) {
  ports_.api.createQp = [](ibv_pd* domain, ibv_qp_init_attr* attributes) {
    wanted = *attributes;
    return fakeApi().createQp(domain, attributes);
  };
  ports_.api.modifyQp = keepChange;
  const auto queue = make(0, {5, 3});
  EXPECT_EQ(wanted.send_cq, completions_[0]);
  EXPECT_EQ(wanted.recv_cq, completions_[0]);
  EXPECT_EQ(wanted.qp_type, IBV_QPT_RC);
  EXPECT_EQ(wanted.cap.max_send_wr, 5u);
  EXPECT_EQ(wanted.cap.max_recv_wr, 3u);
  EXPECT_EQ(wanted.sq_sig_all, 0);
  EXPECT_EQ(queue->maxInline(), 64u);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].to.port_num, 1);
  // The other side writes, and a flush of device memory reads.
  EXPECT_EQ(changes[0].to.qp_access_flags,
            unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(queue->card(3), (QueueCard{queue->number(), 0, 3}));
}

TEST_F(QueueTest, SaysHowManyEntriesTheDeviceRefused) {
  const auto queue = Queue::create(ports_[0], completions_[0], {4097, 7});
  ASSERT_FALSE(queue.ok());
  EXPECT_EQ(queue.error().status, Status::systemError);
  EXPECT_EQ(queue.error().message,
            "fake0:1: no queue pair of 4097 and 7 entries: Invalid argument");
}

// The destructor of FakePorts sees what is left.
TEST_F(QueueTest, KeepsNothingWhereItCannotBegin) {
  ports_.api.modifyQp = [](ibv_qp*, ibv_qp_attr*, int) { return EPERM; };
  const auto queue = Queue::create(ports_[1], completions_[1], {4, 2});
  ASSERT_FALSE(queue.ok());
  EXPECT_EQ(queue.error().message, "fake1:1: a queue pair cannot begin: Operation not permitted");
}

TEST_F(QueueTest, SaysWhyItCannotConnectInEitherWayOfVerbs) {
  const auto one = make(0);
  const auto other = make(1);
  ports_.api.modifyQp = failBeyondInit;
  for (const auto& [code, why] :
       {std::pair{ENOENT, "No such file or directory"}, std::pair{-1, "Connection timed out"}}) {
    result = code;
    const Result<void> connected = one->connect(ports_[1].card(), other->card(0));
    ASSERT_FALSE(connected.ok());
    EXPECT_EQ(connected.error().message,
              std::string("fake0:1: a queue pair cannot receive: ") + why);
  }
}

TEST_F(QueueTest, ConnectsToTheAddressOfThePeerByTheSettings) {
  FakePorts& ports = ports_;
  Settings settings;
  settings.timeout = 11;
  settings.retries = 5;
  settings.serviceLevel = 3;
  settings.trafficClass = 104;
  auto port = std::move(Port::open(ports.api, deviceAt(ports.api, 0), 1, settings).value());
  {
    auto queue = std::move(Queue::create(*port, completions_[0], {4, 2}).value());
    ports.api.modifyQp = keepChange;
    PortCard peer = ports[1].card();
    peer.mtu = IBV_MTU_512;
    ASSERT_TRUE(queue->connect(peer, {0xabcdef, 77, 0}).ok());
  }
  ASSERT_EQ(changes.size(), 2u);
  const ibv_qp_attr& receiving = changes[0].to;
  EXPECT_EQ(receiving.path_mtu, IBV_MTU_512);
  EXPECT_EQ(receiving.dest_qp_num, 0xabcdefu);
  EXPECT_EQ(receiving.rq_psn, 77u);
  EXPECT_EQ(receiving.ah_attr.is_global, 1);
  EXPECT_EQ(receiving.ah_attr.sl, 3);
  EXPECT_EQ(receiving.ah_attr.port_num, 1);
  EXPECT_EQ(receiving.ah_attr.grh.traffic_class, 104);
  EXPECT_EQ(receiving.ah_attr.grh.sgid_index, 1);
  const Gid gid = ports[1].card().gid;
  EXPECT_EQ(memcmp(receiving.ah_attr.grh.dgid.raw, gid.data(), gid.size()), 0);
  EXPECT_EQ(changes[1].to.timeout, 11);
  EXPECT_EQ(changes[1].to.retry_cnt, 5);
  // Of "not ready": without end.
  EXPECT_EQ(changes[1].to.rnr_retry, 7);
}

TEST_F(QueueTest, BeginsInThePartitionOfTheSettings) {
  FakePorts& ports = ports_;
  Settings settings;
  settings.partition = 3;
  auto port = std::move(Port::open(ports.api, deviceAt(ports.api, 0), 1, settings).value());
  ports.api.modifyQp = keepChange;
  changes.clear();
  const auto queue = Queue::create(*port, completions_[0], {4, 2});
  ASSERT_TRUE(queue.ok());
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].to.pkey_index, 3);
}

TEST_F(QueueTest, UsesNoMoreThanItsOwnMtuAndTheLidOnInfiniband) {
  const auto queue = make(0);
  ports_.api.modifyQp = keepChange;
  PortCard peer = {.lid = 0x1234, .link = LinkKind::infiniband, .mtu = IBV_MTU_4096};
  ASSERT_TRUE(queue->connect(peer, {1, 0, 0}).ok());
  EXPECT_EQ(changes[0].to.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(changes[0].to.ah_attr.dlid, 0x1234);
  EXPECT_EQ(changes[0].to.ah_attr.is_global, 0);
}

TEST_F(QueueTest, CountsWhatOfAChainIsUnderWay) {
  const auto one = make(0, {3, 2});
  const auto other = make(1);
  connect(*one, *other);
  ibv_send_wr last = announcement(4);
  ibv_send_wr third = announcement(3, &last);
  ibv_send_wr second = announcement(2, &third);
  ibv_send_wr first = announcement(1, &second);
  size_t nPosted = 99;
  EXPECT_EQ(one->send(first, nPosted), Posting::full);
  EXPECT_EQ(nPosted, 3u);
  EXPECT_EQ(one->send(last, nPosted), Posting::full);
  EXPECT_EQ(nPosted, 0u);
  ASSERT_EQ(other->receive(50), Posting::taken);
  ASSERT_EQ(poll(1, 1).size(), 1u);
  ASSERT_EQ(poll(0, 1).size(), 1u);
  EXPECT_EQ(one->send(last, nPosted), Posting::taken);
  EXPECT_EQ(nPosted, 1u);
}

// Which of an errno and -1 with errno a function gives differs between drivers, and so does whether
// errno is set where it need not be.
TEST_F(QueueTest, TellsFullFromRefusedAndLeavesTheReasonInErrno) {
  const auto queue = make(0);
  struct Case {
    int result;
    int errnoThen;
    Posting posting;
    int why;
  };
  static int errnoThen;
  ports_.api.postSend = [](ibv_qp*, ibv_send_wr* first, ibv_send_wr** refused) {
    *refused = first;
    errno = errnoThen;
    return result;
  };
  for (const Case& it : {Case{ENOMEM, 0, Posting::full, ENOMEM},
                         {-1, ENOMEM, Posting::full, ENOMEM},
                         {EAGAIN, EINVAL, Posting::full, EAGAIN},
                         {EINVAL, 0, Posting::refused, EINVAL},
                         {EINVAL, ENOMEM, Posting::refused, EINVAL},
                         {-1, EIO, Posting::refused, EIO}}) {
    result = it.result;
    errnoThen = it.errnoThen;
    ibv_send_wr request = announcement(1);
    size_t nPosted = 99;
    EXPECT_EQ(queue->send(request, nPosted), it.posting) << it.result << " " << it.errnoThen;
    EXPECT_EQ(errno, it.why) << it.result << " " << it.errnoThen;
    EXPECT_EQ(nPosted, 0u);
  }
}

TEST_F(QueueTest, HasRoomForAsManyImmediatesAsWereAskedFor) {
  const auto queue = make(0, {1, 3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue->receive(i), Posting::taken);
  EXPECT_EQ(queue->receive(3), Posting::full);
}

TEST_F(QueueTest, CompletesWhatIsUnderWayWithAnErrorOnceItIsStopped) {
  const auto one = make(0);
  const auto other = make(1);
  connect(*one, *other);
  ASSERT_EQ(one->receive(7), Posting::taken);
  ibv_send_wr request = announcement(8);
  size_t nPosted = 0;
  ASSERT_EQ(one->send(request, nPosted), Posting::taken);
  one->stop();
  const auto found = poll(0, 2);
  ASSERT_EQ(found.size(), 2u);
  for (const ibv_wc& it : found) EXPECT_EQ(it.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(found[0].wr_id + found[1].wr_id, 15u);
}

}  // namespace
}  // namespace cinch::net::ib
