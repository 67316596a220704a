#include "interpose/policy/list_gathers.h"

#include <utility>

namespace cinch {

ListGathers::ListGathers(int nRanks) : nRanks_(static_cast<size_t>(nRanks)) {
  for (std::vector<Call>* calls : {&held_, &committed_, &released_}) calls->reserve(nRanks_);
}

bool ListGathers::hold(const Call& call, int root, bool mayBegin) {
  released_.clear();
  hasGathered_ = false;
  if (!continues(call, root)) std::swap(released_, held_);
  if (held_.empty() && !(mayBegin && continues(call, root))) return false;
  held_.push_back(call);
  hasGathered_ = held_.size() == nRanks_;
  if (hasGathered_) held_.clear();
  return true;
}

// Only what could be taken for parameters is of interest, and one rank gathers nothing.
bool ListGathers::continues(const Call& call, int root) const {
  const bool isOfFloats =
      call.signature.kind == CallKind::broadcast && isCompressibleType(call.signature.dataType);
  const bool isSameType =
      held_.empty() || held_.front().signature.dataType == call.signature.dataType;
  return nRanks_ > 1 && isOfFloats && isSameType && static_cast<size_t>(root) == held_.size();
}

void ListGathers::commit() {
  committed_ = held_;
}

void ListGathers::takeBack() {
  held_ = committed_;
}

}  // namespace cinch
