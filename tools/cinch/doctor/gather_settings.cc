#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/network/secret.h"
#include "common/text_file.h"
#include "interpose/comm/comm_plan.h"
#include "interpose/comm/rule_source.h"
#include "interpose/real/nccl_content.h"
#include "tools/cinch/doctor/gather.h"
#include "tools/cinch/doctor/loader.h"
#include "tools/cinch/installation.h"
#include "tuner_plugin/rules.h"

namespace cinch::doctor {
namespace {

namespace fs = std::filesystem;

std::string faultOf(const auto& result) {
  return result.ok() ? std::string() : result.error().message;
}

Result<void> checkTunerRules(const std::string& path) {
  const auto text = readTextFile(path);
  CINCH_TRY(text);
  CINCH_TRY(tuner::parseRules(text.value()));
  return {};
}

// Of a folder in which files are to be made; it may be one that has yet to be made itself.
std::string faultOfFolder(fs::path folder, bool isMade) {
  std::error_code error;
  if (folder.empty()) folder = ".";
  while (isMade && !fs::exists(folder, error) && folder.has_relative_path())
    folder = folder.parent_path().empty() ? "." : folder.parent_path();
  if (!fs::exists(folder, error)) return folder.string() + " is not there";
  if (!fs::is_directory(folder, error)) return folder.string() + " is no folder";
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return folder.string() + " cannot be written: " + strerror(errno);
}

class Files {
 public:
  explicit Files(const Variables& variables) : variables_(variables) {}

  void add(const char* check, const char* name, const std::string& fault, const char* fix) {
    const std::string setting = std::string(name) + "=" + variables_[name];
    const bool isNamed = fault.find(name) != std::string::npos;
    const std::string text = fault.empty() || isNamed ? fault : setting + ": " + fault;
    files_.push_back({check, setting, text, fix});
  }
  // `isMade`: missing folders are made by who writes there.
  void addFolder(const char* name, const std::string& folder, bool isMade) {
    if (!variables_[name].empty()) {
      add("folders", name, faultOfFolder(folder, isMade),
          "make the folder, writable by the user of the job, or name another one");
    }
  }
  std::vector<FileFact> take() { return std::move(files_); }

 private:
  const Variables& variables_;
  std::vector<FileFact> files_;
};

std::string folderOf(const std::string& path) {
  return fs::path(path).parent_path().string();
}

std::vector<FileFact> gatherFiles(const Variables& variables, const Params& params) {
  Files files(variables);
  if (!params.rules.empty())
    files.add("rules", "CINCH_RULES", faultOf(processRules()),
              "correct the rule: docs/rules.md; without that no call is compressed");
  if (!params.plan.empty())
    files.add("plan", "CINCH_PLAN", faultOf(processPlan()),
              "name a file that CINCH_PLAN=record:FILE has written, or unset it");
  for (const auto& [variable, path] : {std::pair("CINCH_KEY_FILE", params.keyFile),
                                       std::pair("CINCH_NET_KEY_FILE", params.netKeyFile)})
    if (!path.empty())
      files.add("key", variable, faultOf(readKeyFile(variable, path)),
                "let its owner alone read it (chmod 600), with 16 bytes or more in it");
  if (!params.layers.empty())
    files.add("layers", "CINCH_LAYERS", faultOf(readTextFile(params.layers)),
              "correct the path, or unset it");
  if (!params.tunerRules.empty())
    files.add("tuner-rules", "CINCH_TUNER_RULES", faultOf(checkTunerRules(params.tunerRules)),
              "correct the file or its path: docs/tuner.md; without that no rule in it holds");
  files.addFolder("CINCH_STATS", folderOf(statsPath(params)), false);
  files.addFolder("CINCH_METRICS", folderOf(metricsPath(params)), false);
  files.addFolder("CINCH_CACHE_DIR", cacheFolder(params), true);
  files.addFolder("CINCH_RESIDUAL_DIR", expandPath(params.residualDir), true);
  return files.take();
}

PreloadFact preloadOf(const std::string& name) {
  const std::vector<std::string> files = findShared(name);
  PreloadFact fact = {name, !files.empty()};
  if (files.empty()) return fact;
  const auto content = readNcclContent(files.front());
  fact.exportsNccl = content.ok() && content.value().exportsNccl;
  const bool isDropIn = content.ok() && content.value().isCinch;
  fact.isCinch = isDropIn || fs::path(files.front()).filename() == kPreloadLibrary;
  return fact;
}

}  // namespace

SettingFacts gatherSettings(const Variables& variables) {
  const ParamSet& set = processParams();
  SettingFacts facts = {variables, set.params, set.warnings, set.notices, {}, {}};
  if (const auto& rules = processRules(); rules.ok())
    for (const std::string& notice : rules.value().notices())
      facts.notices.push_back("CINCH_RULES: " + notice);
  facts.files = gatherFiles(variables, set.params);
  for (const std::string& path : splitList(variables["LD_PRELOAD"], ": "))
    facts.preloads.push_back(preloadOf(path));
  return facts;
}

}  // namespace cinch::doctor
