// All that goes between this process and one other: flows, and the connections that share them.
//
// Threads that use a connection, and the helpers, call pump() and look(): whoever comes first moves
// the bytes, nobody waits. Two rules keep it simple: a flow that dies takes nothing with it that is
// not said or sent again (sayState(), OutgoingMessage::giveBack), and records may arrive in any
// order, often twice (link_control.cc). When the last flow is gone for good, or the peer does not
// answer, the link fails: every connection gets the reason.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "net_plugin/log.h"
#include "net_plugin/socket/flow.h"
#include "net_plugin/socket/schedule.h"
#include "net_plugin/socket/settings.h"
#include "net_plugin/socket/statistics.h"

namespace cinch::net {

// From one process to one other.
inline constexpr size_t kMaxConnections = 65536;

// A listener's view: is there one for this token? It takes the connection, or refuses.
using AcceptChannel = std::function<bool(const Token&, const std::shared_ptr<ReceiveChannel>&)>;

class Link {
 public:
  // `peer`: for messages to people. `accept` is called without the link's lock.
  Link(const SocketSettings& settings, std::string peer, int nFlows, AcceptChannel accept);

  const std::string& peer() const { return peer_; }
  int nFlows() const { return nFlows_; }

  // A flow that is open for records. Replaces the one of that index, which is dead.
  void attach(int index, Socket socket);
  // The flows that are not there, or are dead and through.
  std::vector<int> missingFlows();
  // True where there is a flow over which the peer has spoken.
  bool hasFlows();
  // A flow could not be opened.
  void openingFailed(int index, const std::string& why);

  // --- Connections, for one thread at a time each. ---
  std::shared_ptr<SendChannel> openChannel(const Token& token);
  // True once the peer has taken it.
  Result<bool> isOpened(const SendChannel& channel);
  // Null while kMaxRequests are under way.
  Result<std::shared_ptr<OutgoingMessage>> post(SendChannel& channel, const void* data,
                                                uint64_t total);
  Result<std::shared_ptr<IncomingMessage>> post(const std::shared_ptr<ReceiveChannel>& channel,
                                                void* buffer, uint64_t capacity);
  // When these return nobody touches these bytes for the connection any more: what is under way
  // there has failed, and the connection with it.
  void forget(SendChannel& channel, std::span<const char> memory);
  void forget(ReceiveChannel& channel, std::span<const char> memory);
  // When these return nobody touches any buffer of the connection any more. Short messages that
  // were sent still get there.
  void close(const std::shared_ptr<SendChannel>& channel);
  void close(const std::shared_ptr<ReceiveChannel>& channel);
  // Returns when all that was said is with the kernel and the peer has all short messages, or when
  // `patience` is over.
  void flush(Clock::duration patience);
  // Why a message failed.
  Error errorOf(const SendChannel& channel);
  Error errorOf(const ReceiveChannel& channel);
  // The error, where there is one.
  Result<void> check(const SendChannel& channel);
  bool hasChannels();

  // Moves what can be moved now; true if anything was. From any thread.
  bool pump();
  // True while so much is under way that whoever tests should leave it to helpers.
  bool isBulk() const { return bulk_.load(std::memory_order_relaxed) >= kHelpedBytes; }
  // Every some ten milliseconds: sick flows, signs of life, time limits.
  void look(Clock::time_point now);
  // Ends everything, for the reason `error`.
  void fail(const Error& error);
  bool hasFailed() const { return failed_.load(); }
  // What has happened here so far.
  PeerFigures figures();
  // The sockets to sleep on, and for what: pairs of descriptor and poll events.
  void addPollTargets(std::vector<std::pair<int, short>>* targets);

 private:
  static constexpr const char* kMayStillSend = "a message was given up that it may still send";
  // Below this, to hand it to another thread costs more time than it saves.
  static constexpr int64_t kHelpedBytes = 4 << 20;

  using Lock = std::unique_lock<std::mutex>;
  using FlowPointer = std::shared_ptr<Flow>;

  // link.cc
  bool hasLong() const { return bulk_.load(std::memory_order_relaxed) > 0; }
  std::vector<FlowPointer> flows();
  void loseFlow(Flow& flow, const std::string& why, const Lock&);
  void loseFlow(Flow& flow, const std::string& why);
  void endSending(Flow& flow, const Lock&);
  void endReceiving(Flow& flow, const Lock&);
  void removeEnded(Flow& flow, const Lock&);
  void endDead(Flow& flow, const Lock&);
  void forgivePause(Clock::time_point now, const Lock&);
  void failAll(const Error& error, const Lock&);
  void dropClosed(const Lock&);
  void endSends(SendChannel& channel, uint32_t end, const Error& error, const Lock&);
  void failChannel(SendChannel& channel, const Error& error, const Lock&);
  void failChannel(ReceiveChannel& channel, const Error& error, const Lock&);
  template <class Messages>
  static void waitForEnd(const Messages& messages, Lock& lock);
  void checkFlowLife(Flow& flow, Clock::time_point now, const Lock&);
  void checkLife(Clock::time_point now, const Lock&);
  void judgeFlows(Clock::time_point now, const Lock&);
  void cover(Flow& flow, const Lock&);
  void repeatCopies(Clock::time_point now, const Lock&);
  static bool isSure(const FlowPointer& flow) {
    return flow != nullptr && !flow->isDead && !flow->isDoubtful;
  }
  static void cut(const Flow& flow);
  bool isOwed(const Lock&) const;
  bool isAwaited(const Lock&) const;
  void stopWriting(Flow& flow, const std::string& why);

