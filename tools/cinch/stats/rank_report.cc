#include "tools/cinch/stats/rank_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace cinch::stats {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;

std::string textOf(const Json& object, const char* field) {
  const Json& value = object.at(field);
  return value.is_null() ? "" : value.get<std::string>();
}

// Figures that were not finite are null.
double numberOf(const Json& object, const char* field) {
  const Json& value = object.at(field);
  return value.is_null() ? NAN : value.get<double>();
}

ReportOrigin originOf(const Json& json) {
  ReportOrigin origin;
  origin.version = textOf(json, "version");
  origin.host = textOf(json, "host");
  origin.process = json.at("process");
  origin.batchJob = textOf(json, "batch_job");
  origin.startedAt = json.at("started_at");
  origin.writtenAt = json.at("written_at");
  return origin;
}

GuardValues guardOf(const Json& json) {
  return {.checks = json.at("checks"),
          .breaches = json.at("breaches"),
          .nmse = numberOf(json, "nmse"),
          .powerRatio = numberOf(json, "power_ratio"),
          .cosine = numberOf(json, "cosine"),
          .budget = numberOf(json, "budget")};
}

SendingValues sendingOf(const Json& json) {
  SendingValues sending;
  sending.choice = textOf(json, "choice");
  sending.milliseconds = {numberOf(json, "plain_ms"), numberOf(json, "stateless_ms"),
                          numberOf(json, "full_ms")};
  sending.percentSd = json.at("sd_percent").get<std::array<double, 3>>();
  sending.minBytes = json.at("min_bytes");
  sending.periods = json.at("periods");
  sending.examinations = json.at("examinations");
  sending.examinedAt = json.at("examined_at");
  sending.changes = json.at("changes");
  return sending;
}

SlotFigures slotOf(const Json& json) {
  return {.name = textOf(json, "name"),
          .codec = textOf(json, "codec"),
          .gain = numberOf(json, "gain"),
          .calls = json.at("calls"),
          .bytesIn = json.at("bytes_in"),
          .wireBytes = json.at("wire_bytes"),
          .ratio = numberOf(json, "ratio"),
          .nmse = numberOf(json, "nmse"),
          .nmseReduce = numberOf(json, "nmse_reduce"),
          .residualResets = json.at("residual_resets"),
          .strangers = json.at("residual_strangers"),
          .overflows = json.at("residual_overflows"),
          .plans = json.at("plans"),
          .bitsPerValue = numberOf(json, "bits_per_value"),
          .residualBytes = json.at("residual_bytes"),
          .codecInForce = textOf(json, "codec_in_force"),
          .guard = guardOf(json.at("guard")),
          .sending = sendingOf(json.at("sending"))};
}

CommFigures commOf(const Json& json) {
  CommFigures comm;
  comm.name = textOf(json, "name");
  comm.rank = json.at("rank");
  comm.nRanks = json.at("ranks");
  comm.verdict = textOf(json, "verdict");
  comm.agreedName = textOf(json, "agreed_name");
  comm.sending = sendingOf(json.at("sending"));
  comm.workspaceBytes = json.at("memory").at("workspace");
  for (const Json& slot : json.at("slots")) comm.slots.push_back(slotOf(slot));
  for (const auto& [reason, passed] : json.at("passed").items()) {
    comm.passed.push_back({reason, passed.at("calls"), passed.at("bytes")});
  }
  return comm;
}

}  // namespace

Result<RankReport> parseReport(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat) {
      return errorf(Status::invalidArgument, "a report of another format: use its own `cinch`");
    }
    RankReport report{originOf(json.at("origin")), {}};
    for (const Json& comm : json.at("communicators")) report.comms.push_back(commOf(comm));
    return report;
  } catch (const Json::exception& error) {
    return errorf(Status::invalidArgument, "no report that CINCH_STATS has written: %s",
                  error.what());
  }
}

}  // namespace cinch::stats
