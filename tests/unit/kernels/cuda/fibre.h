// Stacks that take turns on one thread, and what sanitizers want to be told of that.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace cinch::simt {

// A stack with a function that never returns, or the one that the program began on.
class Fibre {
 public:
  static constexpr size_t kStackBytes = 128 * 1024;

  // That of the caller.
  Fibre();
  // Begins with `main` when it is first switched to.
  explicit Fibre(void (*main)());

  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // From this one, which runs, to another. Returns when something switches back. Orders no memory
  // between the two.
  void switchTo(Fibre& next);
  // Where `main` begins.
  void arrive();

 private:
  std::unique_ptr<char[]> stack_;
  ucontext_t context_;
  void* ofThreadSanitizer_;
  const void* bottom_ = nullptr;
  size_t nBytes_ = 0;
  void* fakeStack_ = nullptr;
};

// What one fibre releases, another that acquires the same address afterwards can read.
void releaseMemory(void* address);
void acquireMemory(void* address);

// Passes on what was released at one address to another, and nothing that its user knows besides.
class Courier {
 public:
  Courier();
  void carry(void* from, void* to);

 private:
  void* ofThreadSanitizer_;
};

// Whether memory may be read and written.
void forbidMemory(void* first, size_t nBytes);
void allowMemory(void* first, size_t nBytes);

}  // namespace cinch::simt
