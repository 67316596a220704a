#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "common/text_file.h"
#include "interpose/policy/reason.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/text_table.h"

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;

std::string textOr(const Json& object, const char* field, const char* otherwise) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? otherwise : found->get<std::string>();
}

TextRow rowOf(const Json& call) {
  return {call.at("name"),
          call.at("class"),
          std::to_string(call.at("calls").get<uint64_t>()),
          std::to_string(call.at("bytes").get<uint64_t>()),
          std::to_string(call.at("compressed").get<uint64_t>()),
          textOr(call, "codec", "-"),
          call.at("latest")};
}

void printCalls(const Json& calls) {
  std::vector<TextRow> rows = {
      {"CALL", "TAKEN FOR", "CALLS", "BYTES", "COMPRESSED", "CODEC", "LATEST"}};
  for (const Json& call : calls) rows.push_back(rowOf(call));
  printTable(rows);
}

// What was found out about calls that were examined.
void printEvidence(const Json& calls) {
  for (const Json& call : calls) {
    const std::string evidence = textOr(call, "evidence", "");
    if (!evidence.empty())
      fmt::print("{} is {}: {}.\n", call.at("name").get<std::string>(),
                 call.at("class").get<std::string>(), evidence);
  }
}

std::string figureOf(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? "-"
                                                   : fmt::format("{:.4g}", found->get<double>());
}

// What the guard has found in slots that it looked at.
void printChecks(const Json& slots) {
  std::vector<TextRow> rows = {{"CHECKED", "CODEC", "CHECKS", "BREACHES", "NMSE", "V", "COSINE"}};
  for (const Json& slot : slots) {
    const Json& guard = slot.at("guard");
    if (guard.at("checks") == 0) continue;
    rows.push_back({slot.at("name"), slot.at("codec"), figureOf(guard, "checks"),
                    figureOf(guard, "breaches"), figureOf(guard, "nmse"),
                    figureOf(guard, "power_ratio"), figureOf(guard, "cosine")});
  }
  if (rows.size() == 1) return;
  printTable(rows);
  fmt::print(
      "Of the last check: NMSE is the squared error over the exact result's power, V the result's\n"
      "power over that. NMSE says little of error feedback, since later calls bring what one "
      "leaves\n"
      "out; V is what Adam's second moment sees of it.\n");
}

// A row of what CINCH_WHEN=auto has timed, and how it is sent since.
void addTimings(std::vector<TextRow>& rows, const std::string& name, const Json& sending) {
  if (sending.at("examinations") == 0) return;
  const auto timeOf = [&](const char* field, size_t i) {
    if (sending.at(field) == 0) return std::string("-");
    return figureOf(sending, field) + " +- " +
           fmt::format("{:.0f} %", sending.at("sd_percent").at(i).get<double>());
  };
  std::string choice = sending.at("choice");
  if (const uint64_t bytes = sending.at("min_bytes"); bytes > 0)
    choice += fmt::format(" from {} MiB on", bytes >> 20);
  rows.push_back({name, timeOf("plain_ms", 0), timeOf("stateless_ms", 1), timeOf("full_ms", 2),
                  fmt::format("{}, at {} of {}", figureOf(sending, "examinations"),
                              figureOf(sending, "examined_at"), figureOf(sending, "periods")),
                  figureOf(sending, "changes"), choice});
}

// The training steps of a communicator, and calls that have no place in a step.
void printTimings(const Json& comm) {
  std::vector<TextRow> rows = {
      {"TIMED", "PLAIN MS", "STATELESS MS", "FULL MS", "EXAMINED", "CHANGED", "SENT"}};
  addTimings(rows, "a training step", comm.at("sending"));
  for (const Json& slot : comm.at("slots")) addTimings(rows, slot.at("name"), slot.at("sending"));
  if (rows.size() > 1) printTable(rows);
}

void printMemory(const Json& memory) {
  fmt::print("Device memory: {} bytes of workspace, {} of residuals.\n",
             figureOf(memory, "workspace"), figureOf(memory, "residuals"));
}

// Why the calls of a communicator pass, each reason once.
void printReasons(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const auto reason = reasonOf(name);
    if (reason == Reason::none) continue;
    const ReasonText text =
        reason ? textOf(*reason) : ReasonText{"a reason of another version", "use its `cinch`"};
    fmt::print("{}: {}.\n  What to do: {}.\n", name, text.why, text.remedy);
  }
}

void printComm(const Json& comm) {
  fmt::print("\n{}: {}\n", comm.at("name").get<std::string>(),
             comm.at("verdict").get<std::string>());
  std::set<std::string> reasons;
  for (const auto& [reason, figures] : comm.at("passed").items()) reasons.insert(reason);
  const Json& calls = comm.at("calls");
  for (const Json& call : calls) reasons.insert(call.at("latest").get<std::string>());
  if (!calls.empty()) printCalls(calls);
  printEvidence(calls);
  if (const auto slots = comm.find("slots"); slots != comm.end()) {
    printTimings(comm);
    if (comm.contains("memory")) printMemory(comm.at("memory"));
    printChecks(*slots);
  }
  printReasons(reasons);
}

}  // namespace

int explainReport(const std::string& path) {
  const auto text = readTextFile(path);
  if (!text.ok()) {
    fmt::print(stderr, "cinch explain: {}: {}\n", path, text.error().message);
    return kExitUsage;
  }
  try {
    const Json report = Json::parse(text.value());
    fmt::print("What became of each sort of call, and why.\n");
    for (const Json& comm : report.at("communicators")) printComm(comm);
  } catch (const Json::exception& error) {
    fmt::print(stderr, "cinch explain: {} is no report that CINCH_STATS has written: {}\n", path,
               error.what());
    return kExitUsage;
  }
  return kExitOk;
}

}  // namespace cinch
