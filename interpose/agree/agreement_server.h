// Serves all unique ids that one process makes, and the communicators made from theirs: one
// listening socket, one thread, bounded memory.
//
// A connection has `helloTime` to say a valid hello with the nonce of an id; until then it may hold
// little and the oldest gives way when too many wait, so that port scanners and slow or silent
// strangers change nothing for the ranks. What happens between ranks is agreement_session.h's.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_connection.h"
#include "interpose/agree/agreement_session.h"

namespace cinch {

struct ServerLimits {
  std::chrono::milliseconds helloTime{10000};
  std::chrono::milliseconds reportTime{2000};
  size_t maxStrangers = 1024;  // connections that have not said hello
  size_t maxIds = 16384;       // sessions; beyond, the oldest id that nobody has used is forgotten
  size_t maxFailed = 4096;     // remembered children of one parent
};

class AgreementServer {
 public:
  static Result<std::unique_ptr<AgreementServer>> start(const IpAddress& address,
                                                        const ServerLimits& limits);
  // Stops; ranks that are still connected lose their server.
  ~AgreementServer();
  AgreementServer(const AgreementServer&) = delete;
  AgreementServer& operator=(const AgreementServer&) = delete;

  // Serves a new id and stamps it. Thread-safe.
  Result<void> serve(uint8_t* id);

 private:
  using Nonce = uint64_t;
  using ConnectionId = uint64_t;  // never used twice, so that a late event hits nobody else

  struct Client {
    AgreementConnection connection;
    bool isMember = false;  // of the session of `nonce`
    Nonce nonce = 0;
    size_t member = 0;
  };
  struct Session {
    AgreementSession state;
    std::vector<ConnectionId> clients;  // by member
    uint64_t serial = 0;                // counts the sessions of this server
    Nonce parent = kNoParent;
    std::set<Nonce> failed;  // children that ended while ranks were still to come
  };

  AgreementServer(Socket listener, Socket poller, Socket stopper, const ServerLimits& limits);

  bool makeRoom();
  void run();
  int timeout();

  void acceptAll();
  void admit(Accepted accepted);
  void handle(ConnectionId id, uint32_t events);
  Result<void> receive(ConnectionId id, Client& client);
  Result<void> dispatch(ConnectionId id, Client& client, const Message& message);
  Result<void> greet(ConnectionId id, Client& client, const HelloMessage& message);
  Result<size_t> join(const HelloMessage& message, const IpAddress& from);
  Result<size_t> beginChild(const HelloMessage& message, const IpAddress& from);
  Result<void> send(ConnectionId id, Client& client, const Message& message);
  Result<void> watchOutput(ConnectionId id, const Client& client);
  void broadcast(Session& session);

  void expireStrangers();
  void expireSessions();
  void reap();
  void drop(ConnectionId id);
  void end(Nonce nonce);
  void rememberFailed(Nonce parent, Nonce child);

  Socket listener_;
  Socket poller_;
  Socket stopper_;
  Endpoint where_;
  ServerLimits limits_;

  // The thread's own.
  std::unordered_map<ConnectionId, Client> clients_;
  std::map<ConnectionId, Deadline> strangers_;  // have not said hello; the oldest has the lowest id
  std::set<Nonce> awaitsTime_;                  // sessions that may have a deadline
  std::vector<ConnectionId> doomed_;            // to be dropped, when nobody is looking at them
  ConnectionId nextId_;

  std::mutex mutex_;  // guards what follows, which serve() adds to
  std::map<Nonce, Session> sessions_;
  uint64_t served_ = 0;
  std::thread thread_;
};

}  // namespace cinch
