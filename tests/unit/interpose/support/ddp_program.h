// A program that wraps a model with PyTorch DDP, as one rank's NCCL hears it.
#pragma once

#include <list>
#include <vector>

#include "interpose/policy/signature.h"
#include "tests/unit/interpose/policy/layers/ddp_messages.h"

namespace cinch::test {

// Calls hear(call, received_dev, stream) of an ear, with memory that lives as long as this does.
template <class Ear>
class DdpProgram {
 public:
  explicit DdpProgram(Ear& ear, size_t nRanks = 2) : ear_(ear), nRanks_(nRanks) {}

  // By PyTorch 2.15's default back end a list is gathered by one broadcast from each rank.
  bool gathersByBroadcasts = false;

  void gather(int64_t number) {
    if (gathersByBroadcasts) {
      for (size_t rank = 0; rank < nRanks_; ++rank) broadcast(std::vector<int64_t>{number});
      return;
    }
    const auto& all = kept64_.emplace_back(nRanks_, number);
    ear_.hear({CallKind::allGather, OpClass::none, ncclInt64, 1}, all.data(), stream);
  }
  void broadcast(const std::vector<int64_t>& numbers) {
    const auto& kept = kept64_.emplace_back(numbers);
    ear_.hear({CallKind::broadcast, OpClass::none, ncclInt64, kept.size()}, kept.data(), stream);
  }
  void broadcast(const std::vector<int32_t>& numbers) {
    const auto& kept = kept32_.emplace_back(numbers);
    ear_.hear({CallKind::broadcast, OpClass::none, ncclInt32, kept.size()}, kept.data(), stream);
  }

  void wrap(const DdpMessages& model) {
    gather(model.nParameters);
    broadcast(model.sizesAndStrides);
  }
  void rebuild(const DdpMessages& model) {
    broadcast(model.bucketOrder);
    broadcast(model.bucketSizes);
  }
  void sendAll(const DdpMessages& model) {
    wrap(model);
    rebuild(model);
  }

  void* stream = nullptr;

 private:
  Ear& ear_;
  const size_t nRanks_;
  std::list<std::vector<int64_t>> kept64_;
  std::list<std::vector<int32_t>> kept32_;
};

}  // namespace cinch::test
