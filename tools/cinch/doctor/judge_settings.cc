#include <fmt/core.h>
#include <strings.h>

#include <algorithm>

#include "tools/cinch/doctor/judge.h"

namespace cinch::doctor {
namespace {

constexpr const char* kConflicts = "conflicts";

bool isActive(const PortFact& port) {
  return port.state == "ACTIVE";
}

Check conflict(Verdict verdict, std::string found, std::string fix) {
  return {kConflicts, verdict, std::move(found), std::move(fix)};
}

void checkVerbs(const SettingFacts& facts, const NetworkFacts& network, Checks& checks) {
  if (facts.params.net != NetChoice::verbs) return;
  const bool isDisabled = facts.variables["NCCL_IB_DISABLE"] == "1";
  if (isDisabled) {
    checks.push_back(conflict(Verdict::fail, "CINCH_NET=verbs, but NCCL_IB_DISABLE=1 forbids them",
                              "unset one of the two"));
  } else if (std::none_of(network.ports.begin(), network.ports.end(), isActive)) {
    checks.push_back(conflict(Verdict::fail,
                              "CINCH_NET=verbs, but no InfiniBand or RoCE port is active",
                              "set CINCH_NET=auto or socket, or bring a port up"));
  }
}

bool isCinchPlugin(const std::string& value) {
  return value == "cinch" || value.find("libnccl-net-cinch") != std::string::npos;
}

// Settings of the net plugin without the net plugin.
void checkNetPlugin(const SettingFacts& facts, Checks& checks) {
  const std::string plugin = facts.variables["NCCL_NET_PLUGIN"];
  const auto settings = facts.variables.namesWith("CINCH_NET");
  if (settings.empty() || isCinchPlugin(plugin)) return;
  if (plugin.empty()) {
    checks.push_back(
        conflict(Verdict::warn,
                 fmt::format("{} is set, but NCCL_NET_PLUGIN does not name Cinch's", settings[0]),
                 "start the job with `cinch run --net`, or set NCCL_NET_PLUGIN=cinch"));
  } else {
    checks.push_back(conflict(
        Verdict::fail,
        fmt::format("{} is set, but NCCL_NET_PLUGIN={} loads another plugin", settings[0], plugin),
        fmt::format("set NCCL_NET_PLUGIN=cinch, or unset {}", settings[0])));
  }
}

void checkNetName(const SettingFacts& facts, Checks& checks) {
  const std::string net = facts.variables["NCCL_NET"];
  if (net.empty()) return;
  const bool wantsCinch = strcasecmp(net.c_str(), "cinch") == 0;
  const bool loadsCinch = isCinchPlugin(facts.variables["NCCL_NET_PLUGIN"]);
  if (wantsCinch == loadsCinch) return;
  if (wantsCinch) {
    checks.push_back(conflict(Verdict::fail, fmt::format("NCCL_NET={}, but no plugin has it", net),
                              "set NCCL_NET_PLUGIN=cinch"));
  } else {
    checks.push_back(conflict(
        Verdict::fail, fmt::format("NCCL_NET={} leaves out the plugin of NCCL_NET_PLUGIN", net),
        "set NCCL_NET=Cinch, or unset it"));
  }
}

void checkMode(const SettingFacts& facts, Checks& checks) {
  if (facts.params.mode != Mode::off || facts.variables["CINCH_CODEC"].empty()) return;
  checks.push_back(conflict(Verdict::warn, "CINCH_CODEC is set, but CINCH_MODE=off changes nothing",
                            "unset CINCH_MODE to compress"));
}

void checkChoices(const SettingFacts& facts, Checks& checks) {
  const std::string algorithm = facts.variables["NCCL_ALGO"];
  std::string lower = algorithm;
  std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
  const bool isExclusion = algorithm.starts_with("^");
  if (!algorithm.empty() && !isExclusion && lower.find("ring") == std::string::npos) {
    checks.push_back(
        conflict(Verdict::warn,
                 fmt::format("NCCL_ALGO={} has no ring, which Cinch's AllGather needs", algorithm),
                 "add ring to NCCL_ALGO, or unset it"));
  }
  if (facts.variables["NCCL_TUNER_PLUGIN"] != "cinch") return;
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"}) {
    if (facts.variables[name].empty()) continue;
    checks.push_back(conflict(Verdict::warn,
                              fmt::format("{} goes before the rules of Cinch's tuner plugin", name),
                              fmt::format("unset {}, or NCCL_TUNER_PLUGIN", name)));
  }
}

void checkPreloads(const std::vector<PreloadFact>& preloads, Checks& checks) {
  for (const PreloadFact& preload : preloads) {
    if (!preload.exists) {
      checks.push_back(conflict(
          Verdict::warn, fmt::format("LD_PRELOAD names {}, which is not there", preload.path),
          "correct LD_PRELOAD: the loader leaves out what it does not find"));
    } else if (preload.exportsNccl && !preload.isCinch) {
      checks.push_back(conflict(
          Verdict::warn,
          fmt::format("LD_PRELOAD loads {}, which takes part in NCCL's calls too", preload.path),
          "take one of the two out of LD_PRELOAD; behind Cinch it sees the compressed messages"));
    }
  }
}

}  // namespace

Checks judgeSettings(const SettingFacts& facts) {
  Checks checks;
  for (const std::string& warning : facts.warnings) {
    checks.push_back(
        {"settings", Verdict::fail, warning,
         "correct or unset it: without that the default is used; `cinch config` lists all"});
  }
  for (const std::string& notice : facts.notices)
    checks.push_back({"settings", Verdict::warn, notice, "write the new name"});
  const auto given = facts.variables.namesWith("CINCH_");
  if (checks.empty()) {
    checks.push_back(
        {"settings", Verdict::pass, fmt::format("{} CINCH_ variables are set", given.size()), ""});
  }
  for (const FileFact& file : facts.files) {
    const bool isFine = file.fault.empty();
    checks.push_back({file.check, isFine ? Verdict::pass : Verdict::fail,
                      isFine ? file.setting : file.fault, isFine ? "" : file.fix});
  }
  return checks;
}

Checks judgeConflicts(const SettingFacts& facts, const NetworkFacts& network) {
  Checks checks;
  checkVerbs(facts, network, checks);
  checkNetPlugin(facts, checks);
  checkNetName(facts, checks);
  checkMode(facts, checks);
  checkChoices(facts, checks);
  checkPreloads(facts.preloads, checks);
  if (checks.empty()) checks.push_back(conflict(Verdict::pass, "no settings contradict", ""));
  return checks;
}

}  // namespace cinch::doctor
