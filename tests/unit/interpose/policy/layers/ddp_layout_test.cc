#include "interpose/policy/layers/ddp_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "tests/unit/interpose/policy/layers/ddp_messages.h"

namespace cinch {
namespace {

using Buckets = std::vector<BucketLayout>;

using Messages = test::DdpMessages;
using test::ddpMessages;
using test::kModels;
using test::layerOf;

void announce(DdpListener& listener, const Messages& messages) {
  listener.allGathered(std::vector<int64_t>(4, messages.nParameters));
  listener.broadcast(messages.sizesAndStrides);
}

void rebuild(DdpListener& listener, const Messages& messages) {
  listener.broadcast(messages.bucketOrder);
  listener.broadcast(messages.bucketSizes);
}

// Empty buckets where nothing is known.
Buckets unknown(const Messages& messages) {
  return Buckets(messages.counts.size());
}

Buckets layoutOf(const Messages& messages) {
  DdpListener listener;
  announce(listener, messages);
  rebuild(listener, messages);
  return listener.layoutsOf(messages.counts);
}

void countAgain(Messages& messages) {
  messages.counts.clear();
  for (const BucketLayout& bucket : messages.buckets()) {
    messages.counts.push_back(0);
    for (const Layer& layer : bucket) messages.counts.back() += layer.count;
  }
}

// A model by hand: shapes, contiguous, in buckets of the last parameters first.
Messages made(const std::vector<std::vector<uint64_t>>& shapes, std::vector<int32_t> bucketSizes) {
  Messages messages;
  messages.nParameters = static_cast<int64_t>(shapes.size());
  for (const auto& shape : shapes) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      strides[i - 1] = strides[i] * static_cast<int64_t>(shape[i]);
    messages.parameters.push_back(layerOf(shape));
    for (const auto& part : {std::vector<int64_t>(shape.begin(), shape.end()), strides})
      messages.sizesAndStrides.insert(messages.sizesAndStrides.end(), part.begin(), part.end());
  }
  messages.bucketOrder.resize(shapes.size());
  std::iota(messages.bucketOrder.rbegin(), messages.bucketOrder.rend(), 0);
  messages.bucketOrder.push_back(static_cast<int32_t>(bucketSizes.size()));
  messages.bucketSizes = std::move(bucketSizes);
  countAgain(messages);
  return messages;
}

// Every border of the layout is one of the model, and what has dimensions is a parameter.
void expectNothingWrong(const Buckets& layout, const Buckets& truth) {
  ASSERT_EQ(layout.size(), truth.size());
  for (size_t i = 0; i < layout.size(); ++i) {
    std::map<uint64_t, Layer> starts;
    uint64_t end = 0;
    for (const Layer& layer : truth[i]) {
      starts.emplace(end, layer);
      end += layer.count;
    }
    uint64_t offset = 0;
    if (layout[i].empty()) continue;
    for (const Layer& layer : layout[i]) {
      ASSERT_TRUE(starts.contains(offset)) << "bucket " << i << " offset " << offset;
      if (layer.dims != kUnknownDims) {
        EXPECT_EQ(layer.count, starts[offset].count);
      }
      offset += layer.count;
    }
    EXPECT_EQ(offset, end);
  }
}

void expectFilled(const Buckets& layout, std::span<const uint64_t> counts) {
  ASSERT_EQ(layout.size(), counts.size());
  for (size_t i = 0; i < layout.size(); ++i) {
    uint64_t sum = 0;
    if (layout[i].empty()) continue;
    for (const Layer& layer : layout[i]) {
      ASSERT_GT(layer.count, 0u);
      ASSERT_LE(layer.count, counts[i] - sum);
      sum += layer.count;
    }
    ASSERT_EQ(sum, counts[i]);
  }
}

TEST(DdpLayout, ModelsHaveTheirKnownSizes) {
  const std::map<std::string, uint64_t> sizes = {{"resnet50", 25'557'032},
                                                 {"vit_b16", 86'567'656},
                                                 {"gpt2", 124'439'808},
                                                 {"bert_large", 335'141'888},
                                                 {"llama", 1'100'048'384}};
  for (const auto& [name, size] : sizes) {
    const auto counts = ddpMessages(name).counts;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), size) << name;
  }
}

TEST(DdpLayout, EveryModelIsReadExactly) {
  for (const char* name : kModels) {
    const Messages messages = ddpMessages(name);
    const bool isExact = layoutOf(messages) == messages.buckets();
    EXPECT_TRUE(isExact) << name;
    RecordProperty(name, isExact ? "true" : "false");  // for bench/report adaptive
  }
}

TEST(DdpLayout, WhatWasRecordedIsNeverMisread) {
  int nExact = 0;
  for (const std::string& name : test::recordedModels()) {
    const Messages messages = ddpMessages(name);
    const Buckets layout = layoutOf(messages);
    EXPECT_NE(layout, unknown(messages)) << name;
    expectNothingWrong(layout, messages.buckets());
    // Where parameters without dimensions stand may not be said.
    const auto hasDims = [](const Layer& parameter) { return parameter.dims > 0; };
    if (!std::all_of(messages.parameters.begin(), messages.parameters.end(), hasDims)) continue;
    EXPECT_EQ(layout, messages.buckets()) << name;
    ++nExact;
  }
  EXPECT_GT(nExact, 0);
}

// Here {8}, {1}, {5, 1} is sent as {8, 1}, {5}, {1} would be.
const std::vector<std::vector<uint64_t>> kAmbiguous = {{7, 5}, {8}, {1}, {5, 1}, {3}};

TEST(DdpLayout, WhereReadingsDifferTheirCommonLayersAreKept) {
  const Buckets expected = {{{3, 1}, {6, kUnknownDims}, {8, kUnknownDims}, {35, 2}}};
  EXPECT_EQ(layoutOf(made(kAmbiguous, {5})), expected);
}

TEST(DdpLayout, BucketSizesDecideBetweenReadings) {
  const Messages messages = made(kAmbiguous, {2, 1, 2});
  EXPECT_EQ(layoutOf(messages), messages.buckets());
}

TEST(DdpLayout, AParameterWithoutDimensionsIsFoundWhereTheBucketsTell) {
  const Messages messages = made({{}, {7, 5}, {6}, {5, 5}, {}, {9}}, {1, 1, 2, 1, 1});
  EXPECT_EQ(layoutOf(messages), messages.buckets());
}

TEST(DdpLayout, AndElsewhereItsSurroundingsAreOneLayer) {
  const Messages messages = made({{4, 4}, {}, {7, 5}, {6}, {5, 5}}, {2, 2, 1});
  const Buckets expected = {{{25, 2}, {6, 1}}, {{36, kUnknownDims}}, {{16, 2}}};
  EXPECT_EQ(layoutOf(messages), expected);
}

TEST(DdpLayout, OnlyScalars) {
  const Messages messages = made({{}, {}, {}}, {1, 2});
  DdpListener listener;
  announce(listener, messages);  // the broadcast is empty
  rebuild(listener, messages);
  EXPECT_EQ(listener.layoutsOf(messages.counts), messages.buckets());
}

TEST(DdpLayout, CallsOfOtherCountsHaveNoLayout) {
  for (const char* name : kModels) {
    Messages messages = ddpMessages(name);
    const auto right = messages.counts;
    for (size_t i = 0; i < right.size(); ++i)
      for (const uint64_t wrong : {right[i] - 1, right[i] + 1, uint64_t{0}, UINT64_MAX}) {
        messages.counts[i] = wrong;
        EXPECT_EQ(layoutOf(messages), unknown(messages)) << name;
        messages.counts[i] = right[i];
      }
    messages.counts.pop_back();
    EXPECT_EQ(layoutOf(messages), unknown(messages)) << name;
    messages.counts.clear();
    EXPECT_EQ(layoutOf(messages), Buckets{}) << name;
    messages.counts.assign(right.rbegin(), right.rend());
    EXPECT_EQ(layoutOf(messages), unknown(messages)) << name;
  }
}

TEST(DdpLayout, APeriodCanBeginAnywhereAndHoldOtherCalls) {
  for (const char* name : kModels) {
    Messages messages = ddpMessages(name);
    Buckets expected = messages.buckets();
    for (const uint64_t other : {1, 1000}) {
      messages.counts.push_back(other);
      expected.emplace_back();
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(layoutOf(messages), expected) << name << " from " << i;
      std::rotate(messages.counts.begin(), messages.counts.begin() + 1, messages.counts.end());
      std::rotate(expected.begin(), expected.begin() + 1, expected.end());
    }
  }
}

// Calls `check` with every number of a message changed, one at a time, in one way or another.
template <class T>
void corruptEach(std::vector<T>& message, const std::function<void(size_t)>& check) {
  for (size_t i = 0; i < message.size(); ++i) {
    const T right = message[i];
    const T ways[] = {T{1},  static_cast<T>(right + 1),     static_cast<T>(2 * right),
                      T{-1}, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
    const T wrong = ways[i % std::size(ways)];
    message[i] = wrong == right ? T{0} : wrong;
    check(i);
    message[i] = right;
  }
}

TEST(DdpLayout, AWrongNumberLeavesTheTruthOrNothing) {
  for (const std::string name : kModels) {
    Messages messages = ddpMessages(name);
    const Buckets truth = messages.buckets();
    const auto check = [&](size_t at) {
      const Buckets layout = layoutOf(messages);
      expectFilled(layout, messages.counts);
      // Parameters without dimensions, of which nothing is said, can make up for a wrong number.
      if (name != "mixed") expectNothingWrong(layout, truth);
      ASSERT_FALSE(testing::Test::HasFailure()) << name << " at " << at;
    };
    corruptEach(messages.sizesAndStrides, check);
    corruptEach(messages.bucketOrder, check);
    corruptEach(messages.bucketSizes, check);
    std::vector<int64_t> nParameters = {messages.nParameters};
    corruptEach(nParameters, [&](size_t) {
      Messages wrong = messages;
      wrong.nParameters = nParameters[0];
      EXPECT_EQ(layoutOf(wrong), unknown(wrong)) << name;
    });
  }
}

TEST(DdpLayout, ATruncatedMessageIsNone) {
  for (const char* name : kModels) {
    const Messages whole = ddpMessages(name);
    const auto truncate = [&](auto member) {
      Messages messages = whole;
      while (!(messages.*member).empty()) {
        (messages.*member).pop_back();
        ASSERT_EQ(layoutOf(messages), unknown(messages)) << name << (messages.*member).size();
      }
    };
    truncate(&Messages::sizesAndStrides);
    truncate(&Messages::bucketOrder);
    truncate(&Messages::bucketSizes);
  }
}

TEST(DdpLayout, RanksThatDifferHaveNoModel) {
  const Messages messages = ddpMessages("gpt2");
  for (const std::vector<int64_t>& gathered :
       {std::vector<int64_t>{148, 148, 147}, {148, 0}, {}, {-148, -148}, {INT64_MAX, INT64_MAX}}) {
    DdpListener listener;
    listener.allGathered(gathered);
    listener.broadcast(messages.sizesAndStrides);
    rebuild(listener, messages);
    EXPECT_EQ(listener.layoutsOf(messages.counts), unknown(messages));
  }
}

TEST(DdpLayout, EveryMessageIsNeededAndInItsTurn) {
  const Messages messages = ddpMessages("resnet50");
  using Send = std::function<void(DdpListener&)>;
  const Send sends[] = {
      [&](DdpListener& to) { to.allGathered(std::vector<int64_t>(2, messages.nParameters)); },
      [&](DdpListener& to) { to.broadcast(messages.sizesAndStrides); },
      [&](DdpListener& to) { to.broadcast(messages.bucketOrder); },
      [&](DdpListener& to) { to.broadcast(messages.bucketSizes); }};
  std::vector<int> turns = {0, 1, 2, 3};
  do {
    for (size_t nSent = 0; nSent <= 4; ++nSent) {
      DdpListener listener;
      for (size_t i = 0; i < nSent; ++i) sends[turns[i]](listener);
      const bool isWhole = nSent == 4 && std::is_sorted(turns.begin(), turns.end());
      EXPECT_EQ(listener.layoutsOf(messages.counts),
                isWhole ? messages.buckets() : unknown(messages));
    }
  } while (std::next_permutation(turns.begin(), turns.end()));
}

TEST(DdpLayout, OtherProgramsIntegersDoNotDisturb) {
  const Messages messages = ddpMessages("bert_large");
  DdpListener listener;
  const auto disturb = [&] {
    listener.broadcast(std::vector<int64_t>{3, 1});
    listener.broadcast(std::vector<int32_t>{1, 2, 3});
    listener.broadcast(std::vector<int32_t>{});
    listener.broadcast(std::vector<int64_t>{});
    listener.allGathered(std::vector<int64_t>{17, 17});
  };
  disturb();
  announce(listener, messages);
  disturb();
  rebuild(listener, messages);
  disturb();
  EXPECT_EQ(listener.layoutsOf(messages.counts), messages.buckets());
}

TEST(DdpLayout, SeveralModelsOnOneCommunicator) {
  DdpListener listener;
  std::vector<Messages> models;
  for (const char* name : kModels) announce(listener, models.emplace_back(ddpMessages(name)));
  for (const Messages& messages : models) rebuild(listener, messages);
  for (const Messages& messages : models)
    EXPECT_EQ(listener.layoutsOf(messages.counts), messages.buckets());
}

// A generator every second step.
TEST(DdpLayout, TwoModelsInOnePeriod) {
  const Messages one = ddpMessages("gpt2"), other = ddpMessages("vit_b16");
  DdpListener listener;
  announce(listener, one);
  announce(listener, other);
  rebuild(listener, other);
  rebuild(listener, one);
  std::vector<uint64_t> counts;
  Buckets expected;
  for (const Messages& step : {one, one, other}) {
    counts.insert(counts.end(), step.counts.begin(), step.counts.end());
    const Buckets buckets = step.buckets();
    expected.insert(expected.end(), buckets.begin(), buckets.end());
  }
  EXPECT_EQ(listener.layoutsOf(counts), expected);
}

TEST(DdpLayout, WithoutAnOrderParametersAreConsecutive) {
  for (const char* name : kModels) {
    Messages messages = ddpMessages(name);
    DdpListener listener;
    announce(listener, messages);
    EXPECT_EQ(listener.layoutsOf(messages.counts), unknown(messages));
    std::iota(messages.bucketOrder.begin(), messages.bucketOrder.end(), 0);
    const auto nParameters = static_cast<int32_t>(messages.nParameters);
    messages.bucketSizes = {nParameters - 40, 35, 5};
    std::rotate(messages.bucketOrder.begin(), messages.bucketOrder.begin() + 40,
                messages.bucketOrder.begin() + nParameters);
    std::rotate(messages.bucketOrder.begin() + nParameters - 40,
                messages.bucketOrder.begin() + nParameters - 35,
                messages.bucketOrder.begin() + nParameters);
    countAgain(messages);
    const Buckets found = listener.layoutsWithoutOrder(messages.counts);
    if (std::string(name) == "mixed")
      expectNothingWrong(found, messages.buckets());
    else
      EXPECT_EQ(found, messages.buckets()) << name;
    messages.counts[0] += 1;
    EXPECT_EQ(listener.layoutsWithoutOrder(messages.counts), unknown(messages)) << name;
    messages.counts[1] -= 1;
    EXPECT_EQ(listener.layoutsWithoutOrder(messages.counts), unknown(messages)) << name;
  }
}

TEST(DdpLayout, AnOrderThatWasSentCounts) {
  const Messages messages = made({{3, 5}, {4}, {2, 8}}, {1, 2});
  DdpListener listener;
  announce(listener, messages);
  EXPECT_NE(listener.layoutsWithoutOrder(messages.counts), unknown(messages));
  rebuild(listener, messages);
  EXPECT_EQ(listener.layoutsWithoutOrder(messages.counts), unknown(messages));
}

TEST(DdpLayout, AModelWrappedAgainIsReadAgain) {
  const Messages messages = ddpMessages("gpt2");
  DdpListener listener;
  for (int i = 0; i < 20; ++i) {
    announce(listener, messages);
    rebuild(listener, messages);
    EXPECT_EQ(listener.layoutsOf(messages.counts), messages.buckets());
  }
}

// Twins, of which nothing says whose buckets are whose.
TEST(DdpLayout, OrdersThatContradictEachOtherGiveNothing) {
  const Messages one = made({{3, 5}, {4}, {2, 8}}, {1, 2});
  Messages other = one;
  std::swap(other.bucketOrder[1], other.bucketOrder[2]);
  DdpListener listener;
  announce(listener, one);
  announce(listener, other);
  rebuild(listener, one);
  EXPECT_EQ(listener.layoutsOf(one.counts), one.buckets());
  rebuild(listener, other);
  EXPECT_EQ(listener.layoutsOf(one.counts), (Buckets{one.buckets()[0], {}}));
}

// Anything can follow anything here: only the limit on work ends the search.
TEST(DdpLayout, HostileNumbersTakeBoundedWork) {
  constexpr size_t kNumbers = 100'000;
  for (const int64_t nParameters : {6'250, 20'000, 33'333, 49'999, 50'000, 60'000}) {
    Messages messages;
    messages.nParameters = nParameters;
    messages.sizesAndStrides.assign(kNumbers, 1);
    messages.parameters.assign(static_cast<size_t>(nParameters), {1, 1});
    messages.bucketOrder.resize(static_cast<size_t>(nParameters));
    std::iota(messages.bucketOrder.begin(), messages.bucketOrder.end(), 0);
    std::shuffle(messages.bucketOrder.begin(), messages.bucketOrder.end(), std::mt19937(3));
    messages.bucketOrder.push_back(2);
    messages.bucketSizes = {1000, static_cast<int32_t>(nParameters) - 1000};
    messages.counts = {1000, static_cast<uint64_t>(nParameters) - 1000};
    const Buckets layout = layoutOf(messages);
    expectFilled(layout, messages.counts);
    if (nParameters == 20'000) {
      EXPECT_EQ(layout, unknown(messages));
    } else if (nParameters == 50'000) {
      EXPECT_EQ(layout, messages.buckets()) << "only vectors are so many";
    }
  }
}

TEST(DdpLayout, ASearchEndsWhenItsWorkIsSpent) {
  const auto shapes = DdpShapes::read(20'000, std::vector<int64_t>(100'000, 1));
  BucketOrder order{std::vector<uint32_t>(20'000), {20'000}};
  std::iota(order.parameters.begin(), order.parameters.end(), 0);
  const uint64_t count = 20'000;
  for (const uint64_t limit : {0, 1, 1000, 100'000}) {
    uint64_t work = limit;
    EXPECT_EQ(ShapeSearch(*shapes, order).find({&count, 1}, work), std::nullopt);
    EXPECT_EQ(work, 0u);
  }
}

TEST(DdpLayout, TooMuchIsRefused) {
  const size_t tooMany = DdpShapes::kMaxNumbers + 2;
  EXPECT_FALSE(DdpShapes::read(DdpShapes::kMaxParameters, std::vector<int64_t>(tooMany, 1)));
  EXPECT_FALSE(DdpShapes::read(DdpShapes::kMaxParameters + 1, std::vector<int64_t>{1, 1}));
  EXPECT_FALSE(DdpShapes::read(0, {}));
  EXPECT_FALSE(DdpShapes::read(1, std::vector<int64_t>{INT64_MAX, 1}));
  EXPECT_FALSE(DdpShapes::read(1, std::vector<int64_t>{INT64_MAX, INT64_MAX, INT64_MAX, 1}));
  EXPECT_FALSE(DdpShapes::read(1, std::vector<int64_t>{0, 1}));
}

// Random models, of shapes that can be read in many ways.
TEST(DdpLayout, NoRandomModelIsMisreadWhereEveryParameterHasDimensions) {
  std::mt19937 random(5);
  constexpr int kRounds = 3000;
  int nExact = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<uint64_t>> shapes(1 + random() % 12);
    for (auto& shape : shapes) {
      shape.resize(1 + random() % 4);
      for (uint64_t& size : shape) size = random() % 3 == 0 ? 1 : 1 + random() % 9;
    }
    std::vector<int32_t> bucketSizes;
    for (size_t left = shapes.size(); left > 0; left -= static_cast<size_t>(bucketSizes.back()))
      bucketSizes.push_back(static_cast<int32_t>(1 + random() % left));
    const Messages messages = made(shapes, bucketSizes);
    const Buckets layout = layoutOf(messages);
    expectNothingWrong(layout, messages.buckets());
    expectFilled(layout, messages.counts);
    ASSERT_FALSE(HasFailure()) << round;
    nExact += layout == messages.buckets();
  }
  EXPECT_GT(nExact, kRounds / 2);
}

TEST(DdpLayout, RandomMessagesNeverContradictTheCounts) {
  std::mt19937 random(6);
  int nRead = 0;
  for (int round = 0; round < 30000; ++round) {
    Messages messages;
    messages.nParameters = 1 + random() % 6;
    messages.sizesAndStrides.resize(random() % 14);
    for (int64_t& number : messages.sizesAndStrides)
      number = random() % 4 ? 1 : static_cast<int64_t>(random() % 4) - 1;
    messages.bucketOrder.resize(static_cast<size_t>(messages.nParameters));
    std::iota(messages.bucketOrder.begin(), messages.bucketOrder.end(), 0);
    std::shuffle(messages.bucketOrder.begin(), messages.bucketOrder.end(), random);
    messages.bucketOrder.push_back(1 + random() % 2);
    messages.bucketSizes = {static_cast<int32_t>(messages.nParameters)};
    if (messages.bucketOrder.back() == 2)
      messages.bucketSizes = {1, static_cast<int32_t>(messages.nParameters) - 1};
    for (size_t i = 0; i < messages.bucketSizes.size(); ++i)
      messages.counts.push_back(1 + random() % 8);
    const Buckets layout = layoutOf(messages);
    expectFilled(layout, messages.counts);
    ASSERT_FALSE(HasFailure()) << round;
    nRead += layout != unknown(messages);
  }
  EXPECT_GT(nRead, 300);
}

}  // namespace
}  // namespace cinch
