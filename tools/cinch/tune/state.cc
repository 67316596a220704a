#include "tools/cinch/tune/state.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "common/text_file.h"

namespace cinch::tune {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kEnd = "{\"ended\":true}\n";

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

struct Kept {
  std::vector<PairResult> results;
  size_t nBytes = 0;  // of the file; 0: the sweep begins anew
};

// Up to the first line that is not whole.
Kept keptOf(std::string_view text, const Json& sweep) {
  const size_t size = text.size();
  if (Json::parse(takeUntil(text, "\n"), nullptr, false) != sweep) return {};
  Kept kept{{}, size - text.size()};
  while (text.find('\n') != std::string_view::npos) {
    if (text == kEnd) return {};
    auto result = resultFrom(takeUntil(text, "\n"));
    if (!result) break;
    kept.results.push_back(std::move(*result));
    kept.nBytes = size - text.size();
  }
  return kept;
}

// Of this sweep or another one; what else a name may lead to is not to be lost.
bool isOfASweep(std::string_view text) {
  const Json first = Json::parse(takeUntil(text, "\n"), nullptr, false);
  return first.is_object() && first.contains("format");
}

Error cannotWrite(const std::string& path) {
  return errorf(Status::systemError, "cannot write %s: %s", path.c_str(), strerror(errno));
}

}  // namespace

Result<State> State::open(const Options& options) {
  const std::string& path = options.state;
  File file(std::fopen(path.c_str(), "a+e"), std::fclose);
  if (file == nullptr) return cannotWrite(path);
  if (flock(fileno(file.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return errorf(Status::systemError,
                  "%s belongs to a cinch tune that is still at work: wait for it, or name another "
                  "file by --state",
                  path.c_str());
  const auto text = readTextFile(path);
  if (!text.ok())
    return errorf(text.error().status, "%s: %s", path.c_str(), text.error().message.c_str());
  if (!text.value().empty() && !isOfASweep(text.value()))
    return errorf(Status::invalidUsage,
                  "%s would be replaced, but is no file of what cinch tune has measured: name "
                  "another one by --state",
                  path.c_str());
  const Json sweep = sweepOf(options);
  Kept kept = keptOf(text.value(), sweep);
  if (ftruncate(fileno(file.get()), static_cast<off_t>(kept.nBytes)) != 0) return cannotWrite(path);
  State state(path, std::move(file), std::move(kept.results));
  if (kept.nBytes == 0) CINCH_TRY(state.write(lineOf(sweep)));
  return state;
}

Result<void> State::add(PairResult result) {
  CINCH_TRY(write(lineOf(toJson(result))));
  results_.push_back(std::move(result));
  return {};
}

Result<void> State::end() {
  return write(kEnd);
}

Result<void> State::write(const std::string& line) {
  const bool isWritten = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                         std::fflush(file_.get()) == 0;
  return isWritten ? Result<void>() : cannotWrite(path_);
}

}  // namespace cinch::tune
