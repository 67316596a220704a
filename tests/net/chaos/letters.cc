#include "tests/net/chaos/letters.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/net/chaos/failure.h"

namespace cinch::chaos {

Post::~Post() {
  if (fd_ >= 0) close(fd_);
}

bool Post::send(const Letter& letter) const {
  return ::send(fd_, &letter, sizeof letter, MSG_NOSIGNAL) == sizeof letter;
}

std::optional<Letter> Post::take(int flags) const {
  Letter letter;
  const ssize_t got = recv(fd_, &letter, sizeof letter, flags);
  return got == sizeof letter ? std::optional(letter) : std::nullopt;
}

std::optional<Letter> Post::receive() const {
  return take(MSG_DONTWAIT);
}

std::optional<Letter> Post::wait() const {
  return take(0);
}

PostPair makePost() {
  int fds[2];
  CINCH_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0, "no descriptors");
  const timeval patience = {.tv_sec = 10, .tv_usec = 0};
  setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return {Post(fds[0]), Post(fds[1])};
}

}  // namespace cinch::chaos
