#include <fmt/core.h>

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

// The rules that are there already. What is wrong with them is found out before hours of measuring;
// what is to stay of them, after: another sweep, or an editor, may have written meanwhile.
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

// What NCCL's own choice took in the first pair, once there is one.
const Measurement* firstOf(const std::vector<PairResult>& results) {
  for (const PairResult& result : results)
    if (result.own) return &*result.own;
  return nullptr;
}

// A sweep that goes on elsewhere, or with another NCCL, would be one of two jobs.
Result<void> checkIsSameJob(const Options& options, const Measurement* first,
                            const Measurement& now) {
  const bool isSame =
      first == nullptr || (first->nRanks == now.nRanks && first->nNodes == now.nNodes &&
                           first->ncclVersion == now.ncclVersion);
  if (isSame) return {};
  const auto describe = [](const Measurement& job) {
    return tune::describeJob(job) + " with NCCL " + job.ncclVersion;
  };
  return errorf(Status::systemError,
                "%s holds measurements of %s, and this is a job of %s: name another --state, or "
                "remove the file to begin anew",
                options.state.c_str(), describe(*first).c_str(), describe(now).c_str());
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
    if (tune::wasRefused(pairs, state.results(), pair)) {
      CINCH_TRY(state.add({{}, {}, "refused before"}));
      continue;
    }
    auto result = measurePair(options, pair);
    CINCH_TRY(result);
    CINCH_TRY(checkIsSameJob(options, firstOf(state.results()), *result.value().own));
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

Result<void> conclude(const Options& options, const std::vector<Pair>& pairs, const State& state) {
  const auto& results = state.results();
  const Measurement& first = *firstOf(results);
  const auto verdicts = tune::judge(pairs, results);
  const auto rules = tune::rulesOf(verdicts, first.nRanks, first.nNodes);
  printRefusals(pairs, results);
  fmt::print("{}", tune::verdictTable(verdicts));
  const auto before = rulesBefore(options.output);
  CINCH_TRY(before);
  CINCH_TRY(replaceFile(options.output, tune::ruleFile(before.value(), rules, verdicts, first)));
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
  CINCH_TRY(rulesBefore(options.output));
  auto state = State::open(options);
  CINCH_TRY(state);
  CINCH_TRY(sweep(options, pairs, state.value()));
  CINCH_TRY(conclude(options, pairs, state.value()));
  return state.value().end();
}

}  // namespace

int runTune(const Options& options) {
  const Result<void> done = tuneWith(options);
  return done ? kExitOk : failure(done.error());
}

}  // namespace cinch
