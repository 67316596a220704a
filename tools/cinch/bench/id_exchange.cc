#include "tools/cinch/bench/id_exchange.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace cinch::bench {
namespace {

namespace fs = std::filesystem;

std::string pathOf(const World& world) {
  if (!world.isOneHost())
    throw std::runtime_error(
        "the ranks are on several hosts: name a file that all of them see, and that does not exist "
        "yet, with --id-file");
  const std::string name = fmt::format("cinch-bench.{}.{}", getuid(), world.job);
  return (fs::temp_directory_path() / name).string();
}

}  // namespace

IdExchange::IdExchange(const World& world, std::string path, int timeoutSeconds)
    : world_(world),
      path_(path.empty() ? pathOf(world) : std::move(path)),
      timeoutSeconds_(timeoutSeconds) {}

IdExchange::~IdExchange() {
  std::error_code ignored;
  if (published_) fs::remove(path_, ignored);
}

std::string IdExchange::exchange(const std::function<std::string()>& make) {
  if (world_.rank != 0) return await();
  if (fs::exists(path_))
    throw std::runtime_error(
        fmt::format("{} exists already, so that other ranks may read an old job's id: remove it, "
                    "or name another "
                    "file with --id-file",
                    path_));
  std::string id = make();
  if (world_.ranks > 1) publish(id);
  return id;
}

void IdExchange::publish(const std::string& id) {
  const std::string draft = path_ + ".draft";
  {
    std::ofstream file(draft, std::ios::binary);
    file << id << std::flush;
    if (!file) throw std::runtime_error(fmt::format("cannot write {}", draft));
  }
  fs::rename(draft, path_);
  published_ = true;
}

std::string IdExchange::await() const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeoutSeconds_);
  while (!fs::exists(path_)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error(fmt::format(
          "rank 0 did not write {} within {} s: it is missing, or sees another file there "
          "(--id-file names one, -T waits longer)",
          path_, timeoutSeconds_));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ifstream file(path_, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cinch::bench
