// How long the handshake of many ranks takes, and how much memory the server needs meanwhile.
//
//   control_handshake RANKS RANKS_OF_A_PROCESS
//
// The server is Cinch's, in this process; the ranks' processes are sockets of this process that
// send their hellos and throw the results away. Prints a line of JSON; memory is that of this
// process.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "interpose/agree/agreement_server.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/unique_id_stamp.h"

namespace {

using namespace cinch;

[[noreturn]] void giveUp(const std::string& why) {
  fprintf(stderr, "control_handshake: %s\n", why.c_str());
  exit(1);
}

template <class T>
T valueOf(Result<T> result) {
  if (!result.ok()) giveUp(result.error().message);
  return std::move(result.value());
}

// Both ends of each connection are here, and half of all descriptors stay NCCL's.
void allowDescriptors(size_t nProcesses) {
  const rlim_t needed = 4 * nProcesses + 1024;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0)
    giveUp("this takes ulimit -n " + std::to_string(needed));
}

double peakMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Hello helloOf(int rank, int nRanks) {
  Hello hello;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.settingsHash = 1;
  hello.settings = std::string(600, 's');  // as long as what is agreed on by default
  hello.hostId = static_cast<uint64_t>(rank / 8);
  hello.host = "node-" + std::to_string(rank / 8);
  return hello;
}

// Reads and forgets.
class Process {
 public:
  Process(Socket socket, size_t nBytes) : socket_(std::move(socket)), nLeft_(nBytes) {}
  int fd() const { return socket_.fd(); }
  void say(const Bytes& frame) const {
    if (write(socket_.fd(), frame.data(), frame.size()) != static_cast<ssize_t>(frame.size()))
      giveUp("a hello does not fit into a socket");
  }
  // True when all that is to come has.
  bool read() {
    uint8_t bytes[64 << 10];
    const ssize_t n = ::read(socket_.fd(), bytes, sizeof bytes);
    if (n <= 0) giveUp("the server has ended a connection");
    nLeft_ -= std::min(nLeft_, static_cast<size_t>(n));
    return nLeft_ == 0;
  }

 private:
  Socket socket_;
  size_t nLeft_;
};

}  // namespace

int main(int argc, char** argv) {
  const int nRanks = argc == 3 ? atoi(argv[1]) : 0;
  const int perProcess = argc == 3 ? atoi(argv[2]) : 0;
  if (perProcess < 1 || nRanks < perProcess || nRanks % perProcess != 0)
    giveUp("usage: control_handshake RANKS RANKS_OF_A_PROCESS");
  const int nProcesses = nRanks / perProcess;
  allowDescriptors(static_cast<size_t>(nProcesses));
  IpAddress loopback;
  loopback.family = Family::ipv4;
  loopback.bytes = {127, 0, 0, 1};
  const auto server = valueOf(AgreementServer::start(loopback, {}));
  std::array<uint8_t, kUniqueIdBytes> id{};
  if (!server->serve(id.data()).ok()) giveUp("no id");
  const uint64_t nonce = readStamp(id.data())->nonce;
  const Verdict result{true, {}, std::vector<uint64_t>(static_cast<size_t>(nRanks))};
  const size_t nBytes = encodeMessage(Acknowledged{}).size() + encodeMessage(result).size();

  const auto begin = std::chrono::steady_clock::now();
  const Socket poller(epoll_create1(EPOLL_CLOEXEC));
  std::vector<Process> processes;
  processes.reserve(static_cast<size_t>(nProcesses));
  for (int rank = 0; rank < nRanks; ++rank) {
    if (rank % perProcess == 0) {
      auto socket = valueOf(connectTo(server->where(), deadlineIn(std::chrono::seconds(10))));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = processes.size();
      epoll_ctl(poller.fd(), EPOLL_CTL_ADD, socket.fd(), &event);
      processes.emplace_back(std::move(socket), static_cast<size_t>(perProcess) * nBytes);
    }
    const auto channel = static_cast<Channel>(1 + rank % perProcess);
    processes.back().say(encodeMessage(HelloMessage{nonce, helloOf(rank, nRanks)}, channel));
  }
  const auto connected = std::chrono::steady_clock::now();
  for (int left = nProcesses; left > 0;) {
    epoll_event events[64];
    const int n = epoll_wait(poller.fd(), events, 64, 60000);
    if (n <= 0) giveUp("no result within a minute");
    for (int i = 0; i < n; ++i) {
      Process& process = processes[events[i].data.u64];
      if (!process.read()) continue;
      epoll_ctl(poller.fd(), EPOLL_CTL_DEL, process.fd(), nullptr);
      --left;
    }
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  const std::chrono::duration<double> connecting = connected - begin;
  printf("{\"ranks\":%d,\"seconds\":%.3f,\"connecting_s\":%.3f,\"peak_mib\":%.1f}\n", nRanks,
         time.count(), connecting.count(), peakMib());
  return 0;
}
