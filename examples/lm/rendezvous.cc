#include "examples/lm/rendezvous.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace lm {
namespace {

namespace fs = std::filesystem;

// True as soon as `done()` is, false when `seconds` are over.
bool pollUntil(int seconds, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void writeFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content << std::flush;
  if (!file) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

void Rendezvous::awaitOthers() const {
  std::string missing;
  const bool complete = pollUntil(timeoutSeconds, [&] {
    missing.clear();
    for (int member = 1; member < ranks; ++member)
      if (!fs::exists(presencePath(member))) missing.append(" ").append(std::to_string(member));
    return missing.empty();
  });
  if (!complete)
    throw std::runtime_error("of " + std::to_string(ranks) + " ranks these did not come within " +
                             std::to_string(timeoutSeconds) + " s:" + missing + " (they meet at " +
                             path + "; --timeout waits longer)");
}

void Rendezvous::publish(const std::string& identifier) const {
  const std::string draft = path + ".draft";
  writeFile(draft, identifier);
  fs::rename(draft, path);
}

std::string Rendezvous::awaitIdentifier() const {
  if (!pollUntil(timeoutSeconds, [&] { return fs::exists(path); }))
    throw std::runtime_error("rank 0 did not write " + path + " within " +
                             std::to_string(timeoutSeconds) +
                             " s: it, or another rank, is missing (--timeout waits longer)");
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Rendezvous::exchange(const std::function<std::string()>& makeIdentifier) const {
  if (rank != 0) {
    writeFile(presencePath(rank), "");
    return awaitIdentifier();
  }
  if (ranks == 1) return makeIdentifier();
  if (fs::exists(path))
    throw std::runtime_error(path +
                             " exists already, so that the other ranks may read an old job's "
                             "identifier: remove it or name another --id-file");
  awaitOthers();
  const std::string identifier = makeIdentifier();
  publish(identifier);
  return identifier;
}

void Rendezvous::removeFiles() const {
  if (ranks == 1) return;
  std::error_code ignored;
  fs::remove(path, ignored);
  for (int member = 1; member < ranks; ++member) fs::remove(presencePath(member), ignored);
}

}  // namespace lm
