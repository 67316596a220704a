// The `cinch` command line: parses arguments and calls the command (commands.h).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstring>

#include "tools/cinch/bench/options.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/explain_call.h"
#include "tools/cinch/tune/options.h"

namespace {

using cinch::OutputFormat;

// How many of the arguments are Cinch's own. Those of `run` and `doctor` end at the command: after
// "--", or at the first word that is not an option. What follows is taken as it is, further "--"
// included.
int countOwnArguments(int argc, char** argv) {
  const bool hasCommand =
      argc >= 2 && (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "doctor") == 0);
  if (!hasCommand) return argc;
  int own = 2;
  while (own < argc && argv[own][0] == '-' && strcmp(argv[own], "--") != 0) ++own;
  return own;
}

std::vector<std::string> commandAfter(int own, int argc, char** argv) {
  const bool separated = own < argc && strcmp(argv[own], "--") == 0;
  return {argv + own + (separated ? 1 : 0), argv + argc};
}

void addRun(CLI::App& app, cinch::RunOptions& options, int& status) {
  CLI::App* run = app.add_subcommand(
      "run", "run a program with Cinch preloaded: cinch run [OPTIONS] -- COMMAND [ARGUMENTS...]");
  run->add_flag("--net", options.net, "send through Cinch's net plugin too");
  run->add_flag("--tuner", options.tuner, "let Cinch's tuner plugin choose NCCL's algorithms too");
  run->callback([&options, &status] { status = cinch::runCommand(options); });
}

// The flags --json and --markdown.
void addFormats(CLI::App& command, OutputFormat& format, const char* page) {
  CLI::Option* json = command.add_flag_callback(
      "--json", [&format] { format = OutputFormat::json; }, "as JSON");
  command
      .add_flag_callback(
          "--markdown", [&format] { format = OutputFormat::markdown; },
          std::string("as the page ") + page)
      ->excludes(json);
}

void addConfig(CLI::App& app, OutputFormat& format, int& status) {
  CLI::App* config =
      app.add_subcommand("config", "print every parameter, its value and its source");
  addFormats(*config, format, "docs/config.md, which has no values");
  CLI::Option* man = config->add_flag("--man")->description("as the manual page cinch(7)");
  config->callback([&format, &status, man] {
    status = man->count() > 0 ? cinch::printManPage() : cinch::printConfig(format);
  });
}

void addExplain(CLI::App& app, cinch::ExplainOptions& options, cinch::ExplainedCall& call,
                int& status) {
  CLI::App* explain = app.add_subcommand("explain", "print what Cinch can do to a program's calls");
  CLI::App* topic = explain->add_option_group("topic")->require_option(1);
  topic->add_flag("--codecs")->description("every codec, its size and its error");
  CLI::Option* report = topic->add_option("--report", options.report,
                                          "a report of CINCH_STATS (JSON): what became of the "
                                          "calls, and why");
  CLI::Option* tolerance = topic->add_option(
      "--tolerance", options.tolerance,
      "a codec: what a check has to accept of it, for --cinch-tolerance of the patched nccl-tests");
  addFormats(*explain, options.format, "docs/codecs.md");
  explain->add_option("--values", options.nValues, "how many values errors are measured on")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 28));
  explain->add_option("--scale", options.scale, "their standard deviation");
  for (CLI::Option* option : explain->get_options())
    if (!option->get_name().starts_with("--help")) option->excludes(report)->excludes(tolerance);
  const CLI::Option* op = cinch::addCallOptions(*explain, *topic, call);
  explain->callback([&options, &call, &status, report, tolerance, op] {
    status = *op          ? cinch::explainCall(call, options.format)
             : *report    ? cinch::explainReport(options.report)
             : *tolerance ? cinch::explainTolerance(options.tolerance)
                          : cinch::explainCodecs(options);
  });
}

void addStats(CLI::App& app, cinch::StatsOptions& options, int& status) {
  CLI::App* stats = app.add_subcommand(
      "stats", "print what all ranks have done, from the report of each: cinch stats FILE...");
  stats->add_option("FILE", options.files, "reports of CINCH_STATS (JSON), or folders of them")
      ->required();
  CLI::Option* watch = stats
                           ->add_option("--watch", options.watch,
                                        "look again every so many seconds (2), until interrupted")
                           ->expected(0, 1)
                           ->default_str("2")
                           ->check(CLI::Range(0.05, 86400.0));
  stats->add_option("--views", options.views, "end after so many")
      ->needs(watch)
      ->check(CLI::Range(1, 1 << 30));
  stats->add_flag_callback(
      "--json", [&options] { options.format = OutputFormat::json; },
      "as JSON, a line for each view");
  stats->callback([&options, &status] { status = cinch::showStats(options); });
}

void addDoctor(CLI::App& app, cinch::DoctorOptions& options, int& status) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "print what would happen to a job here: cinch doctor [--json] [-- COMMAND ...]");
  doctor->add_flag_callback(
      "--json", [&options] { options.format = OutputFormat::json; }, "as JSON");
  doctor->callback([&options, &status] { status = cinch::diagnose(options); });
}

void addBench(CLI::App& app, cinch::bench::Options& options, int& status) {
  CLI::App* bench = app.add_subcommand(
      "bench", "measure a collective as nccl-tests does: cinch bench all_reduce -b 8 -e 64M -f 2");
  cinch::bench::addOptions(*bench, options);
  bench->callback([&options, &status] { status = cinch::runBenchmark(options); });
}

void addTune(CLI::App& app, cinch::tune::Options& options, int& status) {
  CLI::App* tune = app.add_subcommand(
      "tune",
      "measure NCCL's algorithms, protocols and channels, and write the tuner plugin's rules");
  cinch::tune::addOptions(*tune, options);
  tune->callback([&options, &status] { status = cinch::runTune(options); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Cinch: smaller gradients for unmodified NCCL programs", "cinch");
  app.set_version_flag("--version", "cinch " CINCH_VERSION);
  app.require_subcommand(0, 1);  // none is answered below, once unknown ones are refused
  const int own = countOwnArguments(argc, argv);
  cinch::RunOptions runOptions;
  runOptions.command = commandAfter(own, argc, argv);
  OutputFormat configFormat = OutputFormat::text;
  cinch::ExplainOptions explainOptions;
  cinch::ExplainedCall explainedCall;
  cinch::bench::Options benchOptions;
  cinch::tune::Options tuneOptions;
  cinch::StatsOptions statsOptions;
  cinch::DoctorOptions doctorOptions;
  doctorOptions.command = runOptions.command;
  int status = cinch::kExitOk;
  addRun(app, runOptions, status);
  addConfig(app, configFormat, status);
  addExplain(app, explainOptions, explainedCall, status);
  addStats(app, statsOptions, status);
  addDoctor(app, doctorOptions, status);
  addBench(app, benchOptions, status);
  addTune(app, tuneOptions, status);
  try {
    app.parse(own, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "cinch: {}\nTry `cinch --help`.\n", error.what());
    return cinch::kExitUsage;
  }
  if (app.get_subcommands().empty()) {
    fmt::print(stderr, "{}", app.help());
    return cinch::kExitUsage;
  }
  return status;
}
