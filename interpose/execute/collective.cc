#include "interpose/execute/collective.h"

namespace cinch {

bool reduces(CallKind kind) {
  return kind == CallKind::allReduce || kind == CallKind::reduceScatter || kind == CallKind::reduce;
}

bool hasBuffers(const Collective& call, int rank) {
  const bool rootSends = call.kind == CallKind::broadcast || call.kind == CallKind::scatter;
  const bool rootReceives = call.kind == CallKind::reduce || call.kind == CallKind::gather;
  const bool isRoot = call.root == rank;
  return (call.send != nullptr || (rootSends && !isRoot)) &&
         (call.recv != nullptr || (rootReceives && !isRoot));
}

}  // namespace cinch
