/* Drives any NCCL net plugin as NCCL does, and says which of NCCL's rules it keeps.
 *
 *   conformance build/lib/libnccl-net-cinch.so
 *   conformance --list
 *
 * docs/net-plugin.md says more. */
#include <stdio.h>

#include "tests/net/conformance/bench.h"
#include "tests/net/conformance/runner.h"

static bool isWanted(const Options* options, const Case* test, int version) {
  if (version < test->oldestVersion) return false;
  if (options->cases == NULL) return true;
  const bool others = options->cases[0] == '^';
  return listHas(options->cases + others, test->name) != others;
}

static bool runAndPrint(const Options* options, int version, const Case* test) {
  const double start = now();
  const Verdict verdict = runCase(options, version, test);
  const bool passed = verdict.text[0] == '\0';
  printf("v%-3d %-22s %s %7.3f s%s%s\n", version, test->name, passed ? "pass" : "FAIL",
         now() - start, passed ? "" : "  ", verdict.text);
  fflush(stdout);
  return passed;
}

/* "pass" or "fail": of a version that no case was run for, too. */
static const char* runVersion(const Options* options, int version) {
  int nRun = 0, nPassed = 0;
  for (int i = 0; i < kCaseCount; ++i) {
    if (!isWanted(options, &kCases[i], version)) continue;
    ++nRun;
    nPassed += runAndPrint(options, version, &kCases[i]);
  }
  return nRun > 0 && nPassed == nRun ? "pass" : "fail";
}

static void printQuoted(const char* text) {
  putchar('"');
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  putchar('"');
}

/* Null: neither there nor asked for. */
static const char* verdictOf(const Options* options, int exported, int index) {
  if (!options->versions[index]) return NULL;
  if (exported & 1 << index) return runVersion(options, kOldestVersion + index);
  return options->versionsGiven ? "absent" : NULL;
}

static int runConformance(const Options* options, int exported) {
  const char* verdicts[kVersions];
  bool good = true;
  for (int i = 0; i < kVersions; ++i) {
    verdicts[i] = verdictOf(options, exported, i);
    good = good && (verdicts[i] == NULL || verdicts[i][0] == 'p');
  }
  printf("{\"plugin\":");
  printQuoted(options->path);
  printf(",\"versions\":{");
  const char* comma = "";
  for (int i = 0; i < kVersions; ++i) {
    if (verdicts[i] == NULL) continue;
    printf("%s\"v%d\":\"%s\"", comma, kOldestVersion + i, verdicts[i]);
    comma = ",";
  }
  printf("}}\n");
  return good ? 0 : 1;
}

static int listCases(void) {
  for (int i = 0; i < kCaseCount; ++i) puts(kCases[i].name);
  return 0;
}

static bool casesExist(const Options* options) {
  if (options->cases == NULL) return true;
  const char* list = options->cases + (options->cases[0] == '^');
  int nKnown = 0, nNamed = 1;
  for (const char* at = list; *at != '\0'; ++at) nNamed += *at == ',';
  for (int i = 0; i < kCaseCount; ++i) nKnown += listHas(list, kCases[i].name);
  if (nKnown != nNamed) fprintf(stderr, "conformance: --list names the cases\n");
  return nKnown == nNamed;
}

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv);
  if (options.list) return listCases();
  if (!casesExist(&options)) return 2;
  const int exported = exportedVersions(options.path);
  if (exported < 0) return 1;
  return options.bench == kNoBench ? runConformance(&options, exported)
                                   : runBench(&options, exported);
}
