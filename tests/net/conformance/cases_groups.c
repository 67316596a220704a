/* Receives of several buffers at once: users share a connection, each with a tag and with sends at
 * its own pace, as NCCL's ranks do that send through one of them. */
#include <sched.h>
#include <sys/mman.h>

#include "tests/net/conformance/cases.h"
#include "tests/net/conformance/failure.h"
#include "tests/net/conformance/pattern.h"

enum {
  kGroups = 120,
  kMaxBytes = 48 << 10,
  kSlack = 256, /* by which a buffer may be larger than its message */
  kOffsets = 16,
  kMargin = 64,
  kStride = kMaxBytes + kSlack + kOffsets + 2 * kMargin,
  kWindow = 8, /* NCCL's steps: groups, and sends of one user, at a time */
  kSlots = kWindow * kMaxGroup,
  kMaxSends = kGroups * kMaxGroup
};

/* One buffer of one group, and the message for it: the same on both sides. */
typedef struct {
  int key; /* different for all */
  int user;
  size_t nBytes;
  size_t capacity;
  size_t offset; /* from where a buffer is aligned */
} Message;

static uint32_t scramble(int number) {
  uint32_t x = (uint32_t)number * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ x >> 13;
}

static int groupSize(int group, int nUsers) {
  return 1 + (int)(scramble(group) % (uint32_t)nUsers);
}

/* Nothing, little, or up to kMaxBytes. */
static size_t bytesOf(int key) {
  const uint32_t number = scramble(key + 7777);
  switch (key % 4) {
    case 0:
      return 0;
    case 1:
      return number % 300;
    default:
      return number % (kMaxBytes + 1);
  }
}

/* The users of a group are in another order every time, and one of them is sometimes there twice.
 */
static Message messageOf(int group, int place, int nUsers) {
  const int key = group * kMaxGroup + place;
  const bool isTwice = group % 5 == 0 && place > 0 && place == groupSize(group, nUsers) - 1;
  const int first = (int)(scramble(group + 999) % (uint32_t)nUsers);
  const int step = group % 2 == 0 ? 1 : nUsers - 1;
  const size_t nBytes = bytesOf(key);
  return (Message){.key = key,
                   .user = isTwice ? first : (first + place * step) % nUsers,
                   .nBytes = nBytes,
                   .capacity = nBytes + scramble(key + 5) % kSlack,
                   .offset = scramble(key + 3) % kOffsets};
}

static int tagOf(int user) {
  return 100 - 7 * user;
}

/* What one end of the connection has. */
typedef struct {
  Side* side;
  Link link;
  int nUsers;
  uint8_t* slots;
  void* memory;
} End;

static uint64_t patternOf(const End* end, const Message* message) {
  return (uint64_t)(end->link.number + 1) << 48 | (uint64_t)(message->key + 1) << 24;
}

static uint8_t* bufferIn(uint8_t* slot, const Message* message) {
  return slot + kMargin + message->offset;
}

static void* unwritten(void) {
  static int stale;
  return &stale;
}

/* True with the numbers of bytes once the request is done. */
static bool testRequest(const End* end, void* request, int* sizes) {
  int done = -1;
  CALL(end->side->plugin, test, request, &done, sizes);
  CHECK(done != -1, "test did not say whether the request is done");
  return done;
}

/* The sends of one user, in the order of the groups. */
typedef struct {
  Message messages[kMaxSends];
  void* requests[kWindow];
  int count;
  int nPrepared;
  int nPosted;
  int nDone;
} User;

static void listSends(User* user, int number, int nUsers) {
  *user = (User){.count = 0};
  for (int group = 0; group < kGroups; ++group) {
    for (int place = 0; place < groupSize(group, nUsers); ++place) {
      const Message message = messageOf(group, place, nUsers);
      if (message.user == number) user->messages[user->count++] = message;
    }
  }
}

static bool postSend(const End* end, User* user) {
  const Message* message = &user->messages[user->nPosted];
  const int at = user->nPosted % kWindow;
  uint8_t* buffer = bufferIn(end->slots + (message->user * kWindow + at) * kStride, message);
  if (user->nPrepared == user->nPosted) {
    fillPattern(buffer, message->nBytes, patternOf(end, message));
    ++user->nPrepared;
  }
  void* request = unwritten();
  CALL(end->side->plugin, isendTagged, end->link.comm, buffer, message->nBytes,
       tagOf(message->user), end->memory, &request);
  CHECK(request != unwritten(), "the request was not written");
  if (request == NULL) return false;
  user->requests[at] = request;
  ++user->nPosted;
  return true;
}

/* At most one send, and one question for the oldest. */
static bool visitUser(const End* end, User* user) {
  bool moved = false;
  int size = -1;
  if (user->nPosted < user->count && user->nPosted - user->nDone < kWindow) {
    moved = postSend(end, user);
  }
  if (user->nDone < user->nPosted &&
      testRequest(end, user->requests[user->nDone % kWindow], &size)) {
    ++user->nDone;
    moved = true;
  }
  return moved;
}

