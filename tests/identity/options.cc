#include "tests/identity/options.h"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace cinch::identity {

Options readOptions(int argc, char** argv, const std::string& numberName, uint64_t number) {
  Options options{number, std::random_device()()};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    uint64_t* const value = name == numberName ? &options.number
                            : name == "--seed" ? &options.seed
                                               : nullptr;
    char* end = nullptr;
    if (value != nullptr && i + 1 < argc) *value = std::strtoull(argv[i + 1], &end, 10);
    if (end == nullptr || end == argv[i + 1] || *end != '\0') {
      std::fprintf(stderr, "usage: %s [%s N] [--seed S]\n", argv[0], numberName.c_str());
      std::exit(2);
    }
  }
  std::printf("%s %llu --seed %llu\n", numberName.c_str(),
              static_cast<unsigned long long>(options.number),
              static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  return options;
}

}  // namespace cinch::identity
