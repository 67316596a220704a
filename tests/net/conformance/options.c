#include "tests/net/conformance/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/net/conformance/lane.h"

static const char kUsage[] =
    "usage: conformance [OPTIONS] PLUGIN.so\n"
    "Drives an NCCL net plugin as NCCL does, once for each version of the table that it exports.\n"
    "The last line is JSON; the exit status is 0 if all is well.\n"
    "\n"
    "  --versions v8,v11    only these; each has to be there\n"
    "  --cases a,b          only these; ^a,b: all but these\n"
    "  --list               names the cases\n"
    "  --timeout SECONDS    a case that takes longer hangs (30)\n"
    "  --device N           which of the plugin's devices (0)\n"
    "  --rank-env R:NAME=V  environment of rank 0 or 1 only, such as its devices; may be "
    "repeated.\n"
    "                       Cases in one process have that of rank 0\n"
    "  --verbose            prints the plugin's log lines\n"
    "\n"
    "Measurements, of the newest version or of that of --versions:\n"
    "  --bench pingpong     time of a message there and back\n"
    "  --bench stream       bytes per second in one direction\n"
    "  --bench check        no measurement: --messages N (1000) in one direction, of which every\n"
    "                       byte is compared\n"
    "  --bytes N            of a message (1048576; pingpong: 8)\n"
    "  --connections N      that move at once (1); pingpong has two\n"
    "  --window N           messages in flight on each (8)\n"
    "  --pause US           of a stream's side that finds nothing to do (0: it yields, as NCCL "
    "does):\n"
    "                       for machines with fewer cores than sides\n"
    "  --seconds S          that are measured (2), after --warmup S (0.5)\n"
    "  --listen-file PATH   the two sides are started one by one, in different namespaces if need\n"
    "  --connect-file PATH  be, and meet through files that begin with PATH; the first one "
    "measures\n";

_Noreturn static void refuse(const char* what, const char* value) {
  fprintf(stderr, "conformance: %s %s\n%s", what, value, kUsage);
  exit(2);
}

bool listHas(const char* list, const char* name) {
  const size_t length = strlen(name);
  for (const char* at = list; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

static void selectVersions(Options* options, const char* list) {
  bool any = false;
  for (int i = 0; i < kVersions; ++i) {
    char name[8];
    snprintf(name, sizeof name, "v%d", kOldestVersion + i);
    options->versions[i] = listHas(list, name);
    any = any || options->versions[i];
  }
  if (!any) refuse("no version in", list);
  options->versionsGiven = true;
}

static Bench benchNamed(const char* name) {
  if (strcmp(name, "pingpong") == 0) return kPingPong;
  if (strcmp(name, "stream") == 0) return kStream;
  if (strcmp(name, "check") == 0) return kCheck;
  refuse("no such measurement:", name);
}

static double numberWithin(const char* text, double least, double most) {
  char* end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= least && value <= most)) {
    refuse("not a possible value:", text);
  }
  return value;
}

enum { kMaxSeconds = 3600, kMaxBytes = 1 << 30, kMaxMessages = 1 << 24, kMaxPause = 100000 };

static void addRankSetting(Options* options, char* text) {
  const bool hasRank = (text[0] == '0' || text[0] == '1') && text[1] == ':';
  if (!hasRank || strchr(text + 2, '=') == NULL) refuse("not RANK:NAME=VALUE:", text);
  if (options->nRankSettings == kMaxRankSettings) refuse("too many settings:", text);
  options->rankSettings[options->nRankSettings++] = text;
}

void setRankEnvironment(const Options* options, int rank) {
  for (int i = 0; i < options->nRankSettings; ++i) {
    char* text = options->rankSettings[i];
    if (text[0] == '0' + rank) putenv(text + 2);
  }
}

static void takeOption(Options* options, int option, char* value) {
  switch (option) {
    case 'v':
      selectVersions(options, value);
      break;
    case 'c':
      options->cases = value;
      break;
    case 'l':
      options->list = true;
      break;
    case 't':
      options->timeoutSeconds = (int)numberWithin(value, 1, kMaxSeconds);
      break;
    case 'd':
      options->dev = (int)numberWithin(value, 0, 1000);
      break;
    case 'e':
      addRankSetting(options, value);
      break;
    case 'V':
      options->verbose = true;
      break;
    case 'b':
      options->bench = benchNamed(value);
      break;
    case 'n':
      options->bytes = (size_t)numberWithin(value, 1, kMaxBytes);
      break;
    case 'C':
      options->connections = (int)numberWithin(value, 1, kMaxLinks);
      break;
    case 'w':
      options->window = (int)numberWithin(value, 1, kMaxWindow);
      break;
    case 'm':
      options->messages = (int)numberWithin(value, 1, kMaxMessages);
      break;
    case 'p':
      options->pauseMicroseconds = (int)numberWithin(value, 0, kMaxPause);
      break;
    case 's':
      options->seconds = numberWithin(value, 0.001, kMaxSeconds);
      break;
    case 'W':
      options->warmup = numberWithin(value, 0, kMaxSeconds);
      break;
    case 'L':
      options->listenFile = value;
      break;
    case 'N':
      options->connectFile = value;
      break;
    default:
      fputs(kUsage, option == 'h' ? stdout : stderr);
      exit(option == 'h' ? 0 : 2);
  }
}

Options parseOptions(int argc, char** argv) {
  static const struct option kLong[] = {{"versions", required_argument, NULL, 'v'},
                                        {"cases", required_argument, NULL, 'c'},
                                        {"list", no_argument, NULL, 'l'},
                                        {"timeout", required_argument, NULL, 't'},
                                        {"device", required_argument, NULL, 'd'},
                                        {"rank-env", required_argument, NULL, 'e'},
                                        {"verbose", no_argument, NULL, 'V'},
                                        {"bench", required_argument, NULL, 'b'},
                                        {"bytes", required_argument, NULL, 'n'},
                                        {"connections", required_argument, NULL, 'C'},
                                        {"window", required_argument, NULL, 'w'},
                                        {"messages", required_argument, NULL, 'm'},
                                        {"pause", required_argument, NULL, 'p'},
                                        {"seconds", required_argument, NULL, 's'},
                                        {"warmup", required_argument, NULL, 'W'},
                                        {"listen-file", required_argument, NULL, 'L'},
                                        {"connect-file", required_argument, NULL, 'N'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  Options options = {.timeoutSeconds = 30,
                     .connections = 1,
                     .window = kSteps,
                     .messages = 1000,
                     .seconds = 2,
                     .warmup = 0.5};
  for (int i = 0; i < kVersions; ++i) options.versions[i] = true;
  for (int option; (option = getopt_long(argc, argv, "h", kLong, NULL)) != -1;) {
    takeOption(&options, option, optarg);
  }
  if (options.list) return options;
  if (optind + 1 != argc) refuse("one plugin has to be named;", "");
  if (options.bytes == 0) options.bytes = options.bench == kPingPong ? 8 : 1 << 20;
  /* A bare name is a file here, not one that the loader would search for. */
  static char absolute[PATH_MAX];
  options.path = realpath(argv[optind], absolute) != NULL ? absolute : argv[optind];
  return options;
}
