// How the ranks learn the communicator's id: through a file that all of them see.
#pragma once

#include <functional>
#include <string>

#include "tools/cinch/bench/world.h"

namespace cinch::bench {

class IdExchange {
 public:
  // An empty `path` stands for a file of the job's own among this host's temporary files; throws
  // std::runtime_error where the ranks are on several hosts.
  IdExchange(const World& world, std::string path, int timeoutSeconds);
  // Rank 0 removes the file.
  ~IdExchange();
  IdExchange(const IdExchange&) = delete;
  IdExchange& operator=(const IdExchange&) = delete;

  // What rank 0 makes, on every rank. Throws std::runtime_error where it does not come in time, and
  // on rank 0 where the file exists already.
  std::string exchange(const std::function<std::string()>& make);

 private:
  void publish(const std::string& id);
  std::string await() const;

  const World& world_;
  std::string path_;
  int timeoutSeconds_;
  bool published_ = false;
};

}  // namespace cinch::bench
