#include "emulator/cudart/stream.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "emulator/cudart/api.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/handle_table.h"

namespace cinch::cudart {
namespace {

// The queues of a kind of stream that may still have work, their streams destroyed or not.
class QueueList {
 public:
  std::shared_ptr<Queue> add() {
    auto queue = std::make_shared<Queue>();
    std::lock_guard lock(mutex_);
    std::erase_if(queues_, [](const std::shared_ptr<Queue>& old) { return old->over(); });
    queues_.push_back(queue);
    return queue;
  }

  // Adds the unreached tail of every queue to `tickets`.
  void collectPending(std::vector<Ticket>& tickets) const {
    std::lock_guard lock(mutex_);
    for (const auto& queue : queues_) {
      const uint64_t tail = queue->tail();
      if (!queue->done(tail)) tickets.push_back({queue, tail});
    }
  }

 private:
  mutable std::mutex mutex_;
  // Owned: of a queue that is gone nobody could tell that its work is done, and its writes visible.
  std::vector<std::shared_ptr<Queue>> queues_;
};

// All there is; never destroyed, since workers may run while the process exits.
struct Streams {
  QueueList blocking;
  QueueList nonBlocking;
  QueueList legacy;  // the null stream's
  HandleTable<cudaStream_t, Stream> handles;
  HandleTable<cudaStream_t, Stream> perThread;  // apart from the others: a reset spares them
  // Held to submit to the null stream or a blocking one.
  const std::shared_ptr<std::recursive_mutex> submission = std::make_shared<std::recursive_mutex>();
};

Streams& streams() {
  static Streams* const all = new Streams;
  return *all;
}

// Outside the set of flags that a program can ask for: the null stream's own.
constexpr unsigned int kLegacy = 1u << 31;

QueueList& listFor(unsigned int flags) {
  if (flags & kLegacy) return streams().legacy;
  return flags & cudaStreamNonBlocking ? streams().nonBlocking : streams().blocking;
}

std::shared_ptr<std::recursive_mutex> submissionFor(unsigned int flags) {
  const bool alone = flags & cudaStreamNonBlocking;
  return alone ? std::make_shared<std::recursive_mutex>() : streams().submission;
}

// The streams that those with `flags` are ordered with; null: none.
const QueueList* orderedWith(unsigned int flags) {
  if (flags & kLegacy) return &streams().blocking;
  return flags & cudaStreamNonBlocking ? nullptr : &streams().legacy;
}

const std::shared_ptr<Stream>& legacyStream() {
  static const auto* const stream =
      new std::shared_ptr<Stream>(std::make_shared<Stream>(StreamTraits{.flags = kLegacy}));
  return *stream;
}

// A thread's default stream, destroyed with the thread; not so in a forked child, where its queue
// has no worker and its locks may be held by threads that do not exist.
struct PerThread {
  const cudaStream_t handle = streams().perThread.add(std::make_shared<Stream>(StreamTraits{}));
  ~PerThread() {
    if (!inForkedChild()) streams().perThread.remove(handle);
  }
};

std::shared_ptr<Stream> perThreadStream() {
  thread_local const PerThread own;
  return streams().perThread.find(own.handle);
}

}  // namespace

Stream::Stream(StreamTraits traits)
    : traits_(traits),
      queue_(listFor(traits.flags).add()),
      submission_(submissionFor(traits.flags)) {}

Stream::~Stream() {
  queue_->close();
}

bool Stream::isLegacy() const {
  return traits_.flags & kLegacy;
}

bool Stream::isBlocking() const {
  return traits_.flags == cudaStreamDefault;
}

Ticket Stream::submit(Task task) {
  const auto held = hold();
  joinOthers();
  return {queue_, queue_->enqueue(std::move(task))};
}

Ticket Stream::mark() {
  const auto held = hold();
  joinOthers();
  return tail();
}

void Stream::waitFor(const Ticket& ticket) {
  if (ticket.queue == queue_ || ticket.done()) return;
  submit([ticket] { ticket.wait(); });
}

void Stream::synchronize() const {
  for (const Ticket& ticket : pending()) ticket.wait();
}

std::vector<Ticket> Stream::pending() const {
  std::vector<Ticket> tickets;
  if (const Ticket own = tail(); !own.done()) tickets.push_back(own);
  // A blocking stream without work of its own is done, whatever the null stream still has.
  if (isLegacy()) streams().blocking.collectPending(tickets);
  return tickets;
}

void Stream::joinOthers() {
  const QueueList* others = orderedWith(traits_.flags);
  if (others == nullptr) return;
  std::vector<Ticket> tickets;
  others->collectPending(tickets);
  for (Ticket& ticket : tickets) queue_->enqueue([ticket = std::move(ticket)] { ticket.wait(); });
}

std::shared_ptr<Stream> findStream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return legacyStream();
  if (handle == cudaStreamPerThread) return perThreadStream();
  return streams().handles.find(handle);
}

cudaStream_t createStream(StreamTraits traits) {
  return streams().handles.add(std::make_shared<Stream>(traits));
}

bool destroyStream(cudaStream_t handle) {
  return streams().handles.remove(handle) != nullptr;
}

void destroyAllStreams() {
  streams().handles.clear();
}

int deviceOf(const Stream& stream) {
  const int device = stream.traits().device;
  return device < 0 ? currentDevice() : device;
}

void synchronizeDevice() {
  std::vector<Ticket> tickets;
  streams().legacy.collectPending(tickets);
  streams().blocking.collectPending(tickets);
  streams().nonBlocking.collectPending(tickets);
  for (const Ticket& ticket : tickets) ticket.wait();
}

}  // namespace cinch::cudart
