#include "common/report_file.h"

#include "common/replace_file.h"

namespace cinch {
namespace {

Result<void> replaceReport(const std::string& path, const std::string& content) {
  const Result<void> written = replaceFile(path, content);
  if (written) return {};
  return errorf(written.error().status, "%s (CINCH_STATS says where the report goes)",
                written.error().message.c_str());
}

}  // namespace

Result<void> writeReportFiles(const std::string& path, const std::string& text,
                              const std::string& json) {
  CINCH_TRY(replaceReport(path + ".txt", text));
  return replaceReport(path + ".json", json);
}

}  // namespace cinch
