// Loads the extension named on the command line RTLD_LOCAL and lets it call NCCL. Exits 0 if its
// call arrived.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>

int main(int, char** argv) {
  void* extension = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (extension == nullptr) return printf("%s\n", dlerror()), 2;
  if (dlsym(RTLD_DEFAULT, "pncclAllReduce") != nullptr) return printf("NCCL is global\n"), 3;
  const auto reduce = reinterpret_cast<int64_t (*)()>(dlsym(extension, "reduceThroughExtension"));
  const int64_t calls = reduce();
  printf("calls %ld\n", static_cast<long>(calls));
  return calls == 1 ? 0 : 1;
}
