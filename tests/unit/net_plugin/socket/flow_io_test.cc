#include "net_plugin/socket/flow_io.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <random>

#include "tests/unit/net_plugin/socket/connected.h"

namespace cinch::net {
namespace {

// The kernel takes little at once.
Ends connectedWithSmallBuffer() {
  Ends ends = connected();
  const int bytes = 4096;
  setsockopt(ends.here.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return ends;
}

// A record as it was sent, with its payload.
struct Item {
  Record record;
  std::vector<char> payload;
};

Item randomItem(std::mt19937& random, bool withPayload) {
  const auto number = static_cast<uint32_t>(random());
  if (!withPayload) return {{.type = RecordType::done, .connection = 3, .message = number}, {}};
  const uint32_t limits[] = {1, 40, 5000, 9000, kMaxChunkBytes};
  const uint32_t length = 1 + static_cast<uint32_t>(random() % limits[random() % 5]);
  Item item{{.type = RecordType::chunk, .message = number, .length = length, .total = length}, {}};
  item.payload.resize(length);
  for (char& byte : item.payload) byte = static_cast<char>(random());
  return item;
}

void append(std::vector<uint8_t>& bytes, const Record& record) {
  const auto encoded = encodeRecord(record);
  bytes.insert(bytes.end(), encoded.begin(), encoded.end());
}

// Writes batches of records, the last of which may have payloads.
class Sender {
 public:
  Sender(const Socket& socket, std::mt19937& random) : writer(socket), random_(random) {}

  // One write; false where it is blocked.
  bool step(std::deque<Item>& sent) {
    if (writer.isIdle()) beginBatch(sent);
    const uint64_t before = writer.written();
    const auto io = writer.write(starts_);
    EXPECT_TRUE(io.ok()) << io.error().message;
    for (size_t i = 0; i < ends_.size(); ++i) {
      EXPECT_EQ(i < writer.currentChunk(), writer.written() >= ends_[i]);
    }
    return io.ok() && io.value() == Io::moved && writer.written() > before;
  }

  FlowWriter writer;

 private:
  void beginBatch(std::deque<Item>& sent) {
    const size_t nRecords = random_() % 3 == 0 ? 300 : random_() % 4;
    const size_t nChunks = random_() % 2 == 0 ? 0 : 1 + random_() % FlowWriter::kMostChunks;
    std::vector<uint8_t> records;
    for (size_t i = 0; i < std::max<size_t>(nRecords, nChunks == 0); ++i) {
      sent.push_back(randomItem(random_, false));
      append(records, sent.back().record);
    }
    uint64_t end = writer.written() + records.size();
    writer.begin(records);
    EXPECT_TRUE(records.empty());
    payloads_.clear();
    starts_.clear();
    ends_.clear();
    for (size_t i = 0; i < nChunks; ++i) {
      sent.push_back(randomItem(random_, true));
      // As where a checksum is added later.
      const bool isChanged = random_() % 4 == 0;
      writer.addChunk(
          isChanged ? std::array<uint8_t, kRecordBytes>{} : encodeRecord(sent.back().record),
          sent.back().record.length);
      if (isChanged) writer.replaceRecord(i, encodeRecord(sent.back().record));
      payloads_.push_back(sent.back().payload);
      ends_.push_back(end += kRecordBytes + sent.back().payload.size());
      EXPECT_EQ(writer.endOf(i), end);
    }
    if (nChunks > 0 && random_() % 3 == 0) takeBack(sent, random_() % nChunks);
    for (const auto& payload : payloads_) starts_.push_back(payload.data());
  }

  // Of the batch that has just begun.
  void takeBack(std::deque<Item>& sent, size_t chunk) {
    const uint64_t bytes = kRecordBytes + payloads_[chunk].size();
    EXPECT_TRUE(writer.takeBack(chunk));
    sent.erase(sent.end() - static_cast<ptrdiff_t>(payloads_.size() - chunk));
    payloads_.erase(payloads_.begin() + static_cast<ptrdiff_t>(chunk));
    ends_.erase(ends_.begin() + static_cast<ptrdiff_t>(chunk));
    for (size_t i = chunk; i < ends_.size(); ++i) EXPECT_EQ(writer.endOf(i), ends_[i] -= bytes);
  }

  std::mt19937& random_;
  std::vector<std::vector<char>> payloads_;
  std::vector<const char*> starts_;
  std::vector<uint64_t> ends_;  // of the chunks
};

// Reads what a Sender wrote, as the link does; drops some payloads, or the rest of some.
class Receiver {
 public:
  Receiver(const Socket& socket, std::mt19937& random) : reader(socket), random_(random) {}

  // One read; false where nothing is there.
  bool step(std::deque<Item>& sent) {
    const auto io = reader.read(place());
    EXPECT_TRUE(io.ok()) << io.error().message;
    if (!io.ok() || io.value() == Io::blocked) return false;
    digest(sent);
    return true;
  }

  size_t nChecked() const { return nChecked_; }
  FlowReader reader;

 private:
  // Where the rest of the payload goes; from some point on, for some payloads, nowhere.
  char* place() {
    if (isOpen_ && random_() % 8 == 0) isDropped_ = true;
    return isDropped_ || !isOpen_ ? nullptr
                                  : payload_.data() + payload_.size() - reader.payloadLeft();
  }

  void digest(std::deque<Item>& sent) {
    while (true) {
      if (isOpen_ && reader.payloadLeft() > 0) reader.takeStaged(place());
      if (isOpen_ && reader.payloadLeft() > 0) {
        const auto early = reader.next();
        ASSERT_TRUE(early.ok() && !early.value()) << "a record inside of a payload";
        return;
      }
      if (isOpen_) finish(sent);
      const auto record = reader.next();
      ASSERT_TRUE(record.ok()) << record.error().message;
      if (!record.value()) return;
      ASSERT_FALSE(sent.empty());
      ASSERT_EQ(*record.value(), sent.front().record);
      isOpen_ = true;
      isDropped_ = false;
      payload_.assign(record.value()->payloadBytes(), 0);
      ASSERT_EQ(reader.payloadLeft(), payload_.size());
    }
  }

  void finish(std::deque<Item>& sent) {
    ASSERT_TRUE(isDropped_ || payload_ == sent.front().payload);
    nChecked_ += !isDropped_;
    sent.pop_front();
    isOpen_ = false;
  }

  std::mt19937& random_;
  std::vector<char> payload_;
  bool isOpen_ = false;  // a record came whose payload is not through
  bool isDropped_ = false;
  size_t nChecked_ = 0;
};

// Moves `steps` random steps of either end, then all that is still under way.
void converse(Ends& ends, uint32_t seed, int steps) {
  std::mt19937 random(seed);
  Sender sender(ends.here, random);
  Receiver receiver(ends.there, random);
  std::deque<Item> sent;
  for (int i = 0; i < steps; ++i) {
    random() % 2 == 0 ? sender.step(sent) : receiver.step(sent);
    if (testing::Test::HasFatalFailure()) return;
  }
  const Deadline deadline = deadlineIn(std::chrono::seconds(20));
  while (!sender.writer.isIdle() || !sent.empty()) {
    ASSERT_LT(Clock::now(), deadline);
    if (!sender.writer.isIdle()) sender.step(sent);
    receiver.step(sent);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(receiver.nChecked(), 100u);
  EXPECT_EQ(receiver.reader.received(), sender.writer.written());
}

TEST(FlowIo, CarriesRecordsAndPayloadsInWhateverPieces) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Ends ends = seed % 2 == 0 ? connectedWithSmallBuffer() : connected();
    converse(ends, seed, 3000);
    if (HasFailure()) return;
  }
}

// The whole stream in pieces of random size, so that every boundary is cut somewhere.
TEST(FlowReader, StandsEveryCut) {
  std::mt19937 random(77);
  Ends ends = connected();
  Receiver receiver(ends.there, random);
  std::deque<Item> sent;
  std::vector<uint8_t> stream;
  for (int i = 0; i < 300; ++i) {
    sent.push_back(randomItem(random, i % 2 == 0));
    append(stream, sent.back().record);
    stream.insert(stream.end(), sent.back().payload.begin(), sent.back().payload.end());
  }
  const Deadline deadline = deadlineIn(std::chrono::seconds(20));
  for (size_t at = 0; at < stream.size() || !sent.empty();) {
    ASSERT_LT(Clock::now(), deadline);
    const size_t want = 1 + random() % (random() % 4 == 0 ? 60000 : 50);
    const auto n = sendSome(ends.here, stream.data() + at, std::min(want, stream.size() - at));
    ASSERT_TRUE(n.ok());
    at += n.value();
    receiver.step(sent);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(receiver.nChecked(), 150u);
  EXPECT_EQ(receiver.reader.received(), stream.size());
}

// A caller that believes it reads no further until bytes can be there.
TEST(FlowReader, KnowsThatNothingIsLeft) {
  constexpr size_t kRecords = 150;  // more than a read takes
  Ends ends = connected();
  FlowReader reader(ends.there);
  std::vector<uint8_t> stream;
  for (uint32_t i = 0; i < kRecords; ++i) append(stream, {.type = RecordType::done, .message = i});
  ASSERT_EQ(sendSome(ends.here, stream.data(), stream.size()).value(), stream.size());
  size_t nRecords = 0;
  while (nRecords < kRecords) {
    ASSERT_EQ(reader.read(nullptr).value(), Io::moved);
    EXPECT_EQ(reader.isDrained(), reader.received() == stream.size());
    while (reader.next().value()) ++nRecords;
  }
  EXPECT_EQ(reader.read(nullptr).value(), Io::blocked);
}

// Reads until there is a record, or an error.
Result<Record> awaitRecord(const Socket& socket, FlowReader& reader) {
  while (true) {
    const auto record = reader.next();
    if (!record) return record.error();
    if (record.value()) return *record.value();
    EXPECT_TRUE(waitReadable(socket, deadlineIn(std::chrono::seconds(5))).value());
    const auto io = reader.read(nullptr);
    if (!io) return io.error();
  }
}

TEST(FlowReader, RefusesBytesThatAreNoRecord) {
  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    Ends ends = connected();
    std::vector<uint8_t> bytes;
    append(bytes, {.type = RecordType::ping, .message = 5});
    append(bytes, {.type = RecordType::ping, .message = 6});
    bytes[kRecordBytes + random() % kRecordBytes] ^= static_cast<uint8_t>(1 << random() % 8);
    ASSERT_EQ(sendSome(ends.here, bytes.data(), bytes.size()).value(), bytes.size());
    FlowReader reader(ends.there);
    const auto good = awaitRecord(ends.there, reader);
    ASSERT_TRUE(good.ok());
    EXPECT_EQ(good.value().message, 5u);
    const auto bad = awaitRecord(ends.there, reader);
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().status, Status::remoteError);
    EXPECT_FALSE(reader.next().ok()) << "it stays an error";
  }
}

TEST(FlowReader, TellsThatThePeerHasGoneOnceAllIsRead) {
  const Record chunk{.type = RecordType::chunk, .length = 1000, .total = 1000};
  for (const size_t n : {0, 39, 40, 41, 900}) {
    Ends ends = connected();
    std::vector<uint8_t> bytes;
    append(bytes, chunk);
    bytes.resize(1040);
    ASSERT_EQ(sendSome(ends.here, bytes.data(), n).value(), n);
    ends.here = Socket();
    FlowReader reader(ends.there);
    const auto record = awaitRecord(ends.there, reader);
    ASSERT_EQ(record.ok(), n >= kRecordBytes);
    if (record.ok()) reader.takeStaged(nullptr);
    const auto end = reader.read(nullptr);
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().message, "closed by the peer");
    EXPECT_EQ(reader.received(), n);
  }
}

