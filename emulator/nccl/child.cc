#include "emulator/nccl/child.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cinch::emulator {
namespace {

// The ranks make their choices known, then set up their new communicators all together.
constexpr int kRounds = 1 + kBootstrapRounds;

}  // namespace

std::vector<int> membersOf(const std::vector<Choice>& choices, int colour) {
  std::vector<int> members;
  for (size_t rank = 0; rank < choices.size(); ++rank) {
    if (choices[rank].colour == colour) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return choices[static_cast<size_t>(a)].key < choices[static_cast<size_t>(b)].key;
  });
  return members;
}

std::vector<int> remainingRanks(int nRanks, const std::vector<int>& excluded) {
  std::vector<int> remaining;
  for (int rank = 0; rank < nRanks; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
      remaining.push_back(rank);
    }
  }
  return remaining;
}

Result<std::unique_ptr<Maternity>> Maternity::open() {
  const Result<Interface> interface = chooseInterface();
  if (!interface) return interface.error();
  Address address = interface.value().address;
  Result<Descriptor> listener = listenOn(address);
  if (!listener) return listener.error();
  return std::unique_ptr<Maternity>(new Maternity(std::move(listener.value()), address));
}

// A root that waits for ranks which will not come any more goes first.
Result<void> Maternity::host(uint64_t nonce) {
  close();
  Descriptor copy(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.isOpen()) {
    return errorf(Status::systemError, "cannot share a listening socket: %s", strerror(errno));
  }
  root_ = std::make_unique<BootstrapRoot>(std::move(copy), nonce, kRounds);
  thread_ = std::thread([this] { root_->serve(); });
  return {};
}

void Maternity::close() {
  if (root_ != nullptr) root_->stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace cinch::emulator
