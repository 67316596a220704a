#include "common/trace_format.h"

#include <nlohmann/json.hpp>

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;

// A name in the viewer, of the process or, with a track, of one of its threads.
Json nameEvent(const char* what, const std::string& name, int process, size_t track) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

Json spanEvent(const TraceSpan& span, int process) {
  Json arguments = Json::object();
  for (const auto& [name, value] : span.arguments) arguments[name] = value;
  return {{"name", span.name},
          {"cat", "cinch"},
          {"ph", "X"},
          {"pid", process},
          {"tid", span.track},
          {"ts", span.start},
          {"dur", span.duration},
          {"args", std::move(arguments)}};
}

}  // namespace

std::string formatTrace(const TraceFigures& figures) {
  const ReportOrigin& origin = figures.origin;
  const std::string title = origin.host + ", process " + std::to_string(origin.process);
  Json events = Json::array();
  events.push_back(nameEvent("process_name", title, origin.process, 0));
  for (size_t i = 0; i < figures.tracks.size(); ++i)
    events.push_back(nameEvent("thread_name", figures.tracks[i], origin.process, i));
  for (const TraceSpan& span : figures.spans) events.push_back(spanEvent(span, origin.process));
  const Json trace = {{"displayTimeUnit", "ms"},
                      {"otherData", {{"version", origin.version}, {"dropped", figures.dropped}}},
                      {"traceEvents", std::move(events)}};
  // Names of hosts and calls may be no UTF-8.
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cinch
