#include "tests/net/conformance/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/net/conformance/failure.h"

enum { kMaxPath = 4096, kFilePollNs = 2000000 };

Channel socketChannel(int fd, int rank) {
  return (Channel){.fd = fd, .rank = rank};
}

Channel fileChannel(const char* path, int rank) {
  return (Channel){.fd = -1, .path = path, .rank = rank};
}

static void filePath(char* out, const Channel* channel, int rank, int number, const char* suffix) {
  const int length = snprintf(out, kMaxPath, "%s.%d.%d%s", channel->path, rank, number, suffix);
  CHECK(length < kMaxPath, "the path %s is too long", channel->path);
}

/* Under another name first, so that the peer never sees half of it. */
static void writeFile(Channel* channel, const void* data, size_t nBytes) {
  char draft[kMaxPath], final[kMaxPath];
  filePath(draft, channel, channel->rank, channel->nSent, ".draft");
  filePath(final, channel, channel->rank, channel->nSent++, "");
  const int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CHECK(fd >= 0, "cannot write %s", draft);
  CHECK(write(fd, data, nBytes) == (ssize_t)nBytes, "cannot write to %s", draft);
  close(fd);
  CHECK(rename(draft, final) == 0, "cannot rename %s", draft);
}

static void readFile(Channel* channel, void* data, size_t nBytes) {
  char path[kMaxPath];
  filePath(path, channel, 1 - channel->rank, channel->nReceived++, "");
  int fd = -1;
  while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
    CHECK(errno == ENOENT, "cannot read %s", path);
    nanosleep(&(struct timespec){.tv_nsec = kFilePollNs}, NULL);
  }
  CHECK(read(fd, data, nBytes) == (ssize_t)nBytes, "%s is too short", path);
  close(fd);
  unlink(path);
}

void tellPeer(Channel* channel, const void* data, size_t nBytes) {
  if (channel->fd < 0) {
    writeFile(channel, data, nBytes);
    return;
  }
  const ssize_t sent = send(channel->fd, data, nBytes, MSG_NOSIGNAL);
  CHECK(sent == (ssize_t)nBytes, "the other process is gone");
}

void hearPeer(Channel* channel, void* data, size_t nBytes) {
  if (channel->fd < 0) {
    readFile(channel, data, nBytes);
    return;
  }
  if (nBytes == 0) return;
  const ssize_t got = recv(channel->fd, data, nBytes, MSG_WAITALL);
  CHECK(got == (ssize_t)nBytes, "the other process is gone");
}

void exchange(Channel* channel, const void* mine, void* theirs, size_t nBytes) {
  tellPeer(channel, mine, nBytes);
  hearPeer(channel, theirs, nBytes);
}

void meetPeer(Channel* channel) {
  const char mine = 1;
  char theirs = 0;
  exchange(channel, &mine, &theirs, 1);
}

bool peerSpoke(const Channel* channel, int timeoutMs) {
  struct pollfd poller = {.fd = channel->fd, .events = POLLIN};
  return poll(&poller, 1, timeoutMs) > 0;
}
