#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "common/replace_file.h"
#include "common/text_file.h"
#include "tools/cinch/bench/plot.h"
#include "tools/cinch/bench/progress.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/tune/choice.h"
#include "tools/cinch/tune/options.h"
#include "tools/cinch/tune/report.h"

namespace cinch {
namespace {

using tune::Measurement;
using tune::Options;
using tune::Pair;
using tune::PairResult;
using tune::State;

constexpr int kFailed = 1;

int failure(const Error& error) {
  fmt::print(stderr, "cinch tune: {}\n", error.message);
  return error.status == Status::invalidUsage ? kExitUsage : kFailed;
}

// The rules that are there already. Found out before hours of measuring, not after.
Result<std::vector<tuner::Rule>> rulesBefore(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::vector<tuner::Rule>();
  const auto text = readTextFile(path);
  if (!text.ok())
    return errorf(Status::invalidUsage, "%s: %s", path.c_str(), text.error().message.c_str());
  auto rules = tuner::parseRules(text.value());
  if (rules.ok()) return rules;
  return errorf(Status::invalidUsage, "%s would be replaced, but is no file of rules (%s)",
                path.c_str(), rules.error().message.c_str());
}

bool wasRefused(const std::vector<Pair>& pairs, const std::vector<PairResult>& results,
                const Pair& pair) {
  for (size_t i = 0; i < results.size(); ++i)
    if (pairs[i].collective == pair.collective && pairs[i].combination == pair.combination &&
        !results[i].candidate)
      return true;
  return false;
}

Result<PairResult> measurePair(const Options& options, const Pair& pair) {
  const std::string scratch = options.state + ".bench";
  auto own = tune::measure(options, pair.collective, {}, scratch);
  if (!own.ok())
    return errorf(Status::systemError, "cinch bench %s fails with NCCL's own choice: %s",
                  pair.collective.c_str(), own.error().message.c_str());
  const auto variables = tune::variablesOf(pair.combination, tune::tunedCollective(pair.collective),
                                           own.value().ncclVersion);
  auto candidate = tune::measure(options, pair.collective, variables, scratch);
  PairResult result{std::move(own.value()), std::nullopt, {}};
  if (candidate.ok())
    result.candidate = std::move(candidate.value());
  else
    result.refusal = candidate.error().message;
  return result;
}

Result<void> sweep(const Options& options, const std::vector<Pair>& pairs, State& state) {
  bench::Progress progress(pairs.size());
  if (!state.results().empty())
    fmt::print(stderr, "cinch tune: goes on behind {} of {} measurements ({})\n",
               state.results().size(), pairs.size(), options.state);
  while (state.results().size() < pairs.size()) {
    const size_t next = state.results().size();
    const Pair& pair = pairs[next];
    progress.show(next, pair.collective + ", " + tune::describe(pair.combination));
    if (wasRefused(pairs, state.results(), pair)) {
      CINCH_TRY(state.add({{}, {}, "refused before"}));
      continue;
    }
    auto result = measurePair(options, pair);
    CINCH_TRY(result);
    CINCH_TRY(state.add(std::move(result.value())));
  }
  return {};
}

void printRefusals(const std::vector<Pair>& pairs, const std::vector<PairResult>& results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].own && !results[i].candidate)
      fmt::print("# {}, {}: refused ({})\n", pairs[i].collective,
                 tune::describe(pairs[i].combination), results[i].refusal);
}

// That of the first pair: all are of the same job.
const Measurement& firstOf(const std::vector<PairResult>& results) {
  return *std::find_if(results.begin(), results.end(), [](const PairResult& result) {
            return result.own.has_value();
          })->own;
}

Result<void> conclude(const Options& options, const std::vector<Pair>& pairs, const State& state,
                      const std::vector<tuner::Rule>& before) {
  const auto& results = state.results();
  const Measurement& first = firstOf(results);
  const auto verdicts = tune::judge(pairs, results);
  const auto rules = tune::rulesOf(verdicts, first.nRanks, first.nNodes);
  printRefusals(pairs, results);
  fmt::print("{}", tune::verdictTable(verdicts));
  CINCH_TRY(replaceFile(options.output, tune::ruleFile(before, rules, verdicts, first)));
  fmt::print("# {} rules for {}, in {}\n", rules.size(), tune::describeJob(first), options.output);
  if (options.plotFile.empty()) return {};
  const std::string title = fmt::format("{} ranks, {} nodes, NCCL {}{}", first.nRanks, first.nNodes,
                                        first.ncclVersion, first.emulator ? " (emulator)" : "");
  return bench::drawPlot(tune::plotScript(verdicts, title, options.plotFile));
}

Result<void> tuneWith(Options options) {
  CINCH_TRY(tune::completeOptions(options));
  const std::vector<Pair> pairs = tune::pairsOf(options);
  if (pairs.empty())
    return errorf(Status::invalidUsage,
                  "no collective has any of these algorithms with any of these protocols");
  const auto before = rulesBefore(options.output);
  CINCH_TRY(before);
  auto state = State::open(options);
  CINCH_TRY(state);
  CINCH_TRY(sweep(options, pairs, state.value()));
  return conclude(options, pairs, state.value(), before.value());
}

}  // namespace

int runTune(const Options& options) {
  const Result<void> done = tuneWith(options);
  return done ? kExitOk : failure(done.error());
}

}  // namespace cinch