TEST(FlowReader, IsBlockedWhereNothingIs) {
  Ends ends = connected();
  FlowReader reader(ends.there);
  for (int i = 0; i < 3; ++i) {
    const auto io = reader.read(nullptr);
    ASSERT_TRUE(io.ok());
    EXPECT_EQ(io.value(), Io::blocked);
    EXPECT_FALSE(reader.next().value());
  }
}

TEST(FlowWriter, IsBlockedWhereThePeerReadsNothing) {
  Ends ends = connectedWithSmallBuffer();
  FlowWriter writer(ends.here);
  EXPECT_TRUE(writer.isIdle());
  EXPECT_EQ(writer.queued(), 0u);
  const std::vector<char> payload(64 << 20, 'p');
  std::vector<uint8_t> records;
  writer.begin(records);
  writer.addChunk({}, static_cast<uint32_t>(payload.size()));
  const char* const start = payload.data();
  while (true) {
    const auto io = writer.write({&start, 1});
    ASSERT_TRUE(io.ok());
    if (io.value() == Io::blocked) break;
  }
  EXPECT_FALSE(writer.isIdle());
  EXPECT_GT(writer.queued(), 0u);
  EXPECT_LE(writer.queued(), writer.written());
  EXPECT_EQ(writer.currentChunk(), 0u);
  EXPECT_EQ(writer.endOf(0), payload.size() + kRecordBytes);
  EXPECT_LT(writer.written(), writer.endOf(0));
}

