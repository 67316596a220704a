// A folder in the place of /sys, which is gone with this.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cinch::net::ib {

class FakeSysfs {
 public:
  FakeSysfs() {
    std::string name = (std::filesystem::temp_directory_path() / "cinch_sysfs_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~FakeSysfs() { std::filesystem::remove_all(path_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  // A file, and its folders.
  void add(const std::string& file) {
    const std::filesystem::path whole = path_ + file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << "1\n";
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace cinch::net::ib
