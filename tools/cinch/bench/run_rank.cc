#include "tools/cinch/bench/run_rank.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>

#include "common/host_name.h"
#include "common/param.h"
#include "tools/cinch/bench/json.h"
#include "tools/cinch/bench/measure.h"
#include "tools/cinch/bench/plot.h"
#include "tools/cinch/bench/progress.h"
#include "tools/cinch/bench/table.h"

namespace cinch::bench {
namespace {

constexpr int kWrongValues = 1;

RunFacts factsOf(const Options& options, const Library& library, int ranks) {
  RunFacts facts;
  facts.collective = options.collective;
  facts.ncclVersion = library.versionText();
  facts.ncclPath = library.path;
  facts.emulator = library.emulator;
  facts.cinch = library.cinch;
  if (library.cinch) facts.settings = settingsText(processParams().params);
  facts.ranks = ranks;
  facts.hosts = options.hosts;
  facts.minBytes = options.minBytes;
  facts.maxBytes = options.maxBytes;
  facts.stepBytes = options.stepBytes;
  facts.stepFactor = options.stepFactor;
  facts.iterations = options.iterations;
  facts.warmups = options.warmups;
  facts.checks = options.checks;
  facts.graphLaunches = options.graphLaunches;
  facts.unaligned = options.unaligned;
  return facts;
}

// Pid, device, bus and host as a line, and back.
std::string placeLine(const Session& session) {
  char bus[32] = "";
  const Library& library = session.libraries();
  library.check(library.cudaDeviceGetPCIBusId(bus, sizeof bus, session.device()),
                "cudaDeviceGetPCIBusId");
  return fmt::format("{} {} {} {}", getpid(), session.device(), bus, hostName());
}

RankPlace placeOf(const std::string& line) {
  RankPlace place;
  char bus[32] = "", host[256] = "";
  std::sscanf(line.c_str(), "%d %d %31s %255s", &place.pid, &place.device, bus, host);
  place.bus = bus;
  place.host = host;
  return place;
}

std::vector<RankPlace> gatherPlaces(Session& session) {
  std::vector<RankPlace> places;
  for (const std::string& line : session.gather(placeLine(session)))
    places.push_back(placeOf(line));
  return places;
}

void writeFile(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) throw std::runtime_error(fmt::format("cannot write {} (-J)", path));
}

// All sizes, in each type and with each operation.
std::vector<Row> runSweep(Measurement& measurement, const Options& options, CallKind kind,
                          bool isShown) {
  const std::vector<uint64_t> sizes = options.sweep().sizes();
  const std::vector<ElementType> types = typesNamed(options.dataType);
  std::vector<Operation> operations = operationsNamed(options.operation);
  if (kind == CallKind::allGather) operations.resize(1);
  const size_t total = sizes.size() * types.size() * operations.size();
  std::optional<Progress> progress;
  if (isShown) progress.emplace(total);
  std::vector<Row> rows;
  for (const ElementType& type : types)
    for (const Operation& operation : operations)
      for (const uint64_t size : sizes) {
        if (progress) progress->show(rows.size(), fmt::format("{} {} B", type.name, size));
        rows.push_back(measurement.run(size, type, operation));
        if (progress) progress->clear();
        if (isShown) fmt::print("{}", tableRow(rows.back()));
        std::fflush(stdout);
      }
  return rows;
}

void report(const Options& options, const RunFacts& facts, const std::vector<RankPlace>& places,
            const std::vector<Row>& rows) {
  fmt::print("{}", tableFoot(totalsOf(rows), facts.collective));
  if (!options.jsonFile.empty()) writeFile(options.jsonFile, formatJson(facts, places, rows));
  if (options.plotFile.empty()) return;
  const auto drawn = drawPlot(plotScript(facts, rows, options.linkGigabits, options.plotFile));
  if (!drawn.ok()) throw std::runtime_error("--plot: " + drawn.error().message);
}

std::string libraryPath(const Options& options) {
  if (!options.emulator) return options.nccl;
  const std::string path = emulatorPath();
  if (path.empty())
    throw std::runtime_error(
        "--emulator: there is none beside this program; use one in a build folder");
  return path;
}

// What the libraries read when they make the first communicator.
void setEnvironment(const Options& options, const World& world) {
  // A benchmark makes one call over and over, which has no place in a step; and it is to show what
  // compressed calls take, also where plain ones are faster.
  setenv("CINCH_SLOTS", "signature", 0);
  setenv("CINCH_WHEN", "always", 0);
  if (options.hosts == 0) return;
  const std::string host = fmt::format("{}-bench-{}", hostName(), hostOf(world, options.hosts));
  setenv("NCCL_HOSTID", host.c_str(), 1);
}

}  // namespace

int runRank(const Options& options, const World& world) {
  setEnvironment(options, world);
  const Library library = loadLibrary(libraryPath(options));
  std::unique_ptr<ReportFile> reportFile;
  // With CINCH_MODE=off it counts nothing, and reports nothing.
  if (library.cinch && processParams().params.mode != Mode::off)
    reportFile = std::make_unique<ReportFile>(world.rank);
  const bool isFirst = world.rank == 0;
  const CallKind kind = findCollective(options.collective)->kind;
  Session session(library, world, options.idFile, options.timeoutSeconds);
  const RunFacts facts = factsOf(options, library, world.ranks);
  const std::vector<RankPlace> places = gatherPlaces(session);
  if (isFirst) fmt::print("{}", tableHead(facts, places));
  std::vector<Row> rows;
  {
    Measurement measurement(session, options, kind, isFirst ? reportFile.get() : nullptr);
    rows = runSweep(measurement, options, kind, isFirst);
  }
  session.close();
  if (isFirst) report(options, facts, places, rows);
  std::fflush(stdout);
  return totalsOf(rows).wrong == 0 ? 0 : kWrongValues;
}

}  // namespace cinch::bench