TEST(FlowWriter, TakesBackOnlyWhatHasNotBegun) {
  Ends ends = connectedWithSmallBuffer();
  FlowWriter writer(ends.here);
  const std::vector<char> payload(8 << 20, 'p');
  std::vector<uint8_t> records;
  writer.begin(records);
  for (int i = 0; i < 3; ++i) writer.addChunk({}, static_cast<uint32_t>(payload.size()));
  const char* const starts[] = {payload.data(), payload.data(), payload.data()};
  ASSERT_TRUE(writer.write(starts).ok());
  EXPECT_FALSE(writer.takeBack(0));
  EXPECT_TRUE(writer.takeBack(1));
  EXPECT_TRUE(writer.takeBack(1));
  EXPECT_FALSE(writer.takeBack(0));
  for (const Deadline deadline = deadlineIn(std::chrono::seconds(20)); !writer.isIdle();) {
    ASSERT_LT(Clock::now(), deadline);
    ASSERT_TRUE(writer.write({starts, 1}).ok());
    std::vector<char> read(1 << 20);
    recv(ends.there.fd(), read.data(), read.size(), MSG_DONTWAIT);
  }
  EXPECT_EQ(writer.written(), payload.size() + kRecordBytes);
}

TEST(FlowWriter, IsIdleWhereAllWasTakenBack) {
  Ends ends = connected();
  FlowWriter writer(ends.here);
  std::vector<uint8_t> records;
  writer.begin(records);
  writer.addChunk({}, 100);
  EXPECT_TRUE(writer.takeBack(0));
  EXPECT_TRUE(writer.isIdle());
}

