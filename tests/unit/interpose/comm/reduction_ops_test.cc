#include "interpose/comm/reduction_ops.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace cinch {
namespace {

const auto kOp = static_cast<ncclRedOp_t>(ncclNumOps);

// A value that ends where readable memory ends: one byte too much is a crash.
class LastBytes {
 public:
  LastBytes(const void* value, size_t nBytes) {
    pages_ = static_cast<char*>(
        mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    at_ = pages_ + size_ - nBytes;
    memcpy(at_, value, nBytes);
    EXPECT_EQ(mprotect(pages_ + size_, size_, PROT_NONE), 0);
  }
  ~LastBytes() { munmap(pages_, 2 * size_); }
  LastBytes(const LastBytes&) = delete;
  void* get() const { return at_; }

 private:
  const size_t size_ = static_cast<size_t>(getpagesize());
  char* pages_;
  char* at_;
};

TEST(ReductionOps, TheScalarIsCopiedWhenTheOperationIsMade) {
  ReductionOps ops;
  float scalar = 0.125f;
  ops.add(kOp, &scalar, ncclFloat32, ncclScalarHostImmediate);
  scalar = 9;
  ASSERT_TRUE(ops.find(kOp, ncclFloat32).has_value());
  EXPECT_EQ(ops.find(kOp, ncclFloat32)->value, 0.125f);
  EXPECT_EQ(ops.find(kOp, ncclFloat32)->device, nullptr);
}

TEST(ReductionOps, ExactlyOneValueIsRead) {
  const float single = -1.5f;
  const uint16_t half = 0xbe00, brain = 0xbfc0;  // -1.5 in each
  const struct {
    ncclDataType_t type;
    const void* value;
    size_t nBytes;
  } kCases[] = {{ncclFloat32, &single, 4}, {ncclFloat16, &half, 2}, {ncclBfloat16, &brain, 2}};
  for (const auto& it : kCases) {
    ReductionOps ops;
    const LastBytes scalar(it.value, it.nBytes);
    ops.add(kOp, scalar.get(), it.type, ncclScalarHostImmediate);
    ASSERT_TRUE(ops.find(kOp, it.type).has_value());
    EXPECT_EQ(ops.find(kOp, it.type)->value, -1.5f) << it.type;
  }
}

TEST(ReductionOps, AScalarOnTheDeviceIsNotTouched) {
  ReductionOps ops;
  const LastBytes nothing("", 0);  // its first byte cannot be read
  ops.add(kOp, nothing.get(), ncclFloat16, ncclScalarDevice);
  ASSERT_TRUE(ops.find(kOp, ncclFloat16).has_value());
  EXPECT_EQ(ops.find(kOp, ncclFloat16)->device, nothing.get());
}

TEST(ReductionOps, AnotherTypeIsAnotherOperation) {
  ReductionOps ops;
  const float scalar = 2;
  ops.add(kOp, &scalar, ncclFloat32, ncclScalarHostImmediate);
  for (int type = 0; type < ncclNumTypes; ++type)
    EXPECT_EQ(ops.find(kOp, static_cast<ncclDataType_t>(type)).has_value(), type == ncclFloat32);
}

TEST(ReductionOps, OtherTypesAreNotKeptNorRead) {
  ReductionOps ops;
  const LastBytes nothing("", 0);
  for (const auto type : {ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64,
                          ncclFloat64, ncclFloat8e4m3, ncclFloat8e5m2}) {
    ops.add(kOp, nothing.get(), type, ncclScalarHostImmediate);
    EXPECT_FALSE(ops.find(kOp, type).has_value());
  }
}

TEST(ReductionOps, ADestroyedOneIsUnknown) {
  ReductionOps ops;
  const float scalar = 2;
  ops.add(kOp, &scalar, ncclFloat32, ncclScalarHostImmediate);
  ops.remove(kOp);
  EXPECT_FALSE(ops.find(kOp, ncclFloat32).has_value());
  ops.remove(kOp);  // NCCL says what it thinks of that
}

TEST(ReductionOps, ARecycledHandleIsTheNewOperation) {
  ReductionOps ops;
  const float first = 2, second = 5;
  const uint16_t half = 0x3c00;
  ops.add(kOp, &first, ncclFloat32, ncclScalarDevice);
  ops.remove(kOp);
  ops.add(kOp, &second, ncclFloat32, ncclScalarHostImmediate);
  EXPECT_EQ(ops.find(kOp, ncclFloat32)->value, 5.0f);
  EXPECT_EQ(ops.find(kOp, ncclFloat32)->device, nullptr);
  ops.add(kOp, &half, ncclFloat16, ncclScalarHostImmediate);  // its end was not seen
  EXPECT_FALSE(ops.find(kOp, ncclFloat32).has_value());
  EXPECT_EQ(ops.find(kOp, ncclFloat16)->value, 1.0f);
}

TEST(ReductionOps, ManyLiveSideBySide) {
  ReductionOps ops;
  for (int i = 0; i < 1000; ++i) {
    const auto scalar = static_cast<float>(i);
    ops.add(static_cast<ncclRedOp_t>(ncclNumOps + i), &scalar, ncclFloat32,
            ncclScalarHostImmediate);
  }
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(ops.find(static_cast<ncclRedOp_t>(ncclNumOps + i), ncclFloat32)->value,
              static_cast<float>(i));
}

}  // namespace
}  // namespace cinch
