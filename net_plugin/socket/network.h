// This process's end of the network: where others connect to, the links to them, and how flows come
// to be. Made at first use, kept until the process ends.
//
// tick() does all that takes time: it takes strangers in and throws them out, opens and reopens
// flows, and drops what nobody uses. Helpers call it, and whoever waits for a connection; it never
// waits itself.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "common/network/local_network.h"
#include "net_plugin/socket/handle.h"
#include "net_plugin/socket/link.h"
#include "net_plugin/wire/opening.h"

namespace cinch::net {

// What a listener has been sent, until its owner accepts it.
struct WaitingChannel {
  std::shared_ptr<Link> link;
  std::shared_ptr<ReceiveChannel> channel;
};

// A connection that the peer has not taken yet.
struct Connecting {
  std::shared_ptr<Link> link;
  std::shared_ptr<SendChannel> channel;
};

class Network {
 public:
  // Listens on each of `interfaces`.
  static Result<std::unique_ptr<Network>> open(const SocketSettings& settings,
                                               std::vector<Interface> interfaces);

  const SocketSettings& settings() const { return settings_; }
  // Of the interfaces: "eth0+eth1".
  std::string name() const;

  // A new listener, and its end.
  Invitation invite();
  void withdraw(const Token& token);
  // The connection that the listener was sent; null links while there is none.
  WaitingChannel accept(const Token& token);

  // A connection to the listener that invites, over the link that is there, else over a new one
  // whose flows tick() opens.
  Connecting connect(const Invitation& invitation);

  // Does nothing where another thread does it already.
  void tick();
  std::vector<std::shared_ptr<Link>> links();
  // Descriptors whose readiness makes tick() worthwhile, listeners and openings.
  void addPollTargets(std::vector<std::pair<int, short>>* targets);
  // What has happened so far, at links that are gone as well.
  NetworkFigures figures();

 private:
  // A link and what this side knows about opening its flows.
  struct Entry {
    Identity peer{};
    bool isOurs = false;              // we connect, the peer listens
    uint64_t number = 0;              // of the side that connects
    std::vector<Endpoint> endpoints;  // of the peer, where we connect
    std::shared_ptr<Link> link;
    Clock::time_point flowsSeen{};  // when there was one, or one was asked for
    Clock::time_point nextAttempt{};
    Clock::time_point used{};  // when it had connections
    int rounds = 0;            // of attempts, since the peer has last spoken
    int refusals = 0;          // of these, the last ones that met nobody
    std::string lastError;
  };
  // A flow that is being opened, by either side.
  struct Attempt {
    std::optional<FlowOpening> opening;  // once TCP stands
    Socket socket{};                     // before
    Endpoint server{};
    std::shared_ptr<Entry> entry;  // null: a stranger so far
    int index = 0;
    Clock::time_point deadline{};
  };

  explicit Network(const SocketSettings& settings) : settings_(settings) {}
  std::shared_ptr<Link> linkTo(const Invitation& invitation);
  std::shared_ptr<Entry> addEntry(const Identity& peer, std::string name, int nFlows);
  bool take(const Token& token, const std::shared_ptr<Link>& link,
            const std::shared_ptr<ReceiveChannel>& channel);
  void acceptStrangers(Clock::time_point now);
  void openMissing(Entry& entry, const std::shared_ptr<Entry>& owner, Clock::time_point now);
  void advanceAttempts(Clock::time_point now);
  bool advance(Attempt& attempt, Clock::time_point now);
  bool startOpening(Attempt& attempt);
  void attachOwn(Attempt& attempt);
  void attachStranger(Attempt& attempt);
  void attemptFailed(Attempt& attempt, const Error& why);
  void endRound(Entry& entry, bool wasRefused);
  bool mayAccept(Clock::time_point now) const;
  void dropUnused(Clock::time_point now);
  bool isUnused(Entry& entry, Clock::time_point now);
  void keepFigures(Link& link);
  void acceptFailed(const Error& why);

  const SocketSettings settings_;
  const Identity identity_ = randomBytes16();
  struct Port {
    Socket socket;
    Interface interface;
    Endpoint endpoint;
  };
  std::vector<Port> ports_;

  std::mutex tickMutex_;  // attempts_ and lines that anybody can provoke; taken before mutex_
  std::vector<Attempt> attempts_;
  LineLimit refusalLines_{LogLevel::warn, "connections that were refused"};
  LineLimit acceptLines_{LogLevel::warn, "connections that cannot be taken"};
  std::atomic<Clock::time_point> nextAccept_{Clock::time_point{}};

  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::map<Token, std::deque<WaitingChannel>> listeners_;
  uint64_t nextLink_ = 1;
  uint64_t strangers_ = 0;
  uint64_t failedAccepts_ = 0;
  std::deque<PeerFigures> former_;  // of links that are gone, the oldest first
  uint64_t forgotten_ = 0;          // how many more there were
};

}  // namespace cinch::net
