#include "common/text_file.h"

#include <filesystem>
#include <fstream>

namespace cinch {

// One byte more than is allowed is asked for, to see whether there is one.
Result<std::string> readTextFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return errorf(Status::systemError, "there is no such file");
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxTextFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof())
    return errorf(Status::systemError, "the file cannot be read, or is longer than %zu bytes",
                  kMaxTextFileBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace cinch
