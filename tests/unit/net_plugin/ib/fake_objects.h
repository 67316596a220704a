// What a FakeProvider is made of: each begins with the object of verbs that it stands for.
#pragma once

#include <optional>

#include "fake_provider.h"

namespace cinch::net::ib {

struct FakeProvider::Device : ibv_device {
  int index = 0;
  bool isDown = false;
  bool isDead = false;
  bool overruns = false;
  uint64_t bytesWritten = 0;
  size_t nReads = 0;
  ibv_wc_status readFailure = IBV_WC_SUCCESS;
  // Written into the memory of GPUs, and not yet seen there.
  struct Posted {
    uint64_t address = 0;
    std::vector<uint8_t> bytes;
  };
  std::vector<Posted> posted;
};

struct FakeProvider::Context : ibv_context {
  Device* fake = nullptr;
  std::deque<ibv_async_event> events;
};

struct FakeProvider::Domain : ibv_pd {};

struct FakeProvider::Region : ibv_mr {
  int access = 0;
};

struct FakeProvider::Completions : ibv_cq {
  // `frees`: so many entries of the pair's queue are free again once this is polled.
  struct Found {
    ibv_wc completion{};
    uint32_t pair = 0;
    size_t frees = 0;
    bool isSend = false;
  };
  std::deque<Found> found;
  size_t capacity = 0;
  bool isBroken = false;
};

struct FakeProvider::Work {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  bool isSignaled = false;
  uint32_t immediate = 0;
  uint64_t remote = 0;
  uint32_t remoteKey = 0;
  std::vector<ibv_sge> pieces;
  std::vector<uint8_t> inlined;
  bool isInline = false;
  int delay = 0;
  int waited = 0;
  bool isCut = false;
  std::vector<std::pair<size_t, size_t>> toPlace;  // offset and length, in the order of landing

  size_t nBytes() const {
    size_t sum = inlined.size();
    for (const ibv_sge& piece : pieces) sum += piece.length;
    return sum;
  }
};

struct FakeProvider::Pair : ibv_qp {
  Device* fake = nullptr;
  ibv_qp_cap caps{};
  bool signalsAll = false;
  std::deque<Work> sends;
  std::deque<uint64_t> receives;
  size_t sendsUsed = 0;  // entries that are not free again
  size_t receivesUsed = 0;
  size_t unsignaled = 0;  // done since the last that was signaled
  uint32_t peer = 0;
  ibv_gid peerGid{};
  uint8_t notReadyRetries = 0;
  std::optional<uint32_t> ece;  // as set
};

// The address of a device's only port: 10.1.<index>.1 as RoCE v2, at index 1 of its table.
ibv_gid fakeGid(int device);

}  // namespace cinch::net::ib
