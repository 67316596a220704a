// How many values the model has that a communicator trains: what is broadcast, or gathered for the
// first forward pass, before the first reduction. Pure.
#pragma once

#include <cstdint>

#include "interpose/policy/signature.h"

namespace cinch {

class ModelSize {
 public:
  // The next call. `isNew`: it is the first of its signature, or no part of a step that is known;
  // parameters that come so after a reduction are those of another model.
  void note(const Signature& signature, bool isLarge, bool isNew);

  // Parameters, where so many values are reduced by large calls, whole or as shards. DeepSpeed
  // broadcasts the bytes of its parameters: what is reduced says of which type they are. A loop
  // over parameters broadcasts small ones by calls that are as small as those that reduce them:
  // they are left out where that fits.
  uint64_t parametersFor(uint64_t reduced, bool areShards) const;
  uint64_t gathered() const { return gathered_; }
  // Whether a large reduction was made since parameters were broadcast.
  bool hasReduced() const { return hasReduced_; }

 private:
  uint64_t parameters_ = 0, untyped_ = 0;  // values, and bytes, that were broadcast
  uint64_t small_ = 0;                     // of these values, by small calls
  uint64_t gathered_ = 0;                  // values of a shard
  bool hasReduced_ = false;
};

}  // namespace cinch
