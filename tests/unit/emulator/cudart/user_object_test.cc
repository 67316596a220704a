// What programs tie to the life of graphs.

#include <atomic>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class UserObjectTest : public testing::Test {
 protected:
  // A new object with `references` of the program's.
  cudaUserObject_t create(unsigned int references = 1) {
    cudaUserObject_t object = nullptr;
    EXPECT_CUDA_OK(cudaUserObjectCreate(
        &object, this, [](void* self) { ++static_cast<UserObjectTest*>(self)->destroyed_; },
        references, cudaUserObjectNoDestructorSync));
    return object;
  }

  // A capture of one blocked host function that owns an object.
  cudaGraph_t captureWithObject() {
    cudaGraph_t graph = nullptr, ended = nullptr;
    cudaStreamCaptureStatus status;
    EXPECT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    EXPECT_CUDA_OK(cudaStreamGetCaptureInfo(stream_, &status, nullptr, &graph));
    EXPECT_CUDA_OK(cudaGraphRetainUserObject(graph, create(), 1, cudaGraphUserObjectMove));
    gate_.block(stream_);
    EXPECT_CUDA_OK(cudaStreamEndCapture(stream_, &ended));
    EXPECT_EQ(ended, graph);
    return ended;
  }

  std::atomic<int> destroyed_{0};
  Gate gate_;
  TestStream stream_;
};

TEST_F(UserObjectTest, livesAsLongAsTheGraphTheExecutableAndItsLaunches) {
  cudaGraphExec_t exec = nullptr;
  const cudaGraph_t graph = captureWithObject();
  ASSERT_CUDA_OK(cudaGraphInstantiate(&exec, graph));
  ASSERT_CUDA_OK(cudaGraphDestroy(graph));
  ASSERT_CUDA_OK(cudaGraphLaunch(exec, stream_));
  ASSERT_CUDA_OK(cudaGraphLaunch(exec, stream_));
  ASSERT_CUDA_OK(cudaGraphExecDestroy(exec));
  EXPECT_EQ(destroyed_, 0);
  gate_.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(UserObjectTest, goesWithAGraphThatWasNeverInstantiated) {
  const cudaGraph_t graph = captureWithObject();
  EXPECT_EQ(destroyed_, 0);
  ASSERT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(UserObjectTest, goesWithACaptureThatFails) {
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureStatus status;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  ASSERT_CUDA_OK(cudaStreamGetCaptureInfo(stream_, &status, nullptr, &graph));
  ASSERT_CUDA_OK(cudaGraphRetainUserObject(graph, create(), 1, cudaGraphUserObjectMove));
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream_));
  EXPECT_EQ(destroyed_, 0);
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphDestroy(graph));
  cudaGetLastError();
}

TEST_F(UserObjectTest, anEventOfTheCaptureDoesNotKeepIt) {
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureStatus status;
  TestEvent event;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  ASSERT_CUDA_OK(cudaStreamGetCaptureInfo(stream_, &status, nullptr, &graph));
  ASSERT_CUDA_OK(cudaGraphRetainUserObject(graph, create(), 1, cudaGraphUserObjectMove));
  ASSERT_CUDA_OK(cudaEventRecord(event, stream_));
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream_, &graph));
  ASSERT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(UserObjectTest, referencesAreCounted) {
  const cudaUserObject_t object = create(2);
  EXPECT_CUDA_OK(cudaUserObjectRetain(object, 3));
  EXPECT_CUDA_OK(cudaUserObjectRelease(object, 4));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectRelease(object, 2));
  EXPECT_EQ(destroyed_, 0);
  EXPECT_CUDA_OK(cudaUserObjectRelease(object));
  EXPECT_EQ(destroyed_, 1);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectRelease(object));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectRetain(object));
  cudaGetLastError();
}

TEST_F(UserObjectTest, graphAndProgramHaveReferencesOfTheirOwn) {
  const cudaUserObject_t object = create();
  const cudaGraph_t graph = captureWithObject();
  ASSERT_CUDA_OK(cudaGraphRetainUserObject(graph, object, 2));
  ASSERT_CUDA_OK(cudaUserObjectRelease(object));
  EXPECT_EQ(destroyed_, 0);
  EXPECT_CUDA_OK(cudaGraphReleaseUserObject(graph, object));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphReleaseUserObject(graph, object, 2));
  EXPECT_EQ(destroyed_, 0);
  EXPECT_CUDA_OK(cudaGraphReleaseUserObject(graph, object));
  EXPECT_EQ(destroyed_, 1);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphReleaseUserObject(graph, object));
  ASSERT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_EQ(destroyed_, 2);
  cudaGetLastError();
}

TEST_F(UserObjectTest, destructorsMayNotCallCuda) {
  cudaError_t inside = cudaSuccess;
  cudaUserObject_t object = nullptr;
  ASSERT_CUDA_OK(cudaUserObjectCreate(
      &object, &inside,
      [](void* error) { *static_cast<cudaError_t*>(error) = cudaDeviceSynchronize(); }, 1,
      cudaUserObjectNoDestructorSync));
  ASSERT_CUDA_OK(cudaUserObjectRelease(object));
  EXPECT_CUDA(cudaErrorNotPermitted, inside);
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  cudaGetLastError();
}

TEST_F(UserObjectTest, badArguments) {
  cudaUserObject_t object = nullptr;
  const auto destroy = [](void*) {};
  const auto noSync = cudaUserObjectNoDestructorSync;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectCreate(nullptr, this, destroy, 1, noSync));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectCreate(&object, this, nullptr, 1, noSync));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectCreate(&object, this, destroy, 0, noSync));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectCreate(&object, this, destroy, 1, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaUserObjectRetain(nullptr));
  const cudaGraph_t graph = captureWithObject();
  object = create();
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphRetainUserObject(nullptr, object));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, object, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, object, 1, 2));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaGraphRetainUserObject(graph, object, 2, cudaGraphUserObjectMove));
  EXPECT_CUDA_OK(cudaUserObjectRelease(object));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

}  // namespace
}  // namespace cinch::cudart
