#include "interpose/real/nccl_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "interpose/real/loader_cache.h"
#include "interpose/real/nccl_content.h"
#include "interpose/real/shared_object.h"

namespace cinch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libnccl.so.2";
// Of the nvidia-nccl packages, below the folder that holds all packages.
constexpr const char* kPackageFile = "nvidia/nccl/lib/libnccl.so.2";
constexpr const char* kLoaderCache = "/etc/ld.so.cache";

class Candidates {
 public:
  void add(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error || std::find(paths_.begin(), paths_.end(), real.string()) != paths_.end()) return;
    const auto content = readNcclContent(real.string());
    if (content.ok() && content.value().exportsNccl && !content.value().isCinch)
      paths_.push_back(real.string());
  }
  std::vector<std::string> take() { return std::move(paths_); }

 private:
  std::vector<std::string> paths_;
};

// Where the loader looks for the dependencies of the object behind `handle`.
std::vector<std::string> searchFolders(void* handle) {
  Dl_serinfo head{};
  if (handle == nullptr || dlinfo(handle, RTLD_DI_SERINFOSIZE, &head) != 0) return {};
  const auto memory = std::make_unique<char[]>(head.dls_size);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.get());
  info->dls_size = head.dls_size;
  info->dls_cnt = head.dls_cnt;
  if (dlinfo(handle, RTLD_DI_SERINFO, info) != 0) return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

// torch/lib/libtorch_cuda.so and nvidia/nccl/lib lie below one folder.
void addPackagesAbove(const std::string& object, Candidates& candidates) {
  if (object.empty() || object.front() != '/') return;
  const fs::path root = "/";
  for (fs::path folder = fs::path(object).parent_path(); folder != root;
       folder = folder.parent_path())
    candidates.add(folder / kPackageFile);
}

void addFromLoaderCache(Candidates& candidates) {
  std::ifstream file(kLoaderCache, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  for (const std::string& path : findInLoaderCache(bytes, kFile)) candidates.add(path);
}

}  // namespace

std::vector<std::string> ncclFiles(const void* caller) {
  Candidates candidates;
  const std::string object = pathOf(caller);
  for (const std::string& folder : searchFolders(handleOf(caller)))
    candidates.add(fs::path(folder) / kFile);
  addPackagesAbove(object, candidates);
  for (const std::string& other : mappedObjects()) addPackagesAbove(other, candidates);
  addFromLoaderCache(candidates);
  return candidates.take();
}

}  // namespace cinch
