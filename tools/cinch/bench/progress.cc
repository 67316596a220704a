#include "tools/cinch/bench/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace cinch::bench {
namespace {

constexpr size_t kWidth = 30;
constexpr size_t kFew = 4;  // sizes that need no bar

}  // namespace

std::string progressLine(size_t done, size_t total, const std::string& what) {
  const size_t filled = total == 0 ? kWidth : done * kWidth / total;
  return fmt::format("[{}{}] {}/{} {}", std::string(filled, '#'), std::string(kWidth - filled, '-'),
                     done, total, what);
}

Progress::Progress(size_t total)
    : total_(total), isShown_(total > kFew && isatty(STDERR_FILENO) == 1) {}

void Progress::show(size_t done, const std::string& what) {
  if (isShown_) fmt::print(stderr, "\r\033[K{}", progressLine(done, total_, what));
}

void Progress::clear() {
  if (isShown_) fmt::print(stderr, "\r\033[K");
}

}  // namespace cinch::bench
