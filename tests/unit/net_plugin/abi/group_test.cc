// Receives of several buffers at once, and what is flushed after them.
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/net_plugin/abi/adapter_support.h"

namespace cinch::net {
namespace {

using fake::logged;
using fake::network;

template <class Version>
class GroupTest : public AdapterTest<Version> {};
TYPED_TEST_SUITE(GroupTest, Versions, VersionName);

// What NCCL says of a group, of the most buffers that any has.
template <class Size>
struct GroupArrays {
  explicit GroupArrays(char* data) {
    for (int i = 0; i < kMost; ++i) {
      this->data[i] = i == 3 ? nullptr : data + i;
      sizes[i] = i == 3 ? 0 : 100 * i + 1;
      tags[i] = 7 - 2 * i;
      memories[i] = i == 2 ? nullptr : data + 8 + i;
    }
  }

  static constexpr int kMost = kMaxGroup;
  void* data[kMost];
  Size sizes[kMost];
  int tags[kMost];
  void* memories[kMost];
};

TYPED_TEST(GroupTest, PassesGroupsOn) {
  CINCH_FIXTURE;
  network.maxReceives = kMaxGroup;
  GroupArrays<typename Net::Size> group(this->data_);
  for (int n = 1; n <= group.kMost; ++n) {
    void* request = stale();
    EXPECT_EQ(Net::irecv(this->receiver(), n, group.data, group.sizes, group.tags, group.memories,
                         &request),
              ncclSuccess);
    EXPECT_NE(request, nullptr);
    ASSERT_EQ(network.buffers.size(), static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(network.buffers[i].data, group.data[i]);
      EXPECT_EQ(network.buffers[i].capacity, static_cast<size_t>(group.sizes[i]));
      EXPECT_EQ(network.buffers[i].tag, group.tags[i]);
      EXPECT_EQ(network.buffers[i].memory, group.memories[i]);
    }
  }
}

TYPED_TEST(GroupTest, RefusesGroupsOfOtherSizes) {
  CINCH_FIXTURE;
  network.maxReceives = 100;
  GroupArrays<typename Net::Size> group(this->data_);
  this->receiver();
  const size_t nCalls = network.calls.size();
  for (const int n : {0, -1, group.kMost + 1, std::numeric_limits<int>::min()}) {
    void* request = stale();
    const std::string expected = std::to_string(n) + " buffers at once, they must be 1 to 8";
    EXPECT_EQ(Net::irecv(this->receiver(), n, group.data, group.sizes, group.tags, group.memories,
                         &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    this->expectWarning(("irecv: " + expected).c_str());
    int sizes[group.kMost] = {};
    request = stale();
    EXPECT_EQ(table.iflush(this->receiver(), n, group.data, sizes, group.memories, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    this->expectWarning(("iflush: " + expected).c_str());
  }
  EXPECT_EQ(network.calls.size(), nCalls);
}

TYPED_TEST(GroupTest, LeavesTheLimitOfGroupsToTheConnection) {
  CINCH_FIXTURE;
  network.maxReceives = 4;
  GroupArrays<typename Net::Size> group(this->data_);
  void* request = stale();
  EXPECT_EQ(Net::irecv(this->receiver(), 5, group.data, group.sizes, group.tags, group.memories,
                       &request),
            ncclInvalidArgument);
  EXPECT_EQ(request, nullptr);
  this->expectWarning("irecv: 5 receives at once, this takes 4");
  EXPECT_EQ(Net::irecv(this->receiver(), 4, group.data, group.sizes, group.tags, group.memories,
                       &request),
            ncclSuccess);
}

TYPED_TEST(GroupTest, ChecksEveryBufferOfAGroup) {
  CINCH_FIXTURE;
  network.maxReceives = kMaxGroup;
  using Group = GroupArrays<typename Net::Size>;
  this->receiver();
  const size_t nCalls = network.calls.size();
  const auto expectRefused = [&](Group& group, const char* what) {
    void* request = stale();
    EXPECT_EQ(Net::irecv(this->receiver(), group.kMost, group.data, group.sizes, group.tags,
                         group.memories, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    this->expectWarning(what);
  };
  for (int bad = 0; bad < Group::kMost; ++bad) {
    Group tooLarge(this->data_), noData(this->data_);
    tooLarge.sizes[bad] = (1 << 30) + 1;
    expectRefused(tooLarge, "irecv: size 1073741825");
    noData.data[bad] = nullptr;
    noData.sizes[bad] = 1;
    expectRefused(noData, "irecv: data is NULL");
  }
  EXPECT_EQ(network.calls.size(), nCalls);
}

TYPED_TEST(GroupTest, GivesTheSizesOfAGroup) {
  CINCH_FIXTURE;
  network.maxReceives = kMaxGroup;
  network.nBytesMoved = {5, 0, 1 << 30, 7, 8, 9, 10, 11};
  GroupArrays<typename Net::Size> group(this->data_);
  for (int n = 1; n <= group.kMost; ++n) {
    void* request = nullptr;
    ASSERT_EQ(Net::irecv(this->receiver(), n, group.data, group.sizes, group.tags, group.memories,
                         &request),
              ncclSuccess);
    std::vector<int> sizes(group.kMost + 1, -3);
    int done = 5;
    network.isDone = false;
    EXPECT_EQ(table.test(request, &done, sizes.data()), ncclSuccess);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(sizes, std::vector<int>(group.kMost + 1, -3));
    network.isDone = true;
    EXPECT_EQ(table.test(request, &done, sizes.data()), ncclSuccess);
    EXPECT_EQ(done, 1);
    for (int i = 0; i <= group.kMost; ++i) {
      EXPECT_EQ(sizes[i], i < n ? static_cast<int>(network.nBytesMoved[i]) : -3) << i;
    }
  }
}

TYPED_TEST(GroupTest, Flushes) {
  CINCH_FIXTURE;
  network.maxReceives = kMaxGroup;
  void* data[3] = {this->data_, nullptr, this->data_ + 4};
  int sizes[3] = {4, 0, 9};
  void* memories[3] = {stale(), nullptr, this->data_};
  void* request = stale();
  EXPECT_EQ(table.iflush(this->receiver(), 3, data, sizes, memories, &request), ncclSuccess);
  EXPECT_NE(request, nullptr);
  EXPECT_NE(request, stale());
  EXPECT_EQ(network.calls.back(), "flush");
  ASSERT_EQ(network.buffers.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(network.buffers[i].data, data[i]);
    EXPECT_EQ(network.buffers[i].capacity, static_cast<size_t>(sizes[i]));
    EXPECT_EQ(network.buffers[i].memory, memories[i]);
  }
  int done = 0;
  EXPECT_EQ(table.test(request, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 1);
  sizes[2] = -1;
  EXPECT_EQ(table.iflush(this->receiver(), 3, data, sizes, memories, &request),
            ncclInvalidArgument);
  EXPECT_EQ(request, nullptr);
  this->expectWarning("iflush: size -1");
}

TYPED_TEST(GroupTest, MayHaveNothingToFlush) {
  CINCH_FIXTURE;
  void *data = this->data_, *request = stale();
  int size = 4;
  network.posts = false;
  EXPECT_EQ(table.iflush(this->receiver(), 1, &data, &size, nullptr, &request), ncclSuccess);
  EXPECT_EQ(request, nullptr);
  EXPECT_TRUE(logged.empty());
}

}  // namespace
}  // namespace cinch::net