TEST(FlowWriter, SeesWhatThePeersKernelHas) {
  Ends ends = connected();
  FlowWriter writer(ends.here);
  std::vector<uint8_t> records(kRecordBytes, 'r');
  writer.begin(records);
  ASSERT_TRUE(writer.write({}).ok());
  EXPECT_TRUE(writer.isIdle());
  EXPECT_EQ(writer.written(), kRecordBytes);
  const Deadline deadline = deadlineIn(std::chrono::seconds(5));
  while (writer.queued() > 0)
    ASSERT_LT(Clock::now(), deadline) << "nobody has read, but it is there";
}

TEST(FlowWriter, APeerThatHasGoneIsAnErrorAndNoSignal) {
  Ends ends = connected();
  ends.there = Socket();
  FlowWriter writer(ends.here);
  const std::vector<char> payload(kMaxChunkBytes);
  bool failed = false;  // SIGPIPE would end this process
  for (const Deadline deadline = deadlineIn(std::chrono::seconds(5)); !failed;) {
    ASSERT_LT(Clock::now(), deadline);
    std::vector<uint8_t> records;
    if (writer.isIdle()) {
      writer.begin(records);
      writer.addChunk({}, kMaxChunkBytes);
    }
    const char* const start = payload.data();
    const auto io = writer.write({&start, 1});
    failed = !io.ok();
    EXPECT_TRUE(!failed || io.error().status == Status::remoteError);
  }
}

}  // namespace
}  // namespace cinch::net
