// The files that the fuzzers start from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace cinch::net {

inline const std::filesystem::path kCorpus = FUZZ_CORPUS;

inline std::vector<uint8_t> contentOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cinch::net
