#include "tests/net/chaos/failure.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

namespace cinch::chaos {
namespace {

std::string processName = "process";

}  // namespace

void setProcessName(const char* name) {
  processName = name;
}

void fail(const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "%s (%d): %s\n", processName.c_str(), getpid(), text);
  fflush(stderr);
  _exit(1);
}

}  // namespace cinch::chaos
