#include "interpose/comm/value_sample.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr uint32_t kSamples = 3, kBytes = 256;

class ValueSampleTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    auto made = SamplePool::make(fakeDeviceTable(), kSamples, kBytes);
    ASSERT_TRUE(made.ok());
    pool_ = std::move(made.value());
  }

  // Of a buffer that nothing is added to.
  SampledValues sampled(const DeviceValues& values) {
    ValueSample* const sample = pool_->take();
    sample->copyInput(values, nullptr);
    sample->close(nullptr);
    EXPECT_TRUE(sample->hasArrived());
    SampledValues input = sample->input();
    pool_->giveBack(sample);
    return input;
  }

  std::unique_ptr<SamplePool> pool_;
};

TEST_F(ValueSampleTest, AreEvenlySpaced) {
  std::vector<float> values(3200);
  std::iota(values.begin(), values.end(), 0.0f);
  const auto found = std::get<0>(sampled({values.data(), values.size(), ncclFloat32}));
  ASSERT_EQ(found.size(), ValueSample::kValues);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], static_cast<double>((2 * i + 1) * 100)) << i;
}

TEST_F(ValueSampleTest, EveryFloatingPointTypeIsRead) {
  const std::vector<uint16_t> halves(1024, 0x3e00), brains(1024, 0x3fc0);
  const std::vector<double> doubles(1024, 1.5);
  const std::vector<double> expected(ValueSample::kValues, 1.5);
  EXPECT_EQ(std::get<0>(sampled({halves.data(), 1024, ncclFloat16})), expected);
  EXPECT_EQ(std::get<0>(sampled({brains.data(), 1024, ncclBfloat16})), expected);
  EXPECT_EQ(std::get<0>(sampled({doubles.data(), 1024, ncclFloat64})), expected);
}

TEST_F(ValueSampleTest, AFloatHasAsFewDigitsAsItNeeds) {
  const std::vector<float> values(1024, 0.1f);
  EXPECT_EQ(std::get<0>(sampled({values.data(), 1024, ncclFloat32})).front(), 0.1);
}

TEST_F(ValueSampleTest, InputAndOutputAreApart) {
  std::vector<float> values(2048, 1);
  ValueSample* const sample = pool_->take();
  sample->copyInput({values.data(), values.size(), ncclFloat32}, nullptr);
  values.assign(values.size(), 2);
  sample->copyOutput({values.data(), values.size(), ncclFloat32}, nullptr);
  sample->close(nullptr);
  EXPECT_EQ(std::get<0>(sample->input()), std::vector<double>(ValueSample::kValues, 1));
  EXPECT_EQ(std::get<0>(sample->output()), std::vector<double>(ValueSample::kValues, 2));
}

TEST_F(ValueSampleTest, AMessageIsCopiedAsAWhole) {
  const std::vector<int64_t> large = {1, -2, std::numeric_limits<int64_t>::max()};
  const std::vector<int32_t> small = {7, -8};
  ValueSample* const sample = pool_->take();
  sample->copyMessage({large.data(), large.size(), ncclInt64}, nullptr);
  sample->close(nullptr);
  EXPECT_EQ(std::get<1>(sample->output()), large);
  ValueSample* const other = pool_->take();
  other->copyMessage({small.data(), small.size(), ncclInt32}, nullptr);
  other->close(nullptr);
  EXPECT_EQ(std::get<1>(other->output()), (std::vector<int64_t>{7, -8}));
}

TEST_F(ValueSampleTest, NothingIsCopiedOfWhatIsNotThereOrTooLong) {
  const std::vector<int64_t> message(kBytes / 8 + 1);
  for (const DeviceValues& values :
       {DeviceValues{nullptr, 5000, ncclFloat32}, DeviceValues{message.data(), 15, ncclFloat64}})
    EXPECT_TRUE(isEmpty(sampled(values)));
  ValueSample* const sample = pool_->take();
  sample->copyMessage({message.data(), message.size(), ncclInt64}, nullptr);
  sample->close(nullptr);
  EXPECT_TRUE(isEmpty(sample->output()));
}

TEST_F(ValueSampleTest, WaitsForTheDevice) {
  const std::vector<float> values(1024);
  ValueSample* const sample = pool_->take();
  sample->copyInput({values.data(), 1024, ncclFloat32}, nullptr);
  EXPECT_FALSE(sample->hasArrived()) << "more may be copied";
  fakeDevice().eventsPending = true;
  sample->close(nullptr);
  EXPECT_FALSE(sample->hasArrived());
  fakeDevice().eventsPending = false;
  EXPECT_TRUE(sample->hasArrived());
}

TEST_F(ValueSampleTest, AnErrorOfTheDeviceEndsTheSample) {
  const std::vector<float> values(1024);
  for (const int after : {0, 7, 16}) {  // the copies, and the event behind them
    ValueSample* const sample = pool_->take();
    fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size()) + after;
    sample->copyInput({values.data(), 1024, ncclFloat32}, nullptr);
    sample->close(nullptr);
    EXPECT_FALSE(sample->hasArrived()) << after;
    fakeDevice().failAt = -1;
  }
}

TEST_F(ValueSampleTest, APoolHasSoManySamplesAndGivesThemAgain) {
  std::vector<ValueSample*> taken;
  for (uint32_t i = 0; i < kSamples; ++i) taken.push_back(pool_->take());
  EXPECT_EQ(pool_->take(), nullptr);
  pool_->giveBack(taken[1]);
  EXPECT_EQ(pool_->take(), taken[1]);
}

TEST_F(ValueSampleTest, IsNotMadeWhereTheDeviceRefuses) {
  for (const int after : {0, 2}) {
    fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size()) + after;
    EXPECT_FALSE(SamplePool::make(fakeDeviceTable(), kSamples, kBytes).ok());
    fakeDevice().failAt = -1;
  }
}

}  // namespace
}  // namespace cinch
