// The socket transport's place in tests of verbs: connections of one process, over queues in
// memory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "net_plugin/net.h"
#include "net_plugin/socket/handle.h"

namespace cinch::net::ib {

struct MemoryPipe {
  std::deque<std::vector<uint8_t>> messages;
  bool senderIsGone = false;
  bool receiverIsGone = false;
};

class MemoryDevice final : public Device {
 public:
  const Properties& properties() const override { return properties_; }
  Result<std::unique_ptr<Listener>> listen(Handle& handle) override;
  Result<std::unique_ptr<SendConnection>> connect(Handle& handle, int trafficClass) override;
  // Ends all connections, as if both sides had gone.
  void cut();

 private:
  friend class MemoryListener;
  Properties properties_;
  uint8_t nextToken_ = 0;
  std::map<Token, std::deque<std::shared_ptr<MemoryPipe>>> waiting_;
  std::vector<std::weak_ptr<MemoryPipe>> all_;
};

}  // namespace cinch::net::ib
