// Runs random programs as plain NCCL ranks that know nothing of Cinch; fuzz_driver.py compares what
// they write.
//
//   fuzz_rank --print SEED [--drop 5,6]
//   fuzz_rank --legal SEED [--drop 5,6]      fails where plain NCCL might not carry it out
//   fuzz_rank --seeds 1,2,7 --out FILE [--bits 4] [--feedback 1] [--rotated 1]
//             [--deadline 30] [--ranks-per-host 1] [--drop 5,6] [--without graphs,splits]
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include "tests/fuzz/legality.h"
#include "tests/fuzz/supervisor.h"

namespace {

using namespace cinch::fuzz;
using Options = std::map<std::string, std::string>;

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i] + 2] = argv[i + 1];
  return options;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

int number(const Options& options, const char* name, int fallback) {
  const auto found = options.find(name);
  return found == options.end() ? fallback : std::stoi(found->second);
}

Features featuresOf(Options& options) {
  Features features;
  for (const std::string& name : split(options["without"])) {
    if (name == "userOps") features.userOps = false;
    if (name == "splits") features.splits = false;
    if (name == "simulate") features.simulate = false;
    if (name == "graphs") features.graphs = false;
    if (name == "threads") features.threads = false;
    if (name == "nonBlocking") features.nonBlocking = false;
    if (name == "aborts") features.aborts = false;
  }
  return features;
}

RunSettings settingsOf(Options& options) {
  RunSettings settings;
  settings.outPath = options["out"];
  settings.tolerance.bits = number(options, "bits", 0);
  settings.tolerance.feedback = number(options, "feedback", 0) != 0;
  settings.tolerance.rotated = number(options, "rotated", 0) != 0;
  settings.features = featuresOf(options);
  for (const std::string& step : split(options["drop"]))
    settings.dropped.push_back(std::stoi(step));
  settings.deadline = number(options, "deadline", settings.deadline);
  settings.ranksPerHost = number(options, "ranks-per-host", settings.ranksPerHost);
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  const RunSettings settings = settingsOf(options);
  if (options.count("print") != 0) {
    const Program program = generate(std::stoull(options["print"]), settings.features);
    printf("%s", describe(without(program, settings.dropped)).c_str());
    return 0;
  }
  if (options.count("legal") != 0) {
    const Program program = generate(std::stoull(options["legal"]), settings.features);
    const auto violations = violationsOf(without(program, settings.dropped));
    for (const std::string& violation : violations) printf("%s\n", violation.c_str());
    return violations.empty() ? 0 : 1;
  }
  if (settings.outPath.empty()) {
    fprintf(stderr, "fuzz_rank: --seeds LIST --out FILE, or --print SEED\n");
    return 2;
  }
  for (const std::string& seed : split(options["seeds"])) runProgram(std::stoull(seed), settings);
  return 0;
}
