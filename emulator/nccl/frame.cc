#include "emulator/nccl/frame.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace cinch::emulator {
namespace {

constexpr uint32_t kMagic = 0x636e6266;
constexpr uint64_t kMaxPayload = uint64_t{1} << 30;
constexpr size_t kReadBytes = 64 << 10;

Result<void> writeAll(int fd, const char* bytes, size_t nBytes, Clock::time_point deadline) {
  while (nBytes > 0) {
    const ssize_t sent = send(fd, bytes, nBytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes += sent;
      nBytes -= sent;
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return errorf(Status::remoteError, "cannot send: %s", strerror(errno));
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd target{fd, POLLOUT, 0};
    if (left.count() <= 0 || poll(&target, 1, left.count()) == 0) {
      return errorf(Status::remoteError, "cannot send: the receiver does not read");
    }
  }
  return {};
}

}  // namespace

std::vector<char> joinShares(const Shares& shares) {
  std::vector<char> bytes;
  for (const std::vector<char>& share : shares) {
    const uint64_t size = share.size();
    const auto* raw = reinterpret_cast<const char*>(&size);
    bytes.insert(bytes.end(), raw, raw + sizeof size);
    bytes.insert(bytes.end(), share.begin(), share.end());
  }
  return bytes;
}

std::optional<Shares> splitShares(const std::vector<char>& bytes) {
  Shares shares;
  size_t position = 0;
  while (position < bytes.size()) {
    uint64_t size = 0;
    if (bytes.size() - position < sizeof size) return std::nullopt;
    memcpy(&size, bytes.data() + position, sizeof size);
    position += sizeof size;
    if (bytes.size() - position < size) return std::nullopt;
    const char* start = bytes.data() + position;
    shares.emplace_back(start, start + size);
    position += size;
  }
  return shares;
}

FrameHeader FrameReader::header() const {
  FrameHeader header;
  memcpy(&header, bytes_.data(), sizeof header);
  return header;
}

bool FrameReader::headerIsSane() const {
  return header().magic == kMagic && header().nBytes <= kMaxPayload;
}

FrameReader::Outcome FrameReader::readFrom(int fd) {
  while (true) {
    const size_t before = bytes_.size();
    bytes_.resize(before + kReadBytes);
    const ssize_t got = recv(fd, bytes_.data() + before, kReadBytes, MSG_DONTWAIT);
    const int error = errno;
    bytes_.resize(before + std::max<ssize_t>(got, 0));
    if (bytes_.size() >= sizeof(FrameHeader) && !headerIsSane()) return Outcome::malformed;
    if (got > 0) continue;
    const bool waiting = got < 0 && (error == EAGAIN || error == EINTR);
    return waiting ? Outcome::waiting : Outcome::closed;
  }
}

std::optional<Frame> FrameReader::take() {
  if (bytes_.size() < sizeof(FrameHeader) || !headerIsSane()) return std::nullopt;
  const FrameHeader head = header();
  const size_t total = sizeof head + head.nBytes;
  if (bytes_.size() < total) return std::nullopt;
  Frame frame{head.kind, {bytes_.begin() + sizeof head, bytes_.begin() + total}};
  bytes_.erase(bytes_.begin(), bytes_.begin() + total);
  return frame;
}

Result<void> writeFrame(int fd, FrameKind kind, const void* payload, size_t nBytes,
                        Clock::time_point deadline) {
  const FrameHeader header{kMagic, kind, nBytes};
  CINCH_TRY(writeAll(fd, reinterpret_cast<const char*>(&header), sizeof header, deadline));
  return writeAll(fd, static_cast<const char*>(payload), nBytes, deadline);
}

}  // namespace cinch::emulator
