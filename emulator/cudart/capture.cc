#include "emulator/cudart/capture.h"

#include <algorithm>
#include <utility>

namespace cinch::cudart {

Capture::Capture(unsigned long long id, const Stream& origin, cudaStreamCaptureMode mode)
    : id_(id), mode_(mode), graphHandle_(graphs().add(graph_)) {
  members_.push_back({origin.shared_from_this(), {}});
}

const Capture::Member* Capture::memberOf(const Stream& stream) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.stream.get() == &stream;
  });
  return found == members_.end() ? nullptr : &*found;
}

Capture::Member* Capture::memberOf(const Stream& stream) {
  return const_cast<Member*>(std::as_const(*this).memberOf(stream));
}

bool Capture::hasBlockingStream() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.stream->isBlocking(); });
}

bool Capture::forbidsUnsafeCalls(cudaStreamCaptureMode mode) const {
  if (mode == cudaStreamCaptureModeRelaxed) return false;
  if (thread_ == std::this_thread::get_id()) return mode_ != cudaStreamCaptureModeRelaxed;
  return mode == cudaStreamCaptureModeGlobal && mode_ == cudaStreamCaptureModeGlobal;
}

bool Capture::mayBeEnded() const {
  return mode_ == cudaStreamCaptureModeRelaxed || thread_ == std::this_thread::get_id();
}

void Capture::add(const Stream& stream, cudaGraphNodeType type, Call call) {
  Member& member = *memberOf(stream);
  const size_t lane = static_cast<size_t>(&member - members_.data());
  graph_->add({type, lane, member.after, std::move(call)});
  member.after = {graph_->nodes().size() - 1};
}

void Capture::join(const Stream& stream, const std::vector<size_t>& after) {
  Member* member = memberOf(stream);
  if (member == nullptr) {
    members_.push_back({stream.shared_from_this(), after});
    return;
  }
  std::vector<size_t> both;
  std::set_union(member->after.begin(), member->after.end(), after.begin(), after.end(),
                 std::back_inserter(both));
  member->after = std::move(both);
}

const Capture::Dependencies& Capture::dependencies(const Stream& stream) {
  Member& member = *memberOf(stream);
  Dependencies& result = member.dependencies;
  result.nodes.clear();
  for (const size_t place : member.after) result.nodes.push_back(graph_->nodes()[place]->handle());
  result.edges.assign(member.after.size(), {});
  return result;
}

cudaError_t Capture::end(cudaGraph_t* graph) {
  cudaError_t result = cudaSuccess;
  if (broken_) {
    result = cudaErrorStreamCaptureInvalidated;
  } else if (!isJoined()) {
    result = cudaErrorStreamCaptureUnjoined;
  }
  *graph = result == cudaSuccess ? graphHandle_ : nullptr;
  if (result != cudaSuccess) graphs().remove(graphHandle_);
  graph_.reset();  // events may keep this object for longer
  members_.clear();
  return result;
}

// Every node must be one that the origin's next call would wait for.
bool Capture::isJoined() const {
  const Nodes& nodes = graph_->nodes();
  std::vector<bool> reached(nodes.size());
  for (const size_t place : members_.front().after) reached[place] = true;
  for (size_t place = nodes.size(); place-- > 0;) {
    if (!reached[place]) return false;
    for (const size_t earlier : nodes[place]->after) reached[earlier] = true;
  }
  return true;
}

}  // namespace cinch::cudart
