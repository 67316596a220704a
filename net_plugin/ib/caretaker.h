// Looks after connections that nobody calls. NCCL asks a connection nothing between collectives,
// and a program may never start another one; its peer may need a word from it all the same: that
// this end of a lane is dead, too, and that what was sent over it has arrived.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "common/result.h"

namespace cinch::net::ib {

class Caretaker {
 public:
  // What is done at each visit, until this is destroyed, which waits for a visit that is under way.
  // `visit` does not wait, and makes and destroys no Duty.
  class Duty {
   public:
    Duty(Caretaker& caretaker, std::function<void()> visit);
    ~Duty();
    Duty(const Duty&) = delete;
    Duty& operator=(const Duty&) = delete;

   private:
    friend class Caretaker;
    Caretaker& caretaker_;
    const std::function<void()> visit_;
    std::list<const Duty*>::iterator place_;
  };

  // Visits all, one after the other.
  void visitAll();

  // Visits all twenty times a second, while there are any, from a thread that runs until the
  // process ends: the caretaker is never destroyed after that. Fails where the system refuses the
  // thread.
  Result<void> startThread();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable hasDuties_;
  std::list<const Duty*> duties_;
};

}  // namespace cinch::net::ib
