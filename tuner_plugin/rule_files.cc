#include "tuner_plugin/rule_files.h"

#include <algorithm>
#include <filesystem>

#include "common/hash.h"
#include "common/text_file.h"
#include "tuner_plugin/log.h"

namespace cinch::tuner {
namespace {

void noteUnequalRules(const RuleFile& file) {
  const auto isUnequal = [](const Rule& rule) { return rule.registered != kAny; };
  const auto nUnequal = std::count_if(file.rules.begin(), file.rules.end(), isUnequal);
  if (nUnequal > 0)
    CINCH_TUNER_WARN(
        "%s: %zu rules ask for regBuff, which may differ between ranks, and never hold",
        file.path.c_str(), static_cast<size_t>(nUnequal));
}

void addFile(std::vector<RuleFile>& files, const std::string& path, bool isOwn) {
  const auto text = readTextFile(path);
  if (!text.ok()) {
    CINCH_TUNER_WARN("%s is ignored: %s", path.c_str(), text.error().message.c_str());
    return;
  }
  auto rules = parseRules(text.value());
  if (!rules.ok()) {
    CINCH_TUNER_WARN("%s is ignored: %s", path.c_str(), rules.error().message.c_str());
    return;
  }
  CINCH_TUNER_INFO("%s: %zu rules, hash %016llx", path.c_str(), rules.value().size(),
                   static_cast<unsigned long long>(hashText(text.value())));
  files.push_back({path, std::move(rules.value()), isOwn});
  noteUnequalRules(files.back());
}

}  // namespace

std::string measuredRulesPath(const Params& params) {
  const std::string folder = cacheFolder(params);
  return folder.empty() ? folder : folder + "/tuner.csv";
}

std::vector<RuleFile> readRuleFiles(const Params& params) {
  std::vector<RuleFile> files;
  if (!params.tunerRules.empty()) addFile(files, params.tunerRules, true);
  const std::string measured = measuredRulesPath(params);
  std::error_code error;
  if (!measured.empty() && std::filesystem::exists(measured, error))
    addFile(files, measured, false);
  return files;
}

}  // namespace cinch::tuner
