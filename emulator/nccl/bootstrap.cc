#include "emulator/nccl/bootstrap.h"

#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "common/param.h"
#include "emulator/nccl/bootstrap_root.h"
#include "emulator/nccl/debug.h"
#include "emulator/nccl/frame.h"

namespace cinch::emulator {
namespace {

constexpr auto kConnectPatience = std::chrono::seconds(10);
constexpr auto kSendPatience = std::chrono::seconds(30);
// Ids made from NCCL_COMM_ID must be the same in all processes.
constexpr uint64_t kNamedNonce = 0x64656d616e;

std::optional<std::string> namedRoot() {
  const char* text = environmentVariable("NCCL_COMM_ID");
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

uint64_t randomNonce() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

Result<void> startRoot(Address& address, uint64_t nonce) {
  Result<Descriptor> listener = listenOn(address);
  if (!listener) return listener.error();
  auto root = std::make_unique<BootstrapRoot>(std::move(listener.value()), nonce, kBootstrapRounds);
  std::thread([root = std::move(root)] { root->serve(); }).detach();
  return {};
}

FrameHello helloOf(const UniqueId& id, int rank, int nRanks) {
  FrameHello hello{};
  hello.nonce = id.nonce;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.pid = getpid();
  const std::string host = expandPath("%h");
  memcpy(hello.host, host.data(), std::min(host.size(), sizeof hello.host));
  return hello;
}

}  // namespace

ncclUniqueId packUniqueId(const UniqueId& id) {
  ncclUniqueId packed{};
  memcpy(packed.internal, &id, sizeof id);
  return packed;
}

Result<UniqueId> unpackUniqueId(const ncclUniqueId& packed) {
  UniqueId id;
  memcpy(&id, packed.internal, sizeof id);
  const bool known = id.root.family == AF_INET || id.root.family == AF_INET6;
  if (id.magic != UniqueId::kMagic || !known) {
    return errorf(Status::invalidArgument,
                  "the unique id was not made by this library's ncclGetUniqueId: do all ranks use "
                  "the same libnccl, and did the id reach them whole?");
  }
  return id;
}

Result<UniqueId> createUniqueId() {
  UniqueId id;
  if (const auto named = namedRoot()) {
    const Result<Address> address = parseAddress(*named);
    if (!address) return address.error();
    id.root = address.value();
    id.nonce = kNamedNonce;
    return id;
  }
  const Result<Interface> interface = chooseInterface();
  if (!interface) return interface.error();
  id.root = interface.value().address;
  logInfo("Bootstrap : Using %s:%s", interface.value().name.c_str(), addressText(id.root).c_str());
  id.nonce = randomNonce();
  CINCH_TRY(startRoot(id.root, id.nonce));
  return id;
}

Result<void> startNamedRoot(const UniqueId& id, int rank) {
  if (rank != 0 || id.nonce != kNamedNonce) return {};
  Address address = id.root;
  return startRoot(address, id.nonce);
}

Bootstrap::Bootstrap(Descriptor socket, int nRanks, const Cancellation& cancellation)
    : socket_(std::move(socket)),
      nRanks_(static_cast<size_t>(nRanks)),
      members_(nRanks_),
      cancellation_(&cancellation) {
  std::iota(members_.begin(), members_.end(), 0);
}

Result<Bootstrap> Bootstrap::join(const UniqueId& id, int rank, int nRanks,
                                  const Cancellation& cancellation) {
  // A living root listened before its id existed, unless NCCL_COMM_ID told everybody in advance.
  const Refusal refusal = id.nonce == kNamedNonce ? Refusal::isRetried : Refusal::isFinal;
  Result<Descriptor> socket = connectTo(id.root, Clock::now() + kConnectPatience, refusal);
  if (!socket) {
    return errorf(socket.error().status,
                  "bootstrap: %s (is the process that called ncclGetUniqueId still running, and "
                  "reachable through the interface it chose? NCCL_SOCKET_IFNAME chooses another)",
                  socket.error().message.c_str());
  }
  const FrameHello hello = helloOf(id, rank, nRanks);
  CINCH_TRY(writeFrame(socket.value().get(), FrameKind::hello, &hello, sizeof hello,
                       Clock::now() + kSendPatience));
  return Bootstrap(std::move(socket.value()), nRanks, cancellation);
}

Result<Shares> Bootstrap::exchange(const std::vector<char>& mine) {
  // Where this fails the root may have said why before it went: receive() tells.
  (void)writeFrame(socket_.get(), FrameKind::data, mine.data(), mine.size(),
                   Clock::now() + kSendPatience);
  const Result<std::vector<char>> all = receive();
  return all ? memberShares(all.value()) : all.error();
}

Result<Shares> Bootstrap::memberShares(const std::vector<char>& all) const {
  const std::optional<Shares> shares = splitShares(all);
  if (!shares || shares->size() != nRanks_) {
    return errorf(Status::internalError, "bootstrap: the root sent what is not the ranks' data");
  }
  Shares result;
  for (const int member : members_) result.push_back((*shares)[static_cast<size_t>(member)]);
  return result;
}

Result<std::vector<char>> Bootstrap::receive() {
  while (!cancellation_->isCancelled()) {
    const FrameReader::Outcome outcome = reader_.readFrom(socket_.get());
    if (std::optional<Frame> frame = reader_.take()) {
      if (frame->kind == FrameKind::data) return std::move(frame->payload);
      return errorf(Status::remoteError, "bootstrap: %.*s", static_cast<int>(frame->payload.size()),
                    frame->payload.data());
    }
    if (outcome != FrameReader::Outcome::waiting) {
      return errorf(Status::remoteError,
                    "lost the bootstrap root: the process that made the unique id has ended");
    }
    pollfd targets[] = {{socket_.get(), POLLIN, 0}, {cancellation_->descriptor(), POLLIN, 0}};
    poll(targets, 2, -1);
  }
  return errorf(Status::internalError, "bootstrap: given up, since the communicator was aborted");
}

Result<void> Bootstrap::check() {
  pollfd target{socket_.get(), POLLIN, 0};
  if (!cancellation_->isCancelled() && poll(&target, 1, 0) == 0) return {};
  // Nothing but bad news can arrive between two exchanges.
  const Result<std::vector<char>> news = receive();
  return news ? errorf(Status::internalError, "bootstrap: the root is out of step") : news.error();
}

}  // namespace cinch::emulator
