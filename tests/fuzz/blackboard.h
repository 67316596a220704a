// Memory that the processes of one program share: the unique ids of its communicators, which a
// job's launcher would carry from rank to rank.
#pragma once

#include <pthread.h>

#include <array>
#include <memory>

#include "nccl.h"

namespace cinch::fuzz {

// To be made before the processes are forked.
class Blackboard {
 public:
  static constexpr int kMaxComms = 64;

  static std::shared_ptr<Blackboard> create();

  void post(int comm, const ncclUniqueId& id);
  // Waits until it is posted.
  ncclUniqueId take(int comm);

  // Waits until `n` processes have come here.
  void meet(int n);

 private:
  Blackboard();

  pthread_mutex_t mutex_;
  pthread_cond_t changed_;
  std::array<bool, kMaxComms> posted_{};
  std::array<ncclUniqueId, kMaxComms> ids_{};
  int met_ = 0;
};

}  // namespace cinch::fuzz
