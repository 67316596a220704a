// What is done once in a process whose program may fork at any moment, on another thread. A
// function's static is not fit for that: a child that is forked while another thread initialises
// one waits for ever for that thread, which it has not. glibc's pthread_once() begins anew there.
#pragma once

#include <pthread.h>

#include <atomic>

namespace cinch {

template <void (*initialise)()>
void forkSafeOnce() {
  static constinit pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialise);
}

// Registers handlers, which children inherit. False where there is no memory for them.
template <void (*prepare)(), void (*inParent)(), void (*inChild)()>
bool handleForks() {
  static constinit pthread_once_t once = PTHREAD_ONCE_INIT;
  static constinit std::atomic<bool> hasBegun{false}, isDone{false};
  pthread_once(&once, [] {
    // Never twice, though the child of a fork in between has none for its own children then:
    // handlers take locks.
    if (!hasBegun.exchange(true)) isDone = pthread_atfork(prepare, inParent, inChild) == 0;
  });
  return isDone;
}

}  // namespace cinch
