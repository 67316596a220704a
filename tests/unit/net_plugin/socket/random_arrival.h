// A message that arrives in pieces over several flows, driven as the link does it, but at random.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "net_plugin/socket/message.h"

namespace cinch::net {

inline constexpr int kArrivingFlows = 4;

inline std::vector<char> randomBytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(n);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// One flow with a chunk arriving over it, as the link drives it.
class ArrivingChunk {
 public:
  ArrivingChunk(int flow, IncomingMessage& message, const std::vector<char>& source, Chunk chunk)
      : flow_(flow),
        message_(message),
        source_(source),
        chunk_(chunk),
        intoSpare_(!message.claim(chunk.offset, flow)) {}

  bool isReading() const { return isReading_; }
  bool isFilling() const { return !intoSpare_; }
  uint64_t offset() const { return chunk_.offset; }

  // One step: the beginning or the end of a read, or what comes when all is there. True when
  // through.
  bool step(std::mt19937& random) {
    if (isReading_) return endRead(), false;
    if (message_.has(chunk_.offset) || message_.isEnding()) return leave(), true;
    if (done_ == chunk_.length) return finish(), true;
    beginRead(random);
    return false;
  }

  void leave() {
    if (isReading_) endRead();
    message_.unclaim(chunk_.offset, flow_);
  }

 private:
  void beginRead(std::mt19937& random) {
    piece_ = 1 + static_cast<uint32_t>(random() % (chunk_.length - done_));
    if (intoSpare_) return void(done_ += piece_);
    isReading_ = true;
    message_.beginRead(chunk_.offset, flow_);
    copy(piece_ / 2);
  }

  void endRead() {
    copy(piece_);
    done_ += piece_;
    isReading_ = false;
    message_.endRead(chunk_.offset, flow_);
  }

  void finish() {
    if (intoSpare_) {
      return message_.place(chunk_.offset, source_.data() + chunk_.offset, chunk_.length);
    }
    message_.unclaim(chunk_.offset, flow_);
    message_.arrived(chunk_.offset, chunk_.length);
  }

  void copy(uint32_t n) {
    memcpy(message_.at(chunk_.offset) + done_, source_.data() + chunk_.offset + done_, n);
  }

  const int flow_;
  IncomingMessage& message_;
  const std::vector<char>& source_;
  const Chunk chunk_;
  const bool intoSpare_;
  bool isReading_ = false;
  uint32_t done_ = 0;
  uint32_t piece_ = 0;
};

// A message that arrives over some flows, in random order, much of it more than once.
class RandomArrival {
 public:
  RandomArrival(uint64_t total, uint32_t chunkBytes, uint32_t seed)
      : random_(seed),
        source_(randomBytes(total, seed)),
        buffer_(total + 64, 'x'),
        chunks_(1, 2, source_.data(), total, chunkBytes),
        nChunks_(std::max<uint64_t>(1, (total + chunkBytes - 1) / chunkBytes)),
        message_(7, buffer_.data(), total + 32) {}

  // Until the message ends; a flow may die at any time.
  void run(int failsAfter = -1) {
    for (int i = 0; message_.outcome == Outcome::pending; ++i) {
      if (i == failsAfter) message_.fail();
      step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  // Once the outcome is known the buffer is its owner's.
  void expectBufferIsFree() {
    std::fill(buffer_.begin(), buffer_.end(), 'o');
    for (int i = 0; i < 200; ++i) step();
    EXPECT_EQ(std::count(buffer_.begin(), buffer_.end(), 'o'), std::ssize(buffer_));
  }

  Outcome outcome() const { return message_.outcome; }

  bool isRead() const {
    return std::any_of(flows_.begin(), flows_.end(),
                       [](auto& flow) { return flow != nullptr && flow->isReading(); });
  }

  void expectAllThere() const {
    EXPECT_TRUE(message_.isComplete());
    EXPECT_EQ(message_.total(), source_.size());
    EXPECT_TRUE(std::equal(source_.begin(), source_.end(), buffer_.begin()));
    EXPECT_EQ(std::count(buffer_.begin() + source_.size(), buffer_.end(), 'x'), 64);
  }

 private:
  void step() {
    const size_t i = random_() % kArrivingFlows;
    if (flows_[i] == nullptr) {
      begin(i);
    } else if (random_() % 20 == 0) {
      flows_[i]->leave();
      flows_[i].reset();
    } else if (flows_[i]->step(random_)) {
      flows_[i].reset();
    }
    check();
  }

  void begin(size_t flow) {
    if (message_.isEnding()) return;
    const Chunk chunk = chunks_.chunk(static_cast<uint32_t>(random_() % nChunks_));
    const auto verdict = message_.judge(chunk.offset, chunk.length, source_.size());
    if (message_.has(chunk.offset)) {
      ASSERT_EQ(verdict, IncomingMessage::Verdict::known);
      return;
    }
    ASSERT_EQ(verdict, IncomingMessage::Verdict::wanted);
    flows_[flow] = std::make_unique<ArrivingChunk>(flow, message_, source_, chunk);
  }

  // No two flows fill one place, and the outcome waits for all who read into the buffer.
  void check() {
    for (int a = 0; a < kArrivingFlows; ++a) {
      for (int b = 0; b < a; ++b) {
        if (flows_[a] == nullptr || flows_[b] == nullptr) continue;
        const bool both = flows_[a]->isFilling() && flows_[b]->isFilling();
        ASSERT_FALSE(both && flows_[a]->offset() == flows_[b]->offset());
      }
    }
    message_.settle();
    ASSERT_TRUE(message_.outcome == Outcome::pending || !isRead());
    ASSERT_TRUE(message_.outcome != Outcome::done || message_.isComplete());
  }

  std::mt19937 random_;
  std::vector<char> source_;
  std::vector<char> buffer_;
  OutgoingMessage chunks_;
  uint64_t nChunks_;
  std::array<std::unique_ptr<ArrivingChunk>, kArrivingFlows> flows_;
  IncomingMessage message_;
};

}  // namespace cinch::net
