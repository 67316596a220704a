#include "examples/lm/gradient_dump.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace lm {
namespace {

void openForWriting(const std::string& path, std::ofstream& file) {
  if (path.empty()) return;
  file.open(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

template <class T>
void append(std::ofstream& file, std::span<const T> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
  file.flush();
  if (!file) throw std::runtime_error("cannot write a dump: is the disk full?");
}

void addTo(std::vector<double>& sums, std::span<const float> values) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
}

}  // namespace

GradientDump::GradientDump(const Options& options, size_t count)
    : steps_(options.dumpSteps.begin(), options.dumpSteps.end()),
      sentSum_(options.dumpSums.empty() ? 0 : count, 0.0),
      reducedSum_(sentSum_) {
  openForWriting(options.dumpGradients, gradients_);
  openForWriting(options.dumpSums, sums_);
}

void GradientDump::addSent(int step, std::span<const float> sent) {
  if (steps_.contains(step)) append(gradients_, sent);
  addTo(sentSum_, sent);
}

void GradientDump::addReduced(std::span<const float> reduced) {
  addTo(reducedSum_, reduced);
}

void GradientDump::finish() {
  if (!sums_.is_open()) return;
  append(sums_, std::span<const double>(sentSum_));
  append(sums_, std::span<const double>(reducedSum_));
}

}  // namespace lm
