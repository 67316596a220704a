// Serves all unique ids that one process makes, the communicators made from theirs, and those that
// it takes over as rank 0: one listening socket, one thread, bounded memory, and one connection to
// each process that has ranks here.
//
// A connection has `helloTime` to send a valid hello with the nonce of an id; until then it may
// hold little and gives way when too many wait (strangers.h), so that port scanners and slow or
// silent strangers change nothing for the ranks. What happens between ranks is
// agreement_session.h's.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_connection.h"
#include "interpose/agree/agreement_sessions.h"
#include "interpose/agree/channel_key.h"
#include "interpose/agree/strangers.h"

namespace cinch {

struct ServerLimits : SessionLimits {
  std::chrono::milliseconds helloTime{10000};
  std::chrono::milliseconds reportTime{2000};
  // Between the first and the last rank of a session that is taken over: a rank comes when its
  // program first uses the communicator.
  std::chrono::milliseconds arrivalTime{300000};
  size_t maxStrangers = 256;  // connections that have sent no hello
  Key key{};                  // that ranks have to prove to hold; empty: none
};

class AgreementServer {
 public:
  static Result<std::unique_ptr<AgreementServer>> start(const IpAddress& address,
                                                        const ServerLimits& limits);
  // Stops; ranks that are still connected lose their server.
  ~AgreementServer();
  AgreementServer(const AgreementServer&) = delete;
  AgreementServer& operator=(const AgreementServer&) = delete;

  // Serves a new id and stamps it. Thread-safe, as the next two.
  Result<void> serve(uint8_t* id);
  // Will serve a session of `nRanks` ranks that agree elsewhere: all come here once they have.
  Result<void> takeOver(Nonce nonce, int nRanks);
  // They have not agreed.
  void forget(Nonce nonce);

  const Endpoint& where() const { return where_; }

 private:
  struct Membership {
    Nonce nonce = 0;
    size_t member = 0;
  };
  // A process.
  struct Client {
    AgreementConnection connection;
    bool isKnown = false;  // has sent a valid hello
    std::map<Channel, Membership> members{};
  };

  AgreementServer(Socket listener, Socket poller, Socket stopper, const ServerLimits& limits);

  void run();

  void acceptAll();
  void admit(Accepted accepted);
  void handle(ConnectionId id, uint32_t events);
  Result<void> receive(ConnectionId id, Client& client);
  Result<void> dispatch(ConnectionId id, Client& client, const Frame& frame);
  Result<void> greet(ConnectionId id, Client& client, Channel channel, const HelloMessage& message);
  Result<void> take(const Membership& from, Session& session, const Message& message);
  Result<void> answer(ConnectionId id, Client& client, Channel channel, const Inquiry& inquiry);
  void endPartOf(Nonce nonce, int rank);
  Result<void> send(ConnectionId id, Client& client, AgreementConnection::SharedFrame frame);
  Result<void> watchOutput(ConnectionId id, const Client& client);
  void broadcast(Nonce nonce);

  void expireStrangers();
  void expireSessions();
  void reap();
  void leave(const Membership& gone, bool isLost);

  Socket listener_;
  Socket poller_;
  Socket stopper_;
  Endpoint where_;
  ServerLimits limits_;

  // The thread's own.
  std::unordered_map<ConnectionId, Client> clients_;
  Strangers strangers_;               // have sent no hello
  std::vector<ConnectionId> doomed_;  // to be dropped, when nobody is looking at them
  ConnectionId nextId_;

  std::mutex mutex_;  // guards what follows, which any thread may add to
  AgreementSessions sessions_;
  std::thread thread_;
};

// From now on the server of this process takes the session over from that at `from`; where to. None
// where that is the same server, or this process cannot serve. Thread-safe.
Endpoint takeOverAgreement(const Endpoint& from, Nonce nonce, int nRanks);
// Its ranks have not agreed.
void forgetAgreement(Nonce nonce);

}  // namespace cinch
