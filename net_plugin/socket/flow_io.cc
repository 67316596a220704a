#include "net_plugin/socket/flow_io.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace cinch::net {
namespace {

// With a payload this long still to come, reading ahead would only mean to copy twice.
constexpr uint32_t kLongPayload = 8 << 10;

bool wouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

void FlowWriter::begin(std::vector<uint8_t>& records) {
  records_.swap(records);
  records.clear();
  chunks_.clear();
  start_ = written();
  done_ = chunk_ = payloadDone_ = 0;
}

void FlowWriter::addChunk(const std::array<uint8_t, kRecordBytes>& record, uint32_t payloadBytes) {
  records_.insert(records_.end(), record.begin(), record.end());
  chunks_.push_back({records_.size(), payloadBytes});
}

void FlowWriter::replaceRecord(size_t chunk, const std::array<uint8_t, kRecordBytes>& record) {
  const size_t end = chunks_[chunk].recordsEnd;
  std::copy(record.begin(), record.end(), records_.begin() + (end - kRecordBytes));
}

bool FlowWriter::takeBack(size_t chunk) {
  const size_t end = chunks_[chunk].recordsEnd;
  if (chunk < chunk_ || done_ > end - kRecordBytes) return false;
  records_.erase(records_.begin() + (end - kRecordBytes), records_.begin() + end);
  chunks_.erase(chunks_.begin() + chunk);
  for (size_t i = chunk; i < chunks_.size(); ++i) chunks_[i].recordsEnd -= kRecordBytes;
  return true;
}

uint64_t FlowWriter::endOf(size_t chunk) const {
  uint64_t end = start_ + chunks_[chunk].recordsEnd;
  for (size_t i = 0; i <= chunk; ++i) end += chunks_[i].payloadBytes;
  return end;
}

// All that is left, to be written in one call. Returns the number of pieces.
size_t FlowWriter::gather(std::span<const char* const> payloads, iovec* pieces) {
  size_t n = 0, done = done_, payloadDone = payloadDone_;
  const auto addRecords = [&](size_t end) {
    pieces[n++] = {records_.data() + done, end - done};
    done = end;
  };
  for (size_t i = chunk_; i < chunks_.size(); ++i) {
    addRecords(chunks_[i].recordsEnd);
    char* const payload = const_cast<char*>(payloads[i]);  // sendmsg only reads
    pieces[n++] = {payload + payloadDone, chunks_[i].payloadBytes - payloadDone};
    payloadDone = 0;
  }
  if (n == 0) addRecords(records_.size());
  return n;
}

// Records and payloads, or as much as the kernel takes.
ssize_t FlowWriter::push(std::span<const char* const> payloads) {
  const bool isLong = chunk_ < chunks_.size() &&
                      chunks_[chunk_].payloadBytes - payloadDone_ >= ZeroCopy::kLeastBytes;
  const bool apart = zeroCopy_.isOn() && isLong;
  if (apart && done_ == chunks_[chunk_].recordsEnd) return pushPayload(payloads[chunk_]);
  iovec pieces[2 * kMostChunks];
  const size_t n = gather(payloads, pieces);
  msghdr message{};
  message.msg_iov = pieces;
  // Records must be copied: they change with the next write.
  message.msg_iovlen = apart ? 1 : n;
  return sendmsg(socket_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | (apart ? MSG_MORE : 0));
}

// The rest of the current chunk's.
ssize_t FlowWriter::pushPayload(const char* payload) {
  listen();
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const char* const rest = payload + payloadDone_;
  const size_t nBytes = chunks_[chunk_].payloadBytes - payloadDone_;
  const ssize_t sent = send(socket_.fd(), rest, nBytes, kFlags | MSG_ZEROCOPY);
  // Too many notices wait, or the process may not pin so many pages.
  if (sent < 0 && errno == ENOBUFS) return send(socket_.fd(), rest, nBytes, kFlags);
  if (sent > 0) zeroCopy_.wasSent();
  return sent;
}

void FlowWriter::advance(size_t nBytes) {
  while (true) {
    const bool isLast = chunk_ == chunks_.size();
    const size_t recordsEnd = isLast ? records_.size() : chunks_[chunk_].recordsEnd;
    const size_t ofRecords = std::min(nBytes, recordsEnd - done_);
    done_ += ofRecords;
    nBytes -= ofRecords;
    if (isLast || done_ < recordsEnd) return;
    const auto ofPayload = static_cast<uint32_t>(
        std::min<size_t>(nBytes, chunks_[chunk_].payloadBytes - payloadDone_));
    payloadDone_ += ofPayload;
    nBytes -= ofPayload;
    if (payloadDone_ < chunks_[chunk_].payloadBytes) return;
    ++chunk_;
    payloadDone_ = 0;
  }
}

Result<Io> FlowWriter::write(std::span<const char* const> payloads) {
  const ssize_t sent = push(payloads);
  if (sent < 0 && wouldBlock(errno)) return Io::blocked;
  if (sent < 0) return errorf(Status::remoteError, "%s", strerror(errno));
  advance(static_cast<size_t>(sent));
  written_ += sent;
  return Io::moved;
}

uint64_t FlowWriter::queued() const {
  int bytes = 0;
  return ioctl(socket_.fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0 ? bytes : 0;
}

Clock::duration FlowWriter::roundTrip() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  getsockopt(socket_.fd(), IPPROTO_TCP, TCP_INFO, &info, &length);
  return std::chrono::microseconds(info.tcpi_rtt);
}

Result<std::optional<Record>> FlowReader::next() {
  if (payloadLeft_ > 0 || end_ - begin_ < kRecordBytes) return std::optional<Record>();
  const auto record =
      parseRecord(std::span<const uint8_t, kRecordBytes>(stage_.data() + begin_, kRecordBytes));
  if (!record) return errorf(Status::remoteError, "bytes that are no record");
  begin_ += kRecordBytes;
  payloadLeft_ = record->payloadBytes();
  return record;
}

uint32_t FlowReader::takeStaged(char* payload) {
  const uint32_t n = static_cast<uint32_t>(std::min<size_t>(payloadLeft_, end_ - begin_));
  if (payload != nullptr) memcpy(payload, stage_.data() + begin_, n);
  begin_ += n;
  payloadLeft_ -= n;
  return n;
}

Result<Io> FlowReader::judge(ssize_t got) {
  if (got > 0) {
    received_.store(received() + got, std::memory_order_relaxed);
    return Io::moved;
  }
  if (got < 0 && wouldBlock(errno)) return Io::blocked;
  return errorf(Status::remoteError, "%s", got == 0 ? "closed by the peer" : strerror(errno));
}

Result<Io> FlowReader::readDropping() {
  // Nothing is staged while bytes of a payload are missing.
  const ssize_t got = recv(socket_.fd(), stage_.data(),
                           std::min<size_t>(payloadLeft_, stage_.size()), MSG_DONTWAIT);
  const Result<Io> io = judge(got);
  if (io && io.value() == Io::moved) payloadLeft_ -= static_cast<uint32_t>(got);
  return io;
}

Result<Io> FlowReader::read(char* payload) {
  isDrained_ = false;
  if (payloadLeft_ > 0 && payload == nullptr) return readDropping();
  // What is staged is less than a record, and nothing of it belongs to a payload.
  memmove(stage_.data(), stage_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  return payloadLeft_ == 0 ? readAhead() : readPayload(payload);
}

Result<Io> FlowReader::readAhead() {
  const size_t room = stage_.size() - end_;
  const ssize_t got = recv(socket_.fd(), stage_.data() + end_, room, MSG_DONTWAIT);
  const Result<Io> io = judge(got);
  if (!io || io.value() == Io::blocked) return io;
  end_ += got;
  isDrained_ = static_cast<size_t>(got) < room;
  return io;
}

Result<Io> FlowReader::readPayload(char* payload) {
  const size_t ahead = payloadLeft_ > kLongPayload ? kRecordBytes : stage_.size() - end_;
  iovec parts[] = {{payload, payloadLeft_}, {stage_.data() + end_, ahead}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t got = recvmsg(socket_.fd(), &message, MSG_DONTWAIT);
  const Result<Io> io = judge(got);
  if (!io || io.value() == Io::blocked) return io;
  const uint32_t ofPayload = static_cast<uint32_t>(std::min<ssize_t>(got, payloadLeft_));
  payloadLeft_ -= ofPayload;
  end_ += got - ofPayload;
  return io;
}

}  // namespace cinch::net