/* Users come in another order every time, so that sends are rarely in that of the buffers. */
static void* sendAll(void* argument) {
  static User users[kMaxGroup];
  const End* end = argument;
  for (int i = 0; i < end->nUsers; ++i) listSends(&users[i], i, end->nUsers);
  bool busy = true;
  for (int round = 0; busy; ++round) {
    bool moved = false;
    busy = false;
    for (int i = 0; i < end->nUsers; ++i) {
      User* user = &users[(i * (round % 2 == 0 ? 1 : end->nUsers - 1) + round) % end->nUsers];
      moved = visitUser(end, user) || moved;
    }
    for (int i = 0; i < end->nUsers; ++i) busy = busy || users[i].nDone < users[i].count;
    if (!moved) sched_yield();
  }
  return NULL;
}

static uint8_t* slotOf(const End* end, int group, int place) {
  return end->slots + (group % kWindow * kMaxGroup + place) * kStride;
}

static bool postGroup(const End* end, int group, void** request) {
  Group buffers = {.count = groupSize(group, end->nUsers), .memory = end->memory};
  for (int place = 0; place < buffers.count; ++place) {
    const Message message = messageOf(group, place, end->nUsers);
    uint8_t* slot = slotOf(end, group, place);
    fillUntouched(slot, kStride);
    buffers.data[place] = bufferIn(slot, &message);
    buffers.capacities[place] = message.capacity;
    buffers.tags[place] = tagOf(message.user);
  }
  *request = unwritten();
  CALL(end->side->plugin, irecvGroup, end->link.comm, &buffers, request);
  CHECK(*request != unwritten(), "the request was not written");
  return *request != NULL;
}

static void checkBuffer(const End* end, int group, int place, int reported) {
  const Message message = messageOf(group, place, end->nUsers);
  const uint8_t* slot = slotOf(end, group, place);
  const uint8_t* buffer = slot + kMargin + message.offset;
  const size_t nBytes = message.nBytes;
  CHECK(reported == (int)nBytes, "group %d, buffer %d: %d bytes reported, %zu sent", group, place,
        reported, nBytes);
  const size_t wrong = firstWrongByte(buffer, nBytes, patternOf(end, &message));
  CHECK(wrong == nBytes, "group %d, buffer %d of %zu bytes: wrong from byte %zu on", group, place,
        nBytes, wrong);
  CHECK(isUntouched(slot, (size_t)(buffer - slot)) &&
            isUntouched(buffer + nBytes, (size_t)(slot + kStride - buffer) - nBytes),
        "group %d, buffer %d of %zu bytes: bytes around it were written", group, place, nBytes);
}

static bool finishGroup(const End* end, int group, void* request) {
  enum { kUnwritten = -7 };
  int sizes[kMaxGroup];
  for (int i = 0; i < kMaxGroup; ++i) sizes[i] = kUnwritten;
  if (!testRequest(end, request, sizes)) return false;
  const int count = groupSize(group, end->nUsers);
  for (int place = 0; place < count; ++place) checkBuffer(end, group, place, sizes[place]);
  for (int i = count; i < kMaxGroup; ++i) {
    CHECK(sizes[i] == kUnwritten, "group %d of %d buffers has a size for buffer %d", group, count,
          i);
  }
  return true;
}

static void* receiveAll(void* argument) {
  const End* end = argument;
  void* requests[kWindow];
  int nPosted = 0, nDone = 0;
  while (nDone < kGroups) {
    bool moved = false;
    if (nPosted < kGroups && nPosted - nDone < kWindow &&
        postGroup(end, nPosted, &requests[nPosted % kWindow])) {
      ++nPosted;
      moved = true;
    }
    if (nDone < nPosted && finishGroup(end, nDone, requests[nDone % kWindow])) {
      ++nDone;
      moved = true;
    }
    if (!moved) sched_yield();
  }
  return NULL;
}

static void runGroups(Side* side, int sender, int nUsers) {
  const size_t nBytes = (size_t)kSlots * kStride;
  End end = {.side = side, .link = openLink(side, sender), .nUsers = nUsers};
  end.slots = mmap(NULL, nBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(end.slots != MAP_FAILED, "out of memory");
  CALL(side->plugin, regMr, end.link.comm, end.slots, nBytes, &end.memory);
  joinThread(startThread(end.link.sends ? sendAll : receiveAll, &end));
  CALL(side->plugin, deregMr, end.link.comm, end.memory);
  munmap(end.slots, nBytes);
  closeLink(side, end.link);
}

/* A plugin that takes one receive at a time has groups of one, of one user. */
void runGroupedReceives(Side* side) {
  Properties properties;
  CALL(side->plugin, getProperties, side->dev, &properties);
  const int most = properties.maxRecvs < kMaxGroup ? properties.maxRecvs : kMaxGroup;
  for (int nUsers = most; nUsers > 0; nUsers /= 2) runGroups(side, nUsers % 2, nUsers);
}
