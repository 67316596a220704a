/* What the two ends of a case tell each other outside the plugin, as NCCL's bootstrap does: over a
 * socket where they were forked, through files where they were started by hand. Blocking. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_CHANNEL_H_
#define CINCH_TESTS_NET_CONFORMANCE_CHANNEL_H_

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  int fd;           /* -1: files */
  const char* path; /* files are PATH.RANK.NUMBER */
  int rank;
  int nSent;
  int nReceived;
} Channel;

Channel socketChannel(int fd, int rank);
/* What an earlier run left at the path must be gone. */
Channel fileChannel(const char* path, int rank);

void tellPeer(Channel* channel, const void* data, size_t nBytes);
void hearPeer(Channel* channel, void* data, size_t nBytes);
/* Both tell and hear the same number of bytes. */
void exchange(Channel* channel, const void* mine, void* theirs, size_t nBytes);
/* Returns once both sides have called it. */
void meetPeer(Channel* channel);

/* True once the peer has told something, or is gone; waits no longer than this. Sockets only. */
bool peerSpoke(const Channel* channel, int timeoutMs);

#endif
