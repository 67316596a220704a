#include "common/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "common/param.h"

namespace cinch {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // False where what was written is lost, as file systems over a network may say only now.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

Error fileError(const char* what, const std::string& path) {
  const std::string cause = std::generic_category().message(errno);
  return errorf(Status::systemError, "cannot %s %s: %s", what, path.c_str(), cause.c_str());
}

Result<void> writeFile(const std::string& path, const std::string& content) {
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return fileError("create", path);
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = ::write(file.get(), content.data() + done, content.size() - done);
    if (written < 0 && errno != EINTR) return fileError("write", path);
    if (written > 0) done += static_cast<size_t>(written);
  }
  return file.close() ? Result<void>() : fileError("write", path);
}

}  // namespace

Result<void> replaceFile(const std::string& path, const std::string& content) {
  const std::string temporary = path + expandPath(".tmp.%h.%p");
  Result<void> written = writeFile(temporary, content);
  if (written && rename(temporary.c_str(), path.c_str()) != 0) {
    written = fileError("replace", path);
  }
  if (!written) unlink(temporary.c_str());
  return written;
}

}  // namespace cinch
