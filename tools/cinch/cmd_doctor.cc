#include <fmt/core.h>
#include <unistd.h>

#include "tools/cinch/commands.h"
#include "tools/cinch/doctor/gather.h"
#include "tools/cinch/doctor/judge.h"

namespace cinch {
namespace {

using namespace doctor;

void append(Checks& all, const Checks& more) {
  all.insert(all.end(), more.begin(), more.end());
}

Checks lookAtAll(const std::vector<std::string>& command) {
  const Variables variables(environ);
  const SettingFacts settings = gatherSettings(variables);
  const NetworkFacts network = gatherNetwork("", variables);
  const ProgramFacts program = gatherProgram(command);
  int cudaMajor = 0;
  const std::vector<LibraryFact> libraries = gatherLibraries(cudaMajor);
  const DriverFacts driver = gatherDriver("", cudaMajor);
  Checks all = judgeSettings(settings);
  append(all, judgeConflicts(settings, network));
  append(all, judgeLibraries(libraries, driver));
  append(all, judgeNccl(gatherNccl(variables, program), driver));
  append(all, judgeDriver(driver));
  append(all, judgeNetwork(network));
  append(all, judgeLimits(gatherLimits("", settings.params, !network.ports.empty())));
  append(all, judgePlugins(gatherPlugins(variables)));
  append(all, judgeExchange(gatherExchange(variables)));
  append(all, judgeProgram(program));
  return all;
}

}  // namespace

int diagnose(const DoctorOptions& options) {
  const Checks checks = lookAtAll(options.command);
  const bool isText = options.format == OutputFormat::text;
  fmt::print("{}", isText ? viewText(checks) : viewJson(checks));
  return hasFailed(checks) ? kExitFailed : kExitOk;
}

}  // namespace cinch
