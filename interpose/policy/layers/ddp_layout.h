// Reads the layers of gradient buckets from what PyTorch DDP itself sends through NCCL. Pure: the
// messages of one communicator go in as host memory, in order; any other program's, broken or
// hostile ones may be among them.
//
// When DDP wraps a model, it gathers the number of parameters of every rank and broadcasts their
// sizes and strides (int64). After the first backward pass it broadcasts the parameters in the
// order of the buckets, with the number of buckets behind them, and then how many each bucket holds
// (int32). A bucket is the concatenation of its gradients, in one AllReduce.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "interpose/policy/layers/bucket_layout.h"
#include "interpose/policy/layers/ddp_shapes.h"
#include "interpose/policy/layers/shape_search.h"

namespace cinch {

class DdpListener {
 public:
  // An AllGather of one number per rank: all of them.
  void allGathered(std::span<const int64_t> numbers);
  void broadcast(std::span<const int64_t> numbers);
  void broadcast(std::span<const int32_t> numbers);

  // Whether it is known of some model which parameters each of its buckets holds.
  bool hasOrder() const;

  // For each AllReduce of gradients in a period of the job, by element count, in order but from any
  // of them on, and round and round: its layers. Empty where it is not one of consecutive calls
  // that are all the buckets of a model, or could be so in more than one way.
  std::vector<BucketLayout> layoutsOf(std::span<const uint64_t> period) const;

  // The same where no order is sent, as when DDP looks for unused parameters: its buckets then hold
  // consecutive parameters in the order of registration, and those that were registered last are
  // reduced first. The period must be all calls of one model, of a single data type: parameters of
  // several types are not consecutive.
  std::vector<BucketLayout> layoutsWithoutOrder(std::span<const uint64_t> period) const;

  // Longer broadcasts are of no use here.
  static constexpr uint32_t kMaxNumbers = DdpShapes::kMaxNumbers;

 private:
  // Which order belongs to which model is not said, and a program can wrap several.
  static constexpr size_t kMaxHeard = 8;

  bool hasOrder(const DdpShapes& model) const;
  bool endOrder(std::span<const int32_t> nPerBucket);
  void beginOrder(std::span<const int32_t> numbers);

  uint32_t announced_ = 0;            // parameters, in the last message; 0: it was another
  std::optional<BucketOrder> begun_;  // in the last message; what each bucket holds is to come
  std::deque<DdpShapes> models_;      // the last ones
  std::deque<BucketOrder> orders_;
};

}  // namespace cinch
