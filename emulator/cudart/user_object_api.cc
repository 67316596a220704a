// cudaUserObject*, and the references to user objects that graphs have.

#include <climits>

#include "emulator/cudart/api.h"
#include "emulator/cudart/graph.h"

namespace cinch::cudart {
namespace {

bool isCount(unsigned int count) {
  return count != 0 && count <= INT_MAX;
}

// With cudaGraphUserObjectMove the references are taken from the program, else they are new.
cudaError_t retain(Graph& graph, cudaUserObject_t handle, unsigned int count, unsigned int flags) {
  const auto object = findUserObject(handle);
  if (object == nullptr || !isCount(count) || (flags & ~cudaGraphUserObjectMove))
    return cudaErrorInvalidValue;
  if ((flags & cudaGraphUserObjectMove) && !releaseUserObject(handle, count))
    return cudaErrorInvalidValue;
  graph.retain(object, count);
  return cudaSuccess;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int flags) {
  return api([&] {
    if (object == nullptr || destroy == nullptr || !isCount(references) ||
        flags != cudaUserObjectNoDestructorSync)
      return cudaErrorInvalidValue;
    *object = createUserObject(pointer, destroy, references);
    return cudaSuccess;
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return api([&] {
    return isCount(count) && retainUserObject(object, count) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return api([&] {
    return isCount(count) && releaseUserObject(object, count) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags) {
  return api([&] {
    const auto found = graphs().find(graph);
    return found == nullptr ? cudaErrorInvalidValue : retain(*found, object, count, flags);
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count) {
  return api([&] {
    const auto found = graphs().find(graph);
    return found && isCount(count) && found->release(object, count) ? cudaSuccess
                                                                    : cudaErrorInvalidValue;
  });
}
