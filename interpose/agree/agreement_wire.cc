#include "interpose/agree/agreement_wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {
namespace {

constexpr uint32_t kFrameMagic = 0x52474143;  // "CAGR"
constexpr size_t kHeaderBytes = 16;

constexpr size_t kMaxSettings = 4096;
constexpr size_t kMaxName = 255;
constexpr size_t kMaxReason = 2048;

constexpr uint32_t kFirstVersionWithParent = 2;
constexpr uint32_t kFirstVersionWithDevice = 5;
constexpr uint32_t kFirstVersionWithServer = 7;
constexpr uint32_t kFirstVersionWithKey = 10;

static_assert(kMaxHelloBytes > kMaxSettings + 3 * kMaxName + kMaxReason + 160);
static_assert(kMaxRankBytes > 2 * kMaxAddresses * 17 + 16);
static_assert(kMaxRankBytes > kMaxDecided + 32);
static_assert(kMaxServerBytes > kMaxRanks * sizeof(uint64_t) + kMaxReason + kMaxName + 48);

// More calls than any program makes, and more than it makes while others answer; so that sums do
// not overflow.
constexpr uint64_t kMostCalls = uint64_t{1} << 60;
constexpr uint64_t kMostLead = uint64_t{1} << 32;
constexpr uint64_t kMostStride = uint64_t{1} << 32;
constexpr size_t kLeastDecisionBytes = sizeof(uint64_t) + sizeof(uint32_t);

// The alternatives of Message in order. Those up to the handshake result never change their
// numbers, which ranks of other versions know, too.
uint32_t typeOf(const Message& message) {
  return static_cast<uint32_t>(message.index()) + 1;
}

class Writer {
 public:
  template <std::unsigned_integral T>
  void integer(T value) {
    uint8_t bytes[sizeof(T)];
    storeLittle(value, bytes);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  void text(std::string_view value, size_t limit) {
    value = value.substr(0, limit);
    integer(static_cast<uint32_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  void addresses(const std::vector<IpAddress>& list) {
    size_t n = std::min(list.size(), kMaxAddresses);
    integer(static_cast<uint32_t>(n));
    for (size_t i = 0; i < n; ++i) {
      integer(static_cast<uint8_t>(list[i].family));
      bytes_.insert(bytes_.end(), list[i].bytes.begin(), list[i].bytes.end());
    }
  }
  // Of a family, or none.
  void endpoint(const Endpoint& where) {
    integer(static_cast<uint8_t>(where.address.family));
    bytes_.insert(bytes_.end(), where.address.bytes.begin(), where.address.bytes.end());
    integer(where.address.scope);
    integer(where.port);
  }
  void bytes(const Bytes& value, size_t limit) {
    const size_t n = std::min(value.size(), limit);
    integer(static_cast<uint32_t>(n));
    bytes_.insert(bytes_.end(), value.begin(), value.begin() + static_cast<ptrdiff_t>(n));
  }
  template <size_t N>
  void array(const std::array<uint8_t, N>& value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Reads within bounds; after the first thing that does not fit all reads give zeros and ok() is
// false, so that callers check once at the end.
class Reader {
 public:
  Reader(const uint8_t* bytes, size_t n) : at_(bytes), left_(n) {}

  template <std::unsigned_integral T>
  T integer() {
    const uint8_t* bytes = take(sizeof(T));
    return bytes == nullptr ? T{0} : loadLittle<T>(bytes);
  }
  bool flag() {
    uint8_t value = integer<uint8_t>();
    require(value <= 1);
    return value == 1;
  }
  // Of a kind that only later versions know nothing is known here.
  Links links() {
    const uint8_t value = integer<uint8_t>();
    return value <= static_cast<uint8_t>(Links::nvlink) ? static_cast<Links>(value)
                                                        : Links::unknown;
  }
  Prepared::Answer answer() {
    const uint8_t value = integer<uint8_t>();
    require(value <= static_cast<uint8_t>(Prepared::Answer::busy));
    return ok_ ? static_cast<Prepared::Answer>(value) : Prepared::Answer{};
  }
  int rankNumber() {
    uint32_t value = integer<uint32_t>();
    require(value <= static_cast<uint32_t>(kMaxRanks));
    return ok_ ? static_cast<int>(value) : 0;
  }
  uint64_t upTo(uint64_t most) {
    const uint64_t value = integer<uint64_t>();
    require(value <= most);
    return ok_ ? value : 0;
  }
  uint64_t callNumberOrNone() {
    const uint64_t value = integer<uint64_t>();
    require(value <= kMostCalls || value == kNoOrdinal);
    return ok_ ? value : 0;
  }
  // Control characters become '?': a peer's text ends in our log.
  std::string text(size_t limit) {
    size_t n = count(limit, 1);
    const uint8_t* bytes = take(n);
    if (bytes == nullptr) return {};
    std::string value(reinterpret_cast<const char*>(bytes), n);
    std::replace_if(
        value.begin(), value.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return value;
  }
  Bytes bytes(size_t limit) {
    const size_t n = count(limit, 1);
    const uint8_t* first = take(n);
    return first == nullptr ? Bytes() : Bytes(first, first + n);
  }
  template <size_t N>
  std::array<uint8_t, N> array() {
    std::array<uint8_t, N> value{};
    if (const uint8_t* const bytes = take(N)) memcpy(value.data(), bytes, N);
    return value;
  }
  std::vector<IpAddress> addresses() {
    std::vector<IpAddress> list(count(kMaxAddresses, 17));
    for (IpAddress& address : list) address = ipAddress();
    return list;
  }
  Endpoint endpoint() {
    Endpoint where;
    const uint8_t family = integer<uint8_t>();
    require(family == 0 || family == 4 || family == 6);
    const uint8_t* bytes = take(16);
    where.address.scope = integer<uint32_t>();
    where.port = integer<uint16_t>();
    if (!ok_ || family == 0) return {};
    where.address.family = static_cast<Family>(family);
    memcpy(where.address.bytes.data(), bytes, 16);
    return where;
  }
  // A count of things of `size` bytes each, all of which are there.
  size_t count(size_t limit, size_t size) {
    size_t n = integer<uint32_t>();
    require(n <= limit && n * size <= left_);
    return ok_ ? n : 0;
  }
  void end() { require(left_ == 0); }
  bool ok() const { return ok_; }

 private:
  IpAddress ipAddress() {
    IpAddress address;
    uint8_t family = integer<uint8_t>();
    require(family == 4 || family == 6);
    const uint8_t* bytes = take(16);
    if (!ok_) return {};
    address.family = static_cast<Family>(family);
    memcpy(address.bytes.data(), bytes, 16);
    return address;
  }
  void require(bool condition) { ok_ = ok_ && condition; }
  const uint8_t* take(size_t n) {
    require(n <= left_);
    if (!ok_) return nullptr;
    const uint8_t* bytes = at_;
    at_ += n;
    left_ -= n;
    return bytes;
  }

  const uint8_t* at_;
  size_t left_;
  bool ok_ = true;
};

void write(const HelloMessage& message, Writer& out) {
  const Hello& hello = message.hello;
  out.integer(message.nonce);
  out.integer(hello.version);
  out.integer(static_cast<uint32_t>(hello.rank));
  out.integer(static_cast<uint32_t>(hello.nRanks));
  out.integer(hello.settingsHash);
  out.integer(hello.hostId);
  out.text(hello.host, kMaxName);
  out.text("", kMaxName);  // the process, in version 1
  out.text(hello.refusal, kMaxReason);
  out.text(hello.settings, kMaxSettings);
  out.integer(message.parent);
  out.integer(static_cast<uint8_t>(hello.links));
  out.integer(hello.device);
  out.text(hello.communicator, kMaxName);
  out.endpoint(hello.server);
  out.array(message.number);
  out.array(message.proof);
}

Message readHello(Reader& in) {
  HelloMessage message;
  Hello& hello = message.hello;
  message.nonce = in.integer<uint64_t>();
  hello.version = in.integer<uint32_t>();
  hello.rank = in.rankNumber();
  hello.nRanks = in.rankNumber();
  hello.settingsHash = in.integer<uint64_t>();
  hello.hostId = in.integer<uint64_t>();
  hello.host = in.text(kMaxName);
  in.text(kMaxName);  // the process, in version 1
  hello.refusal = in.text(kMaxReason);
  hello.settings = in.text(kMaxSettings);
  if (hello.version >= kFirstVersionWithParent) message.parent = in.integer<uint64_t>();
  if (hello.version >= kFirstVersionWithDevice) {
    hello.links = in.links();
    hello.device = in.integer<uint64_t>();
    hello.communicator = in.text(kMaxName);
  }
  if (hello.version >= kFirstVersionWithServer) hello.server = in.endpoint();
  if (hello.version >= kFirstVersionWithKey) {
    message.number = in.array<sizeof(Random)>();
    message.proof = in.array<sizeof(Proof)>();
  }
  if (hello.version <= kAgreementVersion) in.end();
  return message;
}

void write(const Initialised& message, Writer& out) {
  out.addresses(message.own);
  out.addresses(message.peers);
}

Message readInitialised(Reader& in) {
  Initialised message;
  message.own = in.addresses();
  message.peers = in.addresses();
  in.end();
  return message;
}

void write(const Vote& message, Writer& out) {
  out.integer(message.topic);
  out.integer(static_cast<uint8_t>(message.yes ? 1 : 0));
  out.bytes(message.bytes, kMaxDecided);
}

Message readVote(Reader& in) {
  Vote message;
  message.topic = in.integer<uint64_t>();
  message.yes = in.flag();
  message.bytes = in.bytes(kMaxDecided);
  in.end();
  return message;
}

void write(const Acknowledged& message, Writer& out) {
  out.array(message.proof);
}

Message readAcknowledged(Reader& in) {
  const Acknowledged message{in.array<sizeof(Proof)>()};
  in.end();
  return message;
}

void write(const Rejected& message, Writer& out) {
  out.text(message.reason, kMaxReason);
}

Message readRejected(Reader& in) {
  Rejected message{in.text(kMaxReason)};
  in.end();
  return message;
}

// A no goes to ranks of other versions too, and never changes its fields.
void write(const Verdict& message, Writer& out) {
  out.integer(static_cast<uint8_t>(message.compress ? 1 : 0));
  out.text(message.reason, kMaxReason);
  out.integer(static_cast<uint32_t>(message.hostIds.size()));
  for (uint64_t hostId : message.hostIds) out.integer(hostId);
  if (!message.compress) return;
  out.integer(static_cast<uint8_t>(message.links));
  out.text(message.communicator, kMaxName);
  out.endpoint(message.server);
}

Message readVerdict(Reader& in) {
  Verdict message;
  message.compress = in.flag();
  message.reason = in.text(kMaxReason);
  message.hostIds.resize(in.count(kMaxRanks, sizeof(uint64_t)));
  for (uint64_t& hostId : message.hostIds) hostId = in.integer<uint64_t>();
  if (message.compress) {
    message.links = in.links();
    message.communicator = in.text(kMaxName);
    message.server = in.endpoint();
  }
  in.end();
  return message;
}

void write(const Leave&, Writer&) {}

// Of messages that say nothing but that they are there.
template <class T>
Message readEmpty(Reader& in) {
  in.end();
  return T{};
}

void write(const Figures& message, Writer& out) {
  const size_t n = std::min(message.values.size(), kMaxFigures);
  out.integer(message.topic);
  out.integer(static_cast<uint32_t>(n));
  for (size_t i = 0; i < n; ++i) out.integer(message.values[i]);
}

Message readFigures(Reader& in) {
  Figures message;
  message.topic = in.integer<uint64_t>();
  message.values.resize(in.count(kMaxFigures, sizeof(uint64_t)));
  for (uint64_t& value : message.values) value = in.integer<uint64_t>();
  in.end();
  return message;
}

void write(const Proposal& message, Writer& out) {
  out.integer(message.topic);
  out.integer(message.ordinal);
  out.bytes(message.bytes, kMaxDecided);
}

Message readProposal(Reader& in) {
  Proposal message;
  message.topic = in.integer<uint64_t>();
  message.ordinal = in.callNumberOrNone();
  message.bytes = in.bytes(kMaxDecided);
  in.end();
  return message;
}

void write(const Prepare& message, Writer& out) {
  out.integer(message.round);
  out.integer(message.ordinal);
  out.integer(static_cast<uint8_t>(message.insists ? 1 : 0));
}

Message readPrepare(Reader& in) {
  Prepare message;
  message.round = in.integer<uint64_t>();
  message.ordinal = in.integer<uint64_t>();
  message.insists = in.flag();
  in.end();
  return message;
}

void write(const Prepared& message, Writer& out) {
  out.integer(message.round);
  out.integer(static_cast<uint8_t>(message.answer));
  out.integer(message.claimed);
  out.integer(message.lead);
}

Message readPrepared(Reader& in) {
  Prepared message;
  message.round = in.integer<uint64_t>();
  message.answer = in.answer();
  message.claimed = in.upTo(kMostCalls);
  message.lead = in.upTo(kMostLead);
  in.end();
  return message;
}

void write(const Commit& message, Writer& out) {
  out.integer(message.round);
  out.integer(message.ordinal);
  out.integer(static_cast<uint32_t>(message.decisions.size()));
  for (const Decision& decision : message.decisions) {
    out.integer(decision.topic);
    out.bytes(decision.bytes, kMaxDecidedBytes);
  }
}

Message readCommit(Reader& in) {
  Commit message;
  message.round = in.integer<uint64_t>();
  message.ordinal = in.integer<uint64_t>();
  message.decisions.resize(in.count(kMaxServerBytes, kLeastDecisionBytes));
  for (Decision& decision : message.decisions) {
    decision.topic = in.integer<uint64_t>();
    decision.bytes = in.bytes(kMaxDecidedBytes);
  }
  in.end();
  return message;
}

void write(const Withdraw& message, Writer& out) {
  out.integer(message.round);
  out.integer(message.openBelow);
}

Message readWithdraw(Reader& in) {
  Withdraw message;
  message.round = in.integer<uint64_t>();
  message.openBelow = in.integer<uint64_t>();
  in.end();
  return message;
}

// Of messages that name a topic and nothing else.
template <class T>
Message readTopic(Reader& in) {
  T message;
  message.topic = in.integer<uint64_t>();
  in.end();
  return message;
}

void write(const Retraction& message, Writer& out) {
  out.integer(message.topic);
}

void write(const Missed& message, Writer& out) {
  out.integer(message.topic);
}

void write(const Trail& message, Writer& out) {
  const size_t n = std::min(message.hashes.size(), kMaxTrail);
  out.integer(message.first);
  out.integer(message.stride);
  out.integer(static_cast<uint32_t>(n));
  for (size_t i = 0; i < n; ++i) out.integer(message.hashes[i]);
}

Message readTrail(Reader& in) {
  Trail message;
  message.first = in.upTo(kMostCalls);
  message.stride = in.upTo(kMostStride);
  message.hashes.resize(in.count(kMaxTrail, sizeof(uint64_t)));
  for (uint64_t& hash : message.hashes) hash = in.integer<uint64_t>();
  in.end();
  return message;
}

void write(const Difference& message, Writer& out) {
  out.integer(message.alike);
  out.integer(message.differs);
  out.integer(message.rank);
  out.integer(message.other);
}

Message readDifference(Reader& in) {
  Difference message;
  message.alike = in.upTo(kMostCalls);
  message.differs = in.upTo(kMostCalls);
  message.rank = in.integer<uint32_t>();
  message.other = in.integer<uint32_t>();
  in.end();
  return message;
}

void write(const Inquiry& message, Writer& out) {
  out.integer(message.round);
  write(message.from, out);
}

Message readInquiry(Reader& in) {
  const uint64_t round = in.integer<uint64_t>();
  return Inquiry{std::get<HelloMessage>(readHello(in)), round};
}

using ReadFunction = Message (*)(Reader&);
constexpr ReadFunction kReaders[] = {
    readHello,   readInitialised, readVote,         readAcknowledged,      readRejected,
    readVerdict, readFigures,     readProposal,     readPrepare,           readPrepared,
    readCommit,  readWithdraw,    readEmpty<Leave>, readTopic<Retraction>, readTopic<Missed>,
    readTrail,   readDifference,  readInquiry};
static_assert(std::size(kReaders) == std::variant_size_v<Message>);

}  // namespace

uint64_t childNonce(uint64_t parent, uint64_t ordinal, int64_t part) {
  uint8_t bytes[3 * sizeof(uint64_t)];
  storeLittle(parent, bytes);
  storeLittle(ordinal, bytes + sizeof(uint64_t));
  storeLittle(static_cast<uint64_t>(part), bytes + 2 * sizeof(uint64_t));
  return hashBytes(bytes, sizeof bytes);
}

Bytes encodeMessage(const Message& message, Channel channel) {
  Writer payload;
  std::visit([&](const auto& fields) { write(fields, payload); }, message);
  Bytes body = payload.take();
  Writer frame;
  frame.integer(kFrameMagic);
  frame.integer(typeOf(message));
  frame.integer(static_cast<uint32_t>(body.size()));
  frame.integer(channel);
  Bytes bytes = frame.take();
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

void MessageReader::append(const uint8_t* bytes, size_t n) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(done_));
  done_ = 0;
  bytes_.insert(bytes_.end(), bytes, bytes + n);
}

Result<std::optional<Frame>> MessageReader::next() {
  const uint8_t* frame = bytes_.data() + done_;
  size_t there = bytes_.size() - done_;
  if (there == 0) return std::optional<Frame>();
  // A stranger is recognised by its first bytes, not after sixteen that may never come.
  uint8_t magic[4];
  storeLittle(kFrameMagic, magic);
  if (memcmp(frame, magic, std::min<size_t>(there, 4)) != 0) {
    return errorf(Status::remoteError, "it does not speak Cinch's agreement protocol");
  }
  if (there < kHeaderBytes) return std::optional<Frame>();
  uint32_t type = loadLittle<uint32_t>(frame + 4);
  uint32_t n = loadLittle<uint32_t>(frame + 8);
  if (type == 0 || type > std::size(kReaders) || n > maxPayload_) {
    return errorf(Status::remoteError, "a message of type %u and %u bytes is refused", type, n);
  }
  if (there < kHeaderBytes + n) return std::optional<Frame>();
  Reader in(frame + kHeaderBytes, n);
  Message message = kReaders[type - 1](in);
  if (!in.ok()) return errorf(Status::remoteError, "a message of type %u is malformed", type);
  done_ += kHeaderBytes + n;
  return std::optional(Frame{loadLittle<uint32_t>(frame + 12), std::move(message)});
}

}  // namespace cinch
