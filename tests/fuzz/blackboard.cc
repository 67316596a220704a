#include "tests/fuzz/blackboard.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace cinch::fuzz {

std::shared_ptr<Blackboard> Blackboard::create() {
  void* memory =
      mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  // Never destroyed in place: a killed process may have left the mutex locked.
  return {new (memory) Blackboard, [](Blackboard* it) { munmap(it, sizeof *it); }};
}

Blackboard::Blackboard() {
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&mutex_, &mutex);
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&changed_, &condition);
}

void Blackboard::post(int comm, const ncclUniqueId& id) {
  pthread_mutex_lock(&mutex_);
  ids_.at(comm) = id;
  posted_.at(comm) = true;
  pthread_cond_broadcast(&changed_);
  pthread_mutex_unlock(&mutex_);
}

ncclUniqueId Blackboard::take(int comm) {
  pthread_mutex_lock(&mutex_);
  while (!posted_.at(comm)) pthread_cond_wait(&changed_, &mutex_);
  const ncclUniqueId id = ids_.at(comm);
  pthread_mutex_unlock(&mutex_);
  return id;
}

void Blackboard::meet(int n) {
  pthread_mutex_lock(&mutex_);
  ++met_;
  pthread_cond_broadcast(&changed_);
  while (met_ < n) pthread_cond_wait(&changed_, &mutex_);
  pthread_mutex_unlock(&mutex_);
}

}  // namespace cinch::fuzz
