// What PyTorch DDP sends for a model, recorded or written from its shapes:
// tests/traces/ddp_messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/policy/layers/bucket_layout.h"

namespace cinch::test {

// For one model, and what DDP means by it.
struct DdpMessages {
  int64_t nParameters = 0;
  std::vector<int64_t> sizesAndStrides;
  std::vector<int32_t> bucketOrder;
  std::vector<int32_t> bucketSizes;
  std::vector<uint64_t> counts;  // of the AllReduces
  std::vector<Layer> parameters;

  std::vector<BucketLayout> buckets() const;
};

inline constexpr const char* kModels[] = {"resnet50",   "vit_b16", "gpt2",
                                          "bert_large", "llama",   "mixed"};

// A parameter of this shape.
Layer layerOf(const std::vector<uint64_t>& shape);

// Of one file: "gpt2" or "recorded_gpt2".
DdpMessages ddpMessages(const std::string& name);
std::vector<std::string> recordedModels();

}  // namespace cinch::test
