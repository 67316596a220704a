#include "tests/unit/interpose/policy/layers/ddp_messages.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

namespace cinch::test {
namespace {

const std::filesystem::path kFolder = CINCH_DDP_MESSAGES_FOLDER;

}  // namespace

std::vector<BucketLayout> DdpMessages::buckets() const {
  std::vector<BucketLayout> all;
  auto parameter = bucketOrder.begin();
  for (int32_t size : bucketSizes)
    for (all.emplace_back(); size > 0; --size)
      all.back().push_back(parameters[static_cast<size_t>(*parameter++)]);
  return all;
}

Layer layerOf(const std::vector<uint64_t>& shape) {
  return {std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>()),
          static_cast<uint8_t>(shape.size())};
}

DdpMessages ddpMessages(const std::string& name) {
  std::ifstream file(kFolder / (name + ".json"));
  const auto json = nlohmann::json::parse(file);
  DdpMessages messages{json["nParameters"], json["sizesAndStrides"], json["bucketOrder"],
                       json["bucketSizes"], json["allReduceCounts"], {}};
  for (const auto& shape : json["shapes"]) messages.parameters.push_back(layerOf(shape));
  return messages;
}

std::vector<std::string> recordedModels() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = file.path().filename();
    if (name.starts_with("recorded_")) names.push_back(file.path().stem());
  }
  return names;
}

}  // namespace cinch::test
