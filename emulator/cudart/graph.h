// Graphs: the calls that a capture recorded, and what makes them again.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "emulator/cudart/handle_table.h"
#include "emulator/cudart/stream.h"
#include "emulator/cudart/user_object.h"

namespace cinch::cudart {

// What an enqueueing function does to its stream.
using Call = std::function<void(Stream&)>;

// One recorded call.
struct Node {
  cudaGraphNodeType type;
  size_t lane;                // which of the captured streams it was called on; 0: the origin
  std::vector<size_t> after;  // the earlier nodes that it waits for, as places in the graph
  Call call;

  cudaGraphNode_t handle() const {
    return reinterpret_cast<cudaGraphNode_t>(const_cast<Node*>(this));
  }
};

using Nodes = std::vector<std::shared_ptr<const Node>>;

// Nodes in the order of capture, and references to user objects. Not synchronised, as in CUDA. A
// copy shares the nodes and has references of its own.
class Graph {
 public:
  const Nodes& nodes() const { return nodes_; }
  void add(Node node) { nodes_.push_back(std::make_shared<const Node>(std::move(node))); }

  void retain(const std::shared_ptr<UserObject>& object, unsigned int count);
  // False where the graph has fewer references than that; then none is released.
  bool release(cudaUserObject_t handle, unsigned int count);

 private:
  struct Reference {
    std::shared_ptr<UserObject> object;
    unsigned long long count;
  };

  Nodes nodes_;
  std::unordered_map<cudaUserObject_t, Reference> references_;
};

// A graph that can be launched. A launch makes the recorded calls again: those of the origin on the
// stream of the launch, those of every other captured stream on a stream that is the graph's own.
// Thread-safe.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);

  // The graph runs after all earlier work of `stream` and after its own earlier launches, and
  // before all later work of `stream`. It may be destroyed at any time: what is launched finishes.
  void launch(Stream& stream);

  // Later launches make the calls of `graph`, which must differ in arguments alone.
  cudaGraphExecUpdateResultInfo update(const Graph& graph);

 private:
  void replay(Stream& origin) const;

  std::mutex mutex_;
  std::shared_ptr<const Graph> graph_;
  std::vector<std::shared_ptr<Stream>> forks_;  // lanes 1 and up
  Ticket lastEnd_;                              // without a queue before the first launch
};

HandleTable<cudaGraph_t, Graph>& graphs();
HandleTable<cudaGraphExec_t, GraphExec>& graphExecs();

}  // namespace cinch::cudart
