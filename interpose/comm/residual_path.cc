#include "interpose/comm/residual_path.h"

#include <mutex>
#include <set>
#include <tuple>

#include "common/param.h"
#include "interpose/comm/process_number.h"

namespace cinch {
namespace {

using Key = std::tuple<uint32_t, uint32_t, int>;  // ranks, rank, number

struct Taken {
  std::mutex mutex;
  std::set<Key> keys;
};

// Never destroyed: programs end communicators from destructors that run after ours.
Taken& taken() {
  static auto& all = *new Taken;
  return all;
}

int takeNumber(const ResidualOwner& owner) {
  const std::lock_guard lock(taken().mutex);
  int number = 0;
  while (!taken().keys.insert({owner.nRanks, owner.rank, number}).second) ++number;
  return number;
}

}  // namespace

ResidualPath::ResidualPath(const std::string& folder, const ResidualOwner& owner)
    : owner_(owner),
      number_(takeNumber(owner)),
      text_(expandPath(folder) + "/" + processPrefix() + "rank" + std::to_string(owner.rank) +
            "of" + std::to_string(owner.nRanks) + ".comm" + std::to_string(number_) + ".cinch") {}

ResidualPath::~ResidualPath() {
  const std::lock_guard lock(taken().mutex);
  taken().keys.erase({owner_.nRanks, owner_.rank, number_});
}

}  // namespace cinch
