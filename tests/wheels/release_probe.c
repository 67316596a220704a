/* Linked to one release of NCCL: prints what it says of itself, and for each name given where a
 * program finds it ("-" for nowhere). NCCL may print too, so each line is marked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>

static const char* whereIs(const char* name) {
  Dl_info found;
  void* symbol = dlsym(RTLD_DEFAULT, name);
  return symbol != NULL && dladdr(symbol, &found) != 0 ? found.dli_fname : "-";
}

int main(int argc, char** argv) {
  int version = 0;
  ncclUniqueId id;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  printf("probe: %d\n", version);
  printf("probe: %d\n", ncclGetUniqueId(&id));
  for (int i = 1; i < argc; ++i) printf("probe: %s %s\n", argv[i], whereIs(argv[i]));
  return 0;
}
