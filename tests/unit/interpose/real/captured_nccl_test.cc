// Libraries of the process stand in for copies of NCCL: what counts is which object an address
// belongs to.
#include "interpose/real/captured_nccl.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cinch {
namespace {

void* symbolOf(const char* library, const char* name) {
  return dlsym(dlopen(library, RTLD_NOW), name);
}

void* const kInLibc = symbolOf("libc.so.6", "qsort");
void* const kInLibm = symbolOf("libm.so.6", "cbrt");

// The handle is the answer.
void* findHandle(void* handle, const char* name) {
  EXPECT_STREQ(name, "pncclAllReduce");
  return handle;
}

// As glibc's, leaves a message.
void* findNothing(void*, const char*) {
  return dlsym(RTLD_DEFAULT, "pncclLacking");
}

TEST(CapturedNccl, KeepsTheFirstCopy) {
  CapturedNccl captured;
  EXPECT_EQ(captured.probe(), nullptr);
  EXPECT_TRUE(captured.take(findHandle, kInLibm, symbolOf("libm.so.6", "tgamma")));
  EXPECT_EQ(captured.probe(), kInLibm);
  EXPECT_FALSE(captured.take(findHandle, kInLibc, kInLibc));
  EXPECT_TRUE(captured.take(findNothing, nullptr, kInLibm));  // known: nothing is looked up
  EXPECT_EQ(captured.probe(), kInLibm);
}

TEST(CapturedNccl, TakesOnlyAnObjectThatIsAnNcclItself) {
  CapturedNccl captured;
  EXPECT_FALSE(captured.take(findNothing, nullptr, kInLibc));
  EXPECT_EQ(dlerror(), nullptr) << "the message of our own look-up is still there";
  EXPECT_FALSE(captured.take(findHandle, kInLibm, kInLibc)) << "another object is the NCCL";
  EXPECT_FALSE(captured.take(findHandle, kInLibc, nullptr));
  std::vector<char> heap(16);
  EXPECT_FALSE(captured.take(findHandle, heap.data(), heap.data()));
  EXPECT_EQ(captured.probe(), nullptr);
}

TEST(CapturedNccl, ThreadsAgreeOnOneCopy) {
  for (int round = 0; round < 200; ++round) {
    CapturedNccl captured;
    std::vector<int> took(8);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < took.size(); ++i)
      threads.emplace_back([&, i] {
        void* own = i % 2 == 0 ? kInLibc : kInLibm;
        took[i] = captured.take(findHandle, own, own);
      });
    for (std::thread& thread : threads) thread.join();
    const bool even = captured.probe() == kInLibc;
    ASSERT_TRUE(even || captured.probe() == kInLibm);
    for (size_t i = 0; i < took.size(); ++i) ASSERT_EQ(took[i], (i % 2 == 0) == even) << i;
  }
}

}  // namespace
}  // namespace cinch
