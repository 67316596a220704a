// One capture of streams into a graph: which streams it has drawn in, and what the next call on
// each of them depends on.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "emulator/cudart/graph.h"

namespace cinch::cudart {

// Not synchronised: the rules (capture_rules.h) hold a lock.
class Capture {
 public:
  Capture(unsigned long long id, const Stream& origin, cudaStreamCaptureMode mode);

  unsigned long long id() const { return id_; }
  cudaGraph_t graph() const { return graphHandle_; }
  bool isBroken() const { return broken_; }
  void invalidate() { broken_ = true; }

  bool has(const Stream& stream) const { return memberOf(stream) != nullptr; }
  bool isOrigin(const Stream& stream) const { return members_.front().stream.get() == &stream; }
  bool hasBlockingStream() const;

  // Whether a call that is not safe during a capture may not be made by this thread, which is in
  // `mode`.
  bool forbidsUnsafeCalls(cudaStreamCaptureMode mode) const;
  // Whether this thread may end it.
  bool mayBeEnded() const;

  // Records a call of a member. It runs after `after(stream)`, and then stands for that.
  void add(const Stream& stream, cudaGraphNodeType type, Call call);
  // The nodes that the next call of a member will wait for, as places in the graph.
  const std::vector<size_t>& after(const Stream& stream) const { return memberOf(stream)->after; }
  // The next call of `stream` waits for `after` too. A stream that was no member becomes one.
  void join(const Stream& stream, const std::vector<size_t>& after);

  // after(stream) as CUDA shows it; valid until the next call for this stream.
  struct Dependencies {
    std::vector<cudaGraphNode_t> nodes;
    std::vector<cudaGraphEdgeData> edges;  // one for each node
  };
  const Dependencies& dependencies(const Stream& stream);

  // Gives the graph to the program, or destroys it where the capture is broken or a fork has not
  // come back to the origin. Nothing else may be called any more.
  cudaError_t end(cudaGraph_t* graph);

 private:
  struct Member {
    std::shared_ptr<const Stream> stream;
    std::vector<size_t> after;
    Dependencies dependencies = {};
  };

  const Member* memberOf(const Stream& stream) const;
  Member* memberOf(const Stream& stream);
  bool isJoined() const;

  const unsigned long long id_;
  const cudaStreamCaptureMode mode_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  const cudaGraph_t graphHandle_;
  std::vector<Member> members_;  // by lane; the origin first
  bool broken_ = false;
};

// Where an event was recorded in a capture.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> after;
};

}  // namespace cinch::cudart
