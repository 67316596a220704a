#include "net_plugin/socket/zero_copy.h"

// struct timespec, which errqueue.h needs
#include <time.h>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

namespace cinch::net {
namespace {

// The notice in a message of the error queue; nothing where it is of another kind.
std::optional<sock_extended_err> noticeIn(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const bool isError = (part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) ||
                         (part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR);
    if (!isError) continue;
    sock_extended_err error;
    memcpy(&error, CMSG_DATA(part), sizeof error);
    if (error.ee_origin == SO_EE_ORIGIN_ZEROCOPY && error.ee_errno == 0) return error;
  }
  return std::nullopt;
}

}  // namespace

void ZeroCopy::enable(const Socket& socket) {
  const int on = 1;
  isOn_ = setsockopt(socket.fd(), SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
}

void ZeroCopy::listen(const Socket& socket) {
  while (holdsPages()) {
    alignas(cmsghdr) char control[128];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(socket.fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    const auto notice = noticeIn(message);
    if (!notice) continue;
    // From the number of one write to that of another, which belongs to it.
    pending_.fetch_sub(notice->ee_data - notice->ee_info + 1, std::memory_order_relaxed);
    if ((notice->ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) isOn_ = false;
  }
}

}  // namespace cinch::net
