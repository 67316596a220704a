// A bar on the terminal that shows how far a sweep is.
#pragma once

#include <cstddef>
#include <string>

namespace cinch::bench {

// "[#####-----] 12/24 what", of a fixed width.
std::string progressLine(size_t done, size_t total, const std::string& what);

class Progress {
 public:
  // Shows nothing where standard error is no terminal, or there is little to do.
  explicit Progress(size_t total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(size_t done, const std::string& what);
  // Makes room for other output.
  void clear();

 private:
  size_t total_;
  bool isShown_;
};

}  // namespace cinch::bench
