#include "examples/lm/text_corpus.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "examples/lm/random.h"

namespace lm {
namespace {

namespace fs = std::filesystem;

void appendFile(const std::string& path, std::string& text) {
  // A directory opens, and a pipe may block for ever.
  std::error_code error;
  if (const fs::file_status status = fs::status(path, error);
      fs::exists(status) && !fs::is_regular_file(status))
    throw std::runtime_error("cannot read text " + path + ": not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read text " + path + ": " + std::strerror(errno));
  const size_t old = text.size();
  const size_t bytes = std::min<uintmax_t>(fs::file_size(path), TextCorpus::kMaxBytes - old);
  text.resize(old + bytes);
  file.read(text.data() + old, static_cast<std::streamsize>(bytes));
  if (file.bad()) throw std::runtime_error("cannot read text " + path + ": read error");
  text.resize(old + static_cast<size_t>(file.gcount()));
}

std::string helpText() {
  std::string text;
  for (const std::string& path : cmakeHelpFiles()) appendFile(path, text);
  if (text.empty())
    throw std::runtime_error(
        "no text to learn from: /usr/share/cmake*/Help has no .rst files; name one with --text "
        "FILE");
  return text;
}

}  // namespace

std::vector<std::string> cmakeHelpFiles(const std::string& share) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& package : fs::directory_iterator(share, error)) {
    if (!package.path().filename().string().starts_with("cmake")) continue;
    const fs::path help = package.path() / "Help";
    if (!fs::is_directory(help, error)) continue;
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(help, error))
      if (file.path().extension() == ".rst") paths.push_back(file.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TextCorpus TextCorpus::load(const std::string& path) {
  if (path.empty()) return TextCorpus(helpText(), "CMake's help");
  std::string text;
  appendFile(path, text);
  return TextCorpus(std::move(text), path);
}

TextCorpus::TextCorpus(std::string text, const std::string& name) : text_(std::move(text)) {
  if (text_.size() < kMinBytes)
    throw std::runtime_error(name + " has " + std::to_string(text_.size()) +
                             " bytes; training needs at least " + std::to_string(kMinBytes));
}

void TextCorpus::addSample(size_t position, size_t context, Batch& batch) const {
  const char* start = text_.data() + position;
  batch.contexts.insert(batch.contexts.end(), start, start + context);
  batch.targets.push_back(static_cast<uint8_t>(start[context]));
}

Batch TextCorpus::trainingBatch(uint64_t seed, uint64_t step, int rank, size_t size,
                                size_t context) const {
  const size_t trainingBlocks = text_.size() / kBlockBytes - heldOutBlocks();
  const uint64_t stream = step << 20 | static_cast<uint64_t>(rank);
  Batch batch;
  for (size_t i = 0; i < size; ++i) {
    const size_t block = randomBelow(randomBits(seed, stream, 2 * i), trainingBlocks);
    const size_t offset = randomBelow(randomBits(seed, stream, 2 * i + 1), kBlockBytes - context);
    // Skips one held-out block for every fifteen.
    const size_t skipped = block + block / (kHoldOutEvery - 1);
    addSample(skipped * kBlockBytes + offset, context, batch);
  }
  return batch;
}

Batch TextCorpus::heldOutBatch(size_t total, size_t first, size_t stride, size_t context) const {
  const size_t perBlock = kBlockBytes - context;
  const size_t positions = heldOutBlocks() * perBlock;
  Batch batch;
  for (size_t i = first; i < total; i += stride) {
    const size_t position = i * positions / total;
    const size_t block = (position / perBlock + 1) * kHoldOutEvery - 1;
    addSample(block * kBlockBytes + position % perBlock, context, batch);
  }
  return batch;
}

}  // namespace lm
