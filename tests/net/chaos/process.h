// A process of the test, which it stops, continues and kills.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "tests/net/chaos/letters.h"
#include "tests/net/chaos/progress.h"

namespace cinch::chaos {

class Process {
 public:
  using Body = std::function<void(const Post&, Progress&)>;

  // Forks: the caller has one thread, and has not loaded the plugin. It ends with exit, so that
  // what the plugin does when a program ends is run too.
  Process(std::string name, Progress& progress, const Body& body);
  // Kills it, where it is still there.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  const Post& post() const { return post_; }
  const Progress& progress() const { return progress_; }

  void stop() const;
  void resume() const;
  void kill();
  // As waitpid() says; nothing while it runs.
  std::optional<int> ended();
  // Waits for its end.
  int wait();

  // What each thread of it is doing, and how far it is.
  std::string whereabouts() const;

 private:
  Process(std::string name, Progress& progress, PostPair post, const Body& body);

  const std::string name_;
  Progress& progress_;
  Post post_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// "exit status 1", "signal 9 (Killed)".
std::string describeEnd(int status);

}  // namespace cinch::chaos
