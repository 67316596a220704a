#include "tools/cinch/tune/measurement.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "common/text.h"
#include "common/text_file.h"
#include "common/text_table.h"
#include "tools/cinch/bench/collective.h"

namespace cinch::tune {
namespace {

using Json = nlohmann::json;

constexpr int kCannotStart = 127;

std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  for (text = trim(text); !text.empty(); text = trim(text))
    words.emplace_back(takeUntil(text, " \t"));
  return words;
}

std::vector<std::string> benchCommand(const Options& options, const std::string& collective,
                                      const std::string& report) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {program,
                                    "bench",
                                    collective,
                                    "-b",
                                    options.minBytes,
                                    "-e",
                                    options.maxBytes,
                                    "-f",
                                    fmt::format("{}", options.stepFactor),
                                    "-n",
                                    std::to_string(options.iterations),
                                    "-w",
                                    std::to_string(options.warmups),
                                    "-c",
                                    "0",
                                    "-T",
                                    std::to_string(options.timeoutSeconds),
                                    "-J",
                                    report};
  const auto add = [&words](const char* name, const std::string& value) {
    words.insert(words.end(), {name, value});
  };
  if (options.ranks != 0) add("--ranks", std::to_string(options.ranks));
  if (options.hosts != 0) add("--hosts", std::to_string(options.hosts));
  if (!options.nccl.empty()) add("--nccl", options.nccl);
  if (options.emulator) words.emplace_back("--emulator");
  return words;
}

// By env(1), so that the variables reach the ranks through whatever launcher.
std::vector<std::string> wholeCommand(const Options& options, const std::string& collective,
                                      const std::vector<std::string>& variables,
                                      const std::string& report) {
  std::vector<std::string> words = wordsOf(options.launcher);
  words.emplace_back("env");
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"})
    words.insert(words.end(), {"-u", name});
  words.insert(words.end(), {"CINCH_MODE=off", "NCCL_TUNER_PLUGIN=none"});
  words.insert(words.end(), variables.begin(), variables.end());
  const auto bench = benchCommand(options, collective, report);
  words.insert(words.end(), bench.begin(), bench.end());
  return words;
}

[[noreturn]] void become(const std::vector<std::string>& words, const char* log) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);  // with all that it starts
  const int nothing = open("/dev/null", O_RDONLY);
  const int output = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));  // execvp does not write to them
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kCannotStart);
}

// NCCL may hang where the benchmark does not watch, in a communicator's making.
std::chrono::seconds patienceOf(const Options& options) {
  uint64_t nSizes = 0;
  const auto most = static_cast<double>(*bench::parseSize(options.maxBytes));
  for (auto size = static_cast<double>(*bench::parseSize(options.minBytes)); size <= most;
       size *= options.stepFactor)
    ++nSizes;
  return std::chrono::seconds(options.timeoutSeconds) * (nSizes + 2);
}

// The exit status of the command, whose output goes to `log`; nothing where it had to be killed.
std::optional<int> run(const std::vector<std::string>& words, const std::string& log,
                       std::chrono::seconds patience) {
  constexpr auto kInterval = std::chrono::milliseconds(10);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const pid_t child = fork();
  if (child < 0) return kCannotStart;
  if (child == 0) become(words, log.c_str());
  setpgid(child, child);  // whichever comes first
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(kInterval);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What the command said last, in one line.
std::string lastWords(const std::string& log) {
  constexpr size_t kShown = 200;
  const auto text = readTextFile(log);
  std::string_view rest = text.ok() ? text.value() : std::string_view();
  std::string_view last;
  while (!rest.empty()) {
    const std::string_view line = takeUntil(rest, "\n");
    if (!line.empty()) last = line;
  }
  return oneLine(std::string(last.substr(0, kShown)));
}

class Scratch {
 public:
  explicit Scratch(const std::string& path) : json(path + ".json"), log(path + ".log") { remove(); }
  ~Scratch() { remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string json, log;

 private:
  void remove() const {
    unlink(json.c_str());
    unlink(log.c_str());
  }
};

// Runs `read` on JSON that may be of any form.
template <class Read>
Result<Measurement> reading(Read read) {
  try {
    Measurement measurement = read();
    const auto rises = [](const Timing& a, const Timing& b) { return a.nBytes >= b.nBytes; };
    const auto& timings = measurement.timings;
    if (timings.empty() || measurement.nRanks < 1 || measurement.nNodes < 1)
      return errorf(Status::invalidUsage, "it measured nothing");
    if (std::adjacent_find(timings.begin(), timings.end(), rises) != timings.end())
      return errorf(Status::invalidUsage, "its sizes do not rise");
    return measurement;
  } catch (const Json::exception& error) {
    return errorf(Status::invalidUsage, "its JSON is not as expected: %s", error.what());
  }
}

}  // namespace

Result<Measurement> measurementOf(const std::string& text) {
  return reading([&text] {
    const Json json = Json::parse(text);
    Measurement measurement{json.at("nccl").at("version"),
                            json.at("nccl").at("emulator"),
                            json.at("ranks"),
                            json.at("arguments").at("hosts"),
                            {}};
    std::set<std::string> hosts;
    for (const Json& device : json.at("devices")) hosts.insert(device.at("host"));
    if (measurement.nNodes == 0) measurement.nNodes = static_cast<int>(hosts.size());
    for (const Json& row : json.at("results")) {
      const double outOfPlace = row.at("out_of_place").at("time_us");
      const double inPlace = row.at("in_place").at("time_us");
      const uint64_t nBytes = row.at("size");
      // Sizes that are near each other may be cut to the same one.
      const bool isAgain =
          !measurement.timings.empty() && measurement.timings.back().nBytes == nBytes;
      if (nBytes > 0 && !isAgain)
        measurement.timings.push_back({nBytes, (outOfPlace + inPlace) / 2});
    }
    return measurement;
  });
}

Json toJson(const Measurement& measurement) {
  Json timings = Json::array();
  for (const Timing& timing : measurement.timings)
    timings.push_back({timing.nBytes, timing.microseconds});
  return {{"nccl", measurement.ncclVersion},
          {"emulator", measurement.emulator},
          {"ranks", measurement.nRanks},
          {"nodes", measurement.nNodes},
          {"timings", std::move(timings)}};
}

Result<Measurement> measurementFrom(const Json& json) {
  return reading([&json] {
    Measurement measurement{
        json.at("nccl"), json.at("emulator"), json.at("ranks"), json.at("nodes"), {}};
    for (const Json& timing : json.at("timings"))
      measurement.timings.push_back({timing.at(0), timing.at(1)});
    return measurement;
  });
}

Result<Measurement> measure(const Options& options, const std::string& collective,
                            const std::vector<std::string>& variables, const std::string& path) {
  const Scratch scratch(path);
  const auto patience = patienceOf(options);
  const auto status =
      run(wholeCommand(options, collective, variables, scratch.json), scratch.log, patience);
  if (!status)
    return errorf(Status::systemError, "it did not end within %lld s: %s",
                  static_cast<long long>(patience.count()), lastWords(scratch.log).c_str());
  if (*status != 0)
    return errorf(Status::systemError, "exit status %d: %s", *status,
                  lastWords(scratch.log).c_str());
  const auto json = readTextFile(scratch.json);
  if (!json.ok())
    return errorf(Status::systemError, "it wrote no results: %s", lastWords(scratch.log).c_str());
  return measurementOf(json.value());
}

}  // namespace cinch::tune
