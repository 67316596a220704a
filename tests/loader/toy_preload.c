/* Another preloaded library, of the kind that wraps a function of the C library: it asks dlsym for
 * the next definition, the one of malloc from inside of malloc, at the first allocation of the
 * process. An allocation during the look-up would recurse in earnest, so it ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#define TOY_EXPORT __attribute__((visibility("default")))

static __thread int lookingUp = 0;

static void* next(const char* name) {
  if (lookingUp) _exit(97);
  lookingUp = 1;
  void* function = dlsym(RTLD_NEXT, name);
  lookingUp = 0;
  return function;
}

TOY_EXPORT void* malloc(size_t size) {
  static void* (*real)(size_t) = NULL;
  if (real == NULL) real = (void* (*)(size_t))next("malloc");
  return real(size);
}

TOY_EXPORT pid_t getppid(void) {
  pid_t (*real)(void) = (pid_t(*)(void))next("getppid");
  return real();
}
