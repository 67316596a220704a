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

Result<void> AgreementConnection::send(const Bytes& frame) {
  if (output_.size() + frame.size() > kMaxOutput) {
    return errorf(Status::remoteError, "it does not read what it is sent");
  }
  output_.insert(output_.end(), frame.begin(), frame.end());
  return flush();
}

Result<void> AgreementConnection::flush() {
  auto sent = sendSome(socket_, output_.data(), output_.size());
  CINCH_TRY(sent);
  output_.erase(output_.begin(), output_.begin() + static_cast<ptrdiff_t>(sent.value()));
  return {};
}

}  // namespace cinch
