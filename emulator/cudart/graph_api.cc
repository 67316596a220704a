// cudaGraph*.

#include <algorithm>

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/graph.h"

namespace cinch::cudart {
namespace {

// The others say how a GPU should hold the graph; it cannot be launched from a device here.
constexpr unsigned long long kInstantiateFlags =
    cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;

// Runs `body(graph)`, where `graph` is a shared pointer, on a live graph.
template <class Handles, class Handle, class Body>
cudaError_t onLive(Handles& handles, Handle handle, Body&& body) {
  return api([&] {
    const auto found = handles.find(handle);
    return found == nullptr ? cudaErrorInvalidValue : body(found);
  });
}

cudaError_t instantiate(const Graph& graph, unsigned long long flags, cudaGraphExec_t* executable) {
  if (executable == nullptr || (flags & ~kInstantiateFlags)) return cudaErrorInvalidValue;
  *executable = graphExecs().add(std::make_shared<GraphExec>(graph));
  return cudaSuccess;
}

cudaError_t update(GraphExec& executable, const Graph& graph,
                   cudaGraphExecUpdateResultInfo* result) {
  if (result == nullptr) return cudaErrorInvalidValue;
  *result = executable.update(graph);
  return result->result == cudaGraphExecUpdateSuccess ? cudaSuccess
                                                      : cudaErrorGraphExecUpdateFailure;
}

cudaError_t launch(const std::shared_ptr<GraphExec>& executable, cudaStream_t handle) {
  const auto stream = findStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  return perform(*stream, cudaGraphNodeTypeGraph,
                 [executable](Stream& lane) { executable->launch(lane); });
}

// Without `handles`, only counts. Otherwise *nNodes is how many there is room for, and then how
// many were written; the room that is left is cleared.
void list(const Nodes& nodes, cudaGraphNode_t* handles, size_t* nNodes) {
  if (handles == nullptr) {
    *nNodes = nodes.size();
    return;
  }
  std::fill_n(handles, *nNodes, nullptr);
  *nNodes = std::min(*nNodes, nodes.size());
  for (size_t i = 0; i < *nNodes; ++i) handles[i] = nodes[i]->handle();
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return onLive(graphs(), graph,
                [&](const auto& found) { return instantiate(*found, flags, executable); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  return onLive(graphExecs(), executable, [&](const auto& exec) {
    const auto found = graphs().find(graph);
    return found == nullptr ? cudaErrorInvalidValue : update(*exec, *found, result);
  });
}

// There is nowhere to upload it to.
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return onLive(graphExecs(), executable, [&](const auto&) {
    return findStream(stream) == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return onLive(graphExecs(), executable, [&](const auto& found) { return launch(found, stream); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api([&] { return graphExecs().remove(executable) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api([&] { return graphs().remove(graph) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* nNodes) {
  return onLive(graphs(), graph, [&](const auto& found) {
    if (nNodes == nullptr) return cudaErrorInvalidValue;
    list(found->nodes(), nodes, nNodes);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api([&] {
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    *type = reinterpret_cast<const Node*>(node)->type;
    return cudaSuccess;
  });
}

// The functions below would change a graph, or ask for its edges; here it is what was captured.

cudaError_t cudaGraphAddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*,
                             const cudaGraphEdgeData*, size_t, cudaGraphNodeParams*) {
  return notSupported();
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle*, cudaGraph_t, unsigned int,
                                             unsigned int) {
  return notSupported();
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
                                         size_t*) {
  return notSupported();
}
