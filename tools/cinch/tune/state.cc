#include "tools/cinch/tune/state.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/replace_file.h"
#include "common/text.h"
#include "common/text_file.h"

namespace cinch::tune {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

// What must be equal for measurements to belong to the same sweep.
Json sweepOf(const Options& options) {
  return {{"format", kFormat},
          {"collectives", options.collectives},
          {"min_bytes", options.minBytes},
          {"max_bytes", options.maxBytes},
          {"step_factor", options.stepFactor},
          {"iterations", options.iterations},
          {"warmups", options.warmups},
          {"algorithms", options.algorithms},
          {"protocols", options.protocols},
          {"channels", options.channels},
          {"repeats", options.repeats},
          {"ranks", options.ranks},
          {"hosts", options.hosts},
          {"nccl", options.nccl},
          {"emulator", options.emulator},
          {"launcher", options.launcher}};
}

std::string lineOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json toJson(const PairResult& result) {
  const auto orNull = [](const std::optional<Measurement>& measurement) {
    return measurement ? tune::toJson(*measurement) : Json();
  };
  return {{"own", orNull(result.own)},
          {"candidate", orNull(result.candidate)},
          {"refusal", result.refusal}};
}

std::optional<PairResult> resultFrom(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("own") || !json.contains("candidate") ||
      !json.contains("refusal") || !json["refusal"].is_string())
    return std::nullopt;
  PairResult result{std::nullopt, std::nullopt, json["refusal"]};
  for (auto [name, field] : {std::pair("own", &result.own), {"candidate", &result.candidate}}) {
    if (json[name].is_null()) continue;
    auto measurement = measurementFrom(json[name]);
    if (!measurement.ok()) return std::nullopt;
    *field = std::move(measurement.value());
  }
  return result;
}

// Up to the first line that is not whole.
std::vector<PairResult> resultsIn(std::string_view text, const Json& sweep) {
  std::vector<PairResult> results;
  if (Json::parse(takeUntil(text, "\n"), nullptr, false) != sweep) return results;
  while (text.find('\n') != std::string_view::npos) {
    auto result = resultFrom(takeUntil(text, "\n"));
    if (!result) break;
    results.push_back(std::move(*result));
  }
  return results;
}

}  // namespace

Result<State> State::open(const Options& options) {
  const Json sweep = sweepOf(options);
  const auto known = readTextFile(options.state);
  std::vector<PairResult> results;
  if (known.ok()) results = resultsIn(known.value(), sweep);
  if (results.size() >= pairsOf(options).size()) results.clear();
  std::string text = lineOf(sweep);
  for (const PairResult& result : results) text += lineOf(toJson(result));
  CINCH_TRY(replaceFile(options.state, text));
  return State(options.state, std::move(results));
}

Result<void> State::add(PairResult result) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path_.c_str(), "a"), std::fclose);
  const std::string line = lineOf(toJson(result));
  const bool isWritten = file != nullptr &&
                         std::fwrite(line.data(), 1, line.size(), file.get()) == line.size() &&
                         std::fflush(file.get()) == 0;
  if (!isWritten)
    return errorf(Status::systemError, "cannot write %s: %s", path_.c_str(), strerror(errno));
  results_.push_back(std::move(result));
  return {};
}

}  // namespace cinch::tune
