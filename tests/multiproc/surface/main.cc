// surface_rank --list
// surface_rank --case NAME --rank R --ranks N --folder F
#include <cstdio>
#include <cstring>

#include "tests/multiproc/surface/program.h"

namespace {

using namespace surface;

std::vector<Case> allCases() {
  std::vector<Case> all;
  for (const auto* cases : {&groupCases(), &operationCases(), &communicatorCases(), &graphCases(),
                            &trapCases(), &largeCases(), &defaultCases(), &controlCases()})
    all.insert(all.end(), cases->begin(), cases->end());
  return all;
}

int list() {
  for (const Case& it : allCases()) printf("%s %d\n", it.name, it.ranks);
  return 0;
}

std::string argument(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc; ++i)
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  fail(std::string("argument missing: ") + name);
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // lines of the log come between lines, not into them
  if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
  const std::string name = argument(argc, argv, "--case");
  const World world{.rank = std::stoi(argument(argc, argv, "--rank")),
                    .ranks = std::stoi(argument(argc, argv, "--ranks")),
                    .folder = argument(argc, argv, "--folder")};
  for (const Case& it : allCases()) {
    if (name != it.name) continue;
    it.run(world);
    printf("done\n");
    return 0;
  }
  fail("no such case: " + name);
}
