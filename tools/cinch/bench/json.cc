#include "tools/cinch/bench/json.h"

#include <nlohmann/json.hpp>

namespace cinch::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // raised when a field changes its meaning or goes

Json orNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json toJson(const Phase& phase) {
  Json json = {{"time_us", phase.microseconds},
               {"alg_bw", phase.bandwidth.algorithm},
               {"bus_bw", phase.bandwidth.bus},
               {"wrong", nullptr},
               {"nmse", nullptr},
               {"nmse_bound", nullptr},
               {"largest_error", nullptr},
               {"error_bound", nullptr}};
  if (phase.checked) {
    json["wrong"] = phase.checked->wrong;
    json["nmse"] = phase.checked->nmse;  // null where not finite
    json["nmse_bound"] = phase.checked->tolerance.nmse;
    json["largest_error"] = phase.checked->largestError;
    json["error_bound"] = phase.checked->tolerance.value;
  }
  json["path"] = nameOf(phase.path);
  json["codec"] = orNull(phase.codec);
  json["reason"] = orNull(phase.reason);
  json["ratio"] = phase.ratio;
  return json;
}

Json toJson(const Row& row) {
  return {{"size", row.shape.bytes()},
          {"count", row.shape.count},
          {"type", row.type},
          {"redop", row.operation},
          {"root", -1},
          {"out_of_place", toJson(row.outOfPlace)},
          {"in_place", toJson(row.inPlace)}};
}

Json toJson(const RankPlace& place) {
  return {{"pid", place.pid}, {"host", place.host}, {"device", place.device}, {"bus", place.bus}};
}

Json argumentsOf(const RunFacts& facts) {
  return {{"min_bytes", facts.minBytes},   {"max_bytes", facts.maxBytes},
          {"step_bytes", facts.stepBytes}, {"step_factor", facts.stepFactor},
          {"iters", facts.iterations},     {"warmup_iters", facts.warmups},
          {"check", facts.checks},         {"cudagraph", facts.graphLaunches},
          {"unalign", facts.unaligned},    {"hosts", facts.hosts}};
}

}  // namespace

std::string formatJson(const RunFacts& facts, const std::vector<RankPlace>& places,
                       const std::vector<Row>& rows) {
  Json devices = Json::array(), results = Json::array();
  for (const RankPlace& place : places) devices.push_back(toJson(place));
  for (const Row& row : rows) results.push_back(toJson(row));
  const Totals totals = totalsOf(rows);
  const Json report = {
      {"format", kFormat},
      {"cinch_version", CINCH_VERSION},
      {"collective", facts.collective},
      {"nccl",
       {{"version", facts.ncclVersion}, {"path", facts.ncclPath}, {"emulator", facts.emulator}}},
      {"cinch", {{"preloaded", facts.cinch}, {"settings", orNull(facts.settings)}}},
      {"ranks", facts.ranks},
      {"devices", std::move(devices)},
      {"arguments", argumentsOf(facts)},
      {"results", std::move(results)},
      {"out_of_bounds", totals.wrong},
      {"avg_bus_bw", totals.busBandwidth}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace cinch::bench