  // link_send.cc
  bool sendOver(const std::vector<FlowPointer>& flows);
  bool send(Flow& flow);
  bool write(Flow& flow);
  bool startWrite(Flow& flow, const Lock&);
  void takeChunks(Flow& flow, const Lock&);
  void takeUnsent(Flow& flow, const std::vector<FlowView>& views, Clock::time_point now,
                  const Lock&);
  void take(Flow& flow, uint64_t nBytes, const Lock&);
  void takeLate(Flow& flow, std::vector<FlowView> views, const Lock&);
  bool takeOver(Flow& flow, Flow& late, const Lock&);
  void addChunk(Flow& flow, const std::shared_ptr<OutgoingMessage>& message, const Chunk& chunk);
  bool wantsChecksum();
  void addChecksums(Flow& flow);
  bool useLeaving(Flow& flow);
  void releaseLeaving(Flow& flow, bool isFull);
  void sample(Flow& flow, Clock::time_point now, const Lock&);
  std::vector<FlowView> views(const Lock&) const;
  std::shared_ptr<OutgoingMessage> nextUnsent(const Lock&);
  bool mayBeSent(const SendChannel& channel, const OutgoingMessage& message) const;
  void settle(OutgoingMessage& message, const Lock&);

  // link_receive.cc
  bool receive(Flow& flow);
  Result<void> digest(Flow& flow);
  Result<void> begin(Flow& flow, const Record& record);
  Result<void> beginChunk(Flow& flow, const Record& record, const Lock&);
  Result<void> finish(Flow& flow);
  Result<void> finishChunk(Flow& flow, const Arrival& arrival);
  std::shared_ptr<IncomingMessage> incoming(ReceiveChannel& channel, const Record& record,
                                            const Lock&);
  void damaged(Flow& flow, const Arrival& arrival, const Lock&);
  Result<void> acceptOpen(const Token& token, uint32_t id);
  void heard(Flow& flow);
  char* useIncoming(Flow& flow);
  void releaseIncoming(Flow& flow);
  void settle(ReceiveChannel& channel, IncomingMessage& message, const Lock&);
  void deliverEarly(ReceiveChannel& channel, uint32_t number, const Lock&);
  void refuseUnknown(const Record& chunk, const Lock&);
  void sayIfDone(ReceiveChannel& channel, uint32_t number, const Lock&);
  void refuse(ReceiveChannel& channel, uint32_t number, uint64_t total, uint64_t capacity,
              const Lock&);

  // link_control.cc
  void say(const Record& record, const Lock&, std::span<const uint8_t> payload = {});
  void sayLater(const Record& record, const Lock&);
  void sayForGood(const Record& record, const Lock&);
  void sayClosed(const ReceiveChannel& channel, const Lock&);
  void sayAgain(const ReceiveChannel& channel, const IncomingMessage& message, uint64_t offset,
                const Lock&);
  void sayState(const Lock&);
  void sayStateOf(ReceiveChannel& channel, const Lock&);
  void onControl(Flow& flow, const Record& record, const Lock&);
  void sayOver(Flow& flow, const Record& record, const Lock&);
  void onOpened(const Record& record, const Lock&);
  void onGrant(const Record& record, const Lock&);
  void onDone(const Record& record, const Lock&);
  void onAgain(const Record& record, const Lock&);
  void onRefuse(const Record& record, const Lock&);
  void onClose(const Record& record, const Lock&);
  Error closedByPeer() const;
  void endReceives(ReceiveChannel& channel, const Lock&);
  std::shared_ptr<OutgoingMessage> outgoing(const Record& record, const Lock&);

  // link_statistics.cc
  FlowCounters& countersOf(const Flow& flow);
  void keepFigures(const Flow& flow, const Lock&);

  const SocketSettings settings_;
  const std::string peer_;
  const int nFlows_;
  const AcceptChannel accept_;

  std::mutex mutex_;
  std::vector<FlowPointer> flows_;     // by index; null: not there
  std::vector<FlowPointer> replaced_;  // that a thread may still be busy with
  std::vector<FlowFigures> places_;    // by index: of flows that are gone, and what they share
  LineLimit lostLines_;
  LineLimit failureLines_;
  LineLimit damageLines_;
  Clock::time_point lastLook_ = Clock::now();
  std::map<uint32_t, std::shared_ptr<SendChannel>> sends_;
  std::map<uint32_t, std::shared_ptr<ReceiveChannel>> receives_;  // by the peer's id
  std::set<uint32_t> closedReceives_;                    // ids that must not come to life again
  std::deque<Record> lastWords_;                         // said lately for good
  std::deque<std::shared_ptr<OutgoingMessage>> unsent_;  // that may be sent, in order
  std::vector<uint8_t> control_;                         // records that wait for a write
  std::atomic<Clock::time_point> speakAt_{Clock::time_point::max()};  // when they no longer can
  uint64_t nChunks_ = 0;  // that were given a checksum or not
  Clock::time_point lastHeard_ = Clock::now();
  std::optional<Clock::time_point> pingSince_;
  std::string lastLoss_;  // why the latest flow died
  std::optional<Error> error_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> hasWork_{false};  // something waits to be written
  std::atomic<int64_t> bulk_{0};      // bytes of long messages under way
  std::atomic<unsigned> pumps_{0};
};

}  // namespace cinch::net
