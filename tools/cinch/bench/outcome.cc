#include "tools/cinch/bench/outcome.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/param.h"
#include "common/text_file.h"

namespace cinch::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kVariable = "CINCH_STATS";

// The entry of a list that has the name; null where there is none.
const Json* named(const Json& list, const std::string& name) {
  for (const Json& entry : list)
    if (entry.at("name") == name) return &entry;
  return nullptr;
}

std::string textOf(const Json& value) {
  return value.is_null() ? "" : value.get<std::string>();
}

CallRecord recordOf(const Json& comm, const std::string& name) {
  CallRecord record;
  if (const Json* call = named(comm.at("calls"), name)) {
    record.calls = call->at("calls");
    record.compressed = call->at("compressed");
    record.latest = call->at("latest");
  }
  if (const Json* slot = named(comm.at("slots"), name)) {
    record.codec = slot->at("codec");
    // Adaptive precision has coarser ones beside the one in force.
    const std::string inForce = textOf(slot->at("codec_in_force"));
    if (record.codec != "auto" && !inForce.empty()) record.codec = inForce;
    record.gain = slot->at("gain");
    const double calls = slot->at("calls");
    if (calls > 0) record.wireBytesPerCall = slot->at("wire_bytes").get<double>() / calls;
  }
  return record;
}

std::string& temporaryPath() {
  static std::string path;
  return path;
}

// Cinch writes the report once more when the process ends; what was registered before runs later.
void removeAtExit(const std::string& path) {
  temporaryPath() = path;
  std::atexit([] {
    std::error_code ignored;
    for (const char* suffix : {".txt", ".json", ".net.txt", ".net.json"})
      std::filesystem::remove(temporaryPath() + suffix, ignored);
  });
}

}  // namespace

Result<CallRecord> recordOf(const std::string& report, const std::string& name, int ranks) {
  try {
    const Json all = Json::parse(report);
    for (const Json& comm : all.at("communicators"))
      if (comm.at("ranks") == ranks) return recordOf(comm, name);
    return CallRecord{};
  } catch (const Json::exception& error) {
    return errorf(Status::invalidArgument, "not a report of Cinch's: %s", error.what());
  }
}

Path pathOf(const CallRecord& before, const CallRecord& after, uint64_t timed) {
  const uint64_t compressed = after.compressed - before.compressed;
  if (compressed == 0) return Path::passed;
  return compressed >= timed ? Path::compressed : Path::mixed;
}

const char* nameOf(Path path) {
  constexpr const char* kNames[] = {"plain", "passed", "compressed", "mixed"};
  return kNames[static_cast<size_t>(path)];
}

ReportFile::ReportFile(int rank) : path_(statsPath(processParams().params)) {
  const std::string pid = std::to_string(getpid());
  if (path_.empty()) {
    path_ = (std::filesystem::temp_directory_path() / ("cinch-bench-report." + pid)).string();
    removeAtExit(path_);
  } else if (rank != 0 && path_.find(pid) == std::string::npos) {
    path_ += ".rank" + std::to_string(rank);
  } else {
    return;
  }
  setenv(kVariable, path_.c_str(), 1);
}

std::string ReportFile::refresh(const Library& library) const {
  ncclUniqueId id;
  library.check(library.ncclGetUniqueId(&id), "ncclGetUniqueId");
  ncclComm_t comm = nullptr;
  library.check(library.ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
  library.check(library.ncclCommDestroy(comm), "ncclCommDestroy");
  const auto text = readTextFile(path_ + ".json");
  if (!text.ok())
    throw std::runtime_error(
        fmt::format("{}.json: {} (CINCH_STATS must name a file: Cinch's report "
                    "tells compressed calls from others)",
                    path_, text.error().message));
  return text.value();
}

}  // namespace cinch::bench
