#include "emulator/cudart/graph.h"

#include <algorithm>
#include <utility>

namespace cinch::cudart {
namespace {

size_t countLanes(const Nodes& nodes) {
  size_t nLanes = 1;
  for (const auto& node : nodes) nLanes = std::max(nLanes, node->lane + 1);
  return nLanes;
}

cudaGraphExecUpdateResult compare(const Node& old, const Node& node) {
  if (old.type != node.type) return cudaGraphExecUpdateErrorNodeTypeChanged;
  const bool samePlace = old.lane == node.lane && old.after == node.after;
  return samePlace ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
}

}  // namespace

void Graph::retain(const std::shared_ptr<UserObject>& object, unsigned int count) {
  const auto [entry, isNew] = references_.try_emplace(object->handle(), Reference{object, 0});
  entry->second.count += count;
}

bool Graph::release(cudaUserObject_t handle, unsigned int count) {
  const auto entry = references_.find(handle);
  if (entry == references_.end() || entry->second.count < count) return false;
  entry->second.count -= count;
  if (entry->second.count == 0) references_.erase(entry);
  return true;
}

GraphExec::GraphExec(const Graph& graph) : graph_(std::make_shared<const Graph>(graph)) {
  const size_t nLanes = countLanes(graph.nodes());
  for (size_t lane = 1; lane < nLanes; ++lane)
    forks_.push_back(std::make_shared<Stream>(StreamTraits{.flags = cudaStreamNonBlocking}));
}

void GraphExec::launch(Stream& stream) {
  const auto held = stream.hold();  // nothing comes between the nodes
  std::lock_guard lock(mutex_);
  if (lastEnd_.queue != nullptr) stream.waitFor(lastEnd_);
  const Ticket start = stream.mark();
  for (const auto& fork : forks_) fork->waitFor(start);
  replay(stream);
  for (const auto& fork : forks_) stream.waitFor(fork->tail());
  // The nodes' objects live until all nodes have run, also where this graph ends or changes before.
  lastEnd_ = stream.submit([running = graph_] {});
}

void GraphExec::replay(Stream& origin) const {
  std::vector<Ticket> ends;
  ends.reserve(graph_->nodes().size());
  for (const auto& node : graph_->nodes()) {
    Stream& lane = node->lane == 0 ? origin : *forks_[node->lane - 1];
    for (const size_t earlier : node->after) lane.waitFor(ends[earlier]);
    node->call(lane);
    ends.push_back(lane.tail());
  }
}

cudaGraphExecUpdateResultInfo GraphExec::update(const Graph& graph) {
  auto next = std::make_shared<const Graph>(graph);
  std::lock_guard lock(mutex_);
  const Nodes& old = graph_->nodes();
  const Nodes& nodes = graph.nodes();
  if (old.size() != nodes.size())
    return {cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (const auto result = compare(*old[i], *nodes[i]); result != cudaGraphExecUpdateSuccess)
      return {result, nodes[i]->handle(), nullptr};
  }
  graph_.swap(next);
  return {cudaGraphExecUpdateSuccess, nullptr, nullptr};
}

// Both outlive the process's exit, as streams do.
HandleTable<cudaGraph_t, Graph>& graphs() {
  static auto* const table = new HandleTable<cudaGraph_t, Graph>;
  return *table;
}

HandleTable<cudaGraphExec_t, GraphExec>& graphExecs() {
  static auto* const table = new HandleTable<cudaGraphExec_t, GraphExec>;
  return *table;
}

}  // namespace cinch::cudart
