/* Loads libraries and calls them as its arguments say, one after the other:
 *
 *   open FLAGS FILE   dlopen; FLAGS of l(ocal) g(lobal) d(eepbind) n(ow); FILE may be a bare name
 *   run FUNCTION      a function without arguments of the file opened last
 *   fetch             ncclAllReduce of the file opened last, by dlsym
 *   fetch-default     ncclAllReduce by dlsym(RTLD_DEFAULT)
 *   look              the same, without calling it
 *   lack NAME         a symbol that the file opened last does not have
 *   close             the file opened last
 *   race FILE FILE    eight threads; half of them open and fetch from the one file, half from the other
 *   parent            getppid()
 *
 * Prints "result N" for each call; ends with 2 where something cannot be loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/loader/toy_calls.h"

static int flagsOf(const char* text) {
  int flags = strchr(text, 'n') ? RTLD_NOW : RTLD_LAZY;
  if (strchr(text, 'g')) flags |= RTLD_GLOBAL;
  if (strchr(text, 'd')) flags |= RTLD_DEEPBIND;
  return flags;
}

static int print(int result) {
  printf("result %d\n", result);
  fflush(stdout);
  return 1;
}

static int fetch(void* handle) {
  const AllReduceFunction reduce = (AllReduceFunction)dlsym(handle, "ncclAllReduce");
  return reduce != NULL && print((int)callAllReduce(reduce));
}

/* A failed look-up has a message, and a good one leaves none. */
static int lack(void* handle, const char* name) {
  dlsym(handle, "ncclAllReduce");
  if (dlerror() != NULL) return 0;
  if (dlsym(handle, name) != NULL) return 0;
  const char* message = dlerror();
  return message != NULL && strstr(message, name) != NULL && print(0);
}

enum { kThreads = 8 };

static void* openAndFetch(void* file) {
  void* handle = dlopen((const char*)file, RTLD_LAZY);
  return handle != NULL && fetch(handle) ? file : NULL;
}

static int race(char** files) {
  pthread_t threads[kThreads];
  int good = 1;
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, openAndFetch, files[i % 2]);
  for (int i = 0; i < kThreads; ++i) {
    void* done = NULL;
    pthread_join(threads[i], &done);
    good = good && done != NULL;
  }
  return good;
}

int main(int argc, char** argv) {
  void* handle = NULL;
  int good = argc > 1;
  for (int i = 1; i < argc && good; ++i) {
    const char* step = argv[i];
    if (strcmp(step, "open") == 0 && i + 2 < argc) {
      handle = dlopen(argv[i + 2], flagsOf(argv[i + 1]));
      good = handle != NULL;
      i += 2;
    } else if (strcmp(step, "run") == 0 && i + 1 < argc) {
      int (*function)(void) = (int (*)(void))dlsym(handle, argv[++i]);
      good = function != NULL && print(function());
    } else if (strcmp(step, "lack") == 0 && i + 1 < argc) {
      good = lack(handle, argv[++i]);
    } else if (strcmp(step, "look") == 0) {
      good = dlsym(handle, "ncclAllReduce") != NULL;
    } else if (strcmp(step, "close") == 0) {
      good = dlclose(handle) == 0;
    } else if (strcmp(step, "race") == 0 && i + 2 < argc) {
      good = race(argv + i + 1);
      i += 2;
    } else if (strcmp(step, "parent") == 0) {
      good = print((int)getppid());
    } else {
      good = fetch(strcmp(step, "fetch") == 0 ? handle : RTLD_DEFAULT);
    }
  }
  if (!good) {
    const char* message = dlerror();
    fprintf(stderr, "driver: %s\n", message ? message : "bad arguments, or a symbol is missing");
  }
  return good ? 0 : 2;
}
