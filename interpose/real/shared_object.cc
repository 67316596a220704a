#include "interpose/real/shared_object.h"

#include <dlfcn.h>
#include <link.h>

namespace cinch {
namespace {

int collect(dl_phdr_info* object, size_t, void* out) {
  const char* name = object->dlpi_name;
  static_cast<std::vector<std::string>*>(out)->emplace_back(name == nullptr ? "" : name);
  return 0;
}

}  // namespace

const void* baseOf(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

std::string pathOf(const void* address) {
  Dl_info info{};
  const bool known = dladdr(address, &info) != 0 && info.dli_fname != nullptr;
  return known ? info.dli_fname : std::string();
}

std::vector<std::string> mappedObjects() {
  // The loader's lock is held during the walk, so nothing is opened before it is over.
  std::vector<std::string> paths;
  dl_iterate_phdr(collect, &paths);
  return paths;
}

void* handleOf(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
}

void* handleOf(const void* address) {
  Dl_info info{};
  link_map* object = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0)
    return nullptr;
  // The program itself has no name that the loader would find again.
  const char* name = object->l_name[0] == '\0' ? nullptr : object->l_name;
  return dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
}

}  // namespace cinch
