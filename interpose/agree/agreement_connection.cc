#include "interpose/agree/agreement_connection.h"

namespace cinch {
namespace {

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxOutput = 4 << 20;
static_assert(kMaxOutput > kMaxServerBytes);

}  // namespace

AgreementConnection::AgreementConnection(Accepted accepted)
    : socket_(std::move(accepted.socket)), from_(accepted.from.address) {
  tolerateOutages(socket_);
  input_.setLimit(kMaxHelloBytes);
}

Result<void> AgreementConnection::receive() {
  uint8_t bytes[kReadBytes];
  auto received = receiveSome(socket_, bytes, sizeof bytes);
  CINCH_TRY(received);
  input_.append(bytes, received.value());
  return {};
}

Result<void> AgreementConnection::send(SharedFrame frame) {
  if (nKept_ + frame->size() > kMaxOutput)
    return errorf(Status::remoteError, "it does not read what it is sent");
  nKept_ += frame->size();
  output_.push_back(std::move(frame));
  return flush();
}

Result<void> AgreementConnection::flush() {
  while (!output_.empty()) {
    const Bytes& frame = *output_.front();
    const auto sent = sendSome(socket_, frame.data() + nSent_, frame.size() - nSent_);
    CINCH_TRY(sent);
    nSent_ += sent.value();
    if (nSent_ < frame.size()) return {};
    nKept_ -= frame.size();
    nSent_ = 0;
    output_.pop_front();
  }
  return {};
}

}  // namespace cinch
