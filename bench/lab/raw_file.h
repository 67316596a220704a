// Files of raw numbers, as the training job and the residual dump write them.
#pragma once

#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace cinch::lab {

// `count` values from the `first`-th byte of `path` on. Throws std::runtime_error where they are
// not all there.
template <class T>
std::vector<T> readRaw(const std::string& path, size_t firstByte, size_t count) {
  std::vector<T> values(count);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(firstByte));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) throw std::runtime_error(path + " does not hold the numbers that it should");
  return values;
}

}  // namespace cinch::lab
