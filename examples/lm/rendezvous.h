// How ranks hand an identifier around through files, in a bounded time.
#pragma once

#include <functional>
#include <string>

namespace lm {

struct Rendezvous {
  std::string path;
  int rank = 0;
  int ranks = 1;
  int timeoutSeconds = 60;

  // Rank 0 waits until every other rank has come, makes the identifier and publishes it; the others
  // say that they are here and wait for it. Throws std::runtime_error, which names the ranks that
  // are missing, when the time is over, and on rank 0 where `path` exists already.
  std::string exchange(const std::function<std::string()>& makeIdentifier) const;
  // Removes the files; rank 0 calls it once everybody has read them.
  void removeFiles() const;

 private:
  std::string presencePath(int member) const { return path + "." + std::to_string(member); }
  void awaitOthers() const;
  void publish(const std::string& identifier) const;
  std::string awaitIdentifier() const;
};

}  // namespace lm
