#include "net_plugin/socket/statistics.h"

#include <nlohmann/json.hpp>

#include "common/text_table.h"

namespace cinch::net {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of the JSON; raised when a field changes its meaning or goes

FlowCounters totalsOf(const PeerFigures& peer) {
  FlowCounters totals;
  for (const FlowFigures& flow : peer.flows) add(totals, flow.counters);
  return totals;
}

FlowCounters totalsOf(const NetworkFigures& network) {
  FlowCounters totals;
  for (const PeerFigures& peer : network.peers) add(totals, totalsOf(peer));
  return totals;
}

std::string counted(uint64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

std::string orDash(const std::string& text) {
  return text.empty() ? "-" : oneLine(text);
}

TableRow rowOf(const FlowFigures& flow, size_t index) {
  const FlowCounters& counters = flow.counters;
  return {std::to_string(index),
          orDash(flow.local),
          orDash(flow.remote),
          flow.isOpen ? "open" : "closed",
          std::to_string(counters.sentBytes),
          std::to_string(counters.receivedBytes),
          shortNumber(flow.bytesPerSecond),
          std::to_string(flow.roundTripUs),
          std::to_string(counters.retransmissions),
          std::to_string(counters.chunks),
          std::to_string(counters.repeatedChunks),
          std::to_string(counters.damagedChunks),
          std::to_string(counters.quarantines),
          std::to_string(counters.openings),
          std::to_string(counters.losses),
          std::to_string(counters.failedOpenings)};
}

std::string formatPeer(const PeerFigures& peer) {
  std::vector<TableRow> rows = {{"flow", "local", "remote", "state", "sent", "received",
                                 "bytes/s sent", "round trip us", "retransmits", "chunks", "again",
                                 "damaged", "quarantines", "opened", "lost", "failed"}};
  for (const FlowFigures& flow : peer.flows) rows.push_back(rowOf(flow, rows.size() - 1));
  std::string text = '\n' + oneLine(peer.name) + (peer.isGone ? ", gone" : "");
  if (!peer.error.empty()) text += ": " + oneLine(peer.error);
  return text + '\n' + formatTable(rows);
}

std::string headLine(const NetworkFigures& network) {
  std::string text = "device " + oneLine(network.device) + ": " +
                     counted(network.strangers, "stranger", "strangers");
  if (network.failedAccepts > 0) {
    text += ", " + counted(network.failedAccepts, "connection", "connections") +
            " that could not be taken";
  }
  if (network.forgottenPeers > 0) {
    text += ", " + counted(network.forgottenPeers, "link", "links") +
            " of long ago that this report leaves out";
  }
  return text + '\n';
}

Json toJson(const FlowCounters& counters) {
  return {{"sent_bytes", counters.sentBytes},
          {"received_bytes", counters.receivedBytes},
          {"retransmissions", counters.retransmissions},
          {"chunks", counters.chunks},
          {"repeated_chunks", counters.repeatedChunks},
          {"damaged_chunks", counters.damagedChunks},
          {"quarantines", counters.quarantines},
          {"openings", counters.openings},
          {"losses", counters.losses},
          {"failed_openings", counters.failedOpenings}};
}

Json orNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json toJson(const FlowFigures& flow) {
  Json json = {{"local", orNull(flow.local)},
               {"remote", orNull(flow.remote)},
               {"open", flow.isOpen},
               {"bytes_per_second", flow.bytesPerSecond},
               {"round_trip_us", flow.roundTripUs}};
  json.update(toJson(flow.counters));
  return json;
}

Json toJson(const PeerFigures& peer) {
  Json flows = Json::array();
  for (const FlowFigures& flow : peer.flows) flows.push_back(toJson(flow));
  return {{"name", peer.name},
          {"gone", peer.isGone},
          {"error", orNull(peer.error)},
          {"flows", std::move(flows)},
          {"totals", toJson(totalsOf(peer))}};
}

}  // namespace

void add(FlowCounters& counters, const FlowCounters& more) {
  counters.openings += more.openings;
  counters.failedOpenings += more.failedOpenings;
  counters.losses += more.losses;
  counters.sentBytes += more.sentBytes;
  counters.receivedBytes += more.receivedBytes;
  counters.retransmissions += more.retransmissions;
  counters.chunks += more.chunks;
  counters.repeatedChunks += more.repeatedChunks;
  counters.damagedChunks += more.damagedChunks;
  counters.quarantines += more.quarantines;
}

std::string formatText(const NetworkFigures& network) {
  std::string text = "Cinch network report\n\n" + headLine(network);
  for (const PeerFigures& peer : network.peers) text += formatPeer(peer);
  const FlowCounters totals = totalsOf(network);
  return text + "\ntotal: " + std::to_string(totals.sentBytes) + " bytes sent, " +
         std::to_string(totals.receivedBytes) + " received\n";
}

std::string formatJson(const NetworkFigures& network) {
  Json peers = Json::array();
  for (const PeerFigures& peer : network.peers) peers.push_back(toJson(peer));
  const Json report = {{"format", kFormat},
                       {"device", network.device},
                       {"strangers", network.strangers},
                       {"failed_accepts", network.failedAccepts},
                       {"forgotten_peers", network.forgottenPeers},
                       {"peers", std::move(peers)},
                       {"totals", toJson(totalsOf(network))}};
  // Bytes that are not UTF-8 become U+FFFD: a report with an odd name is better than none.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace cinch::net
