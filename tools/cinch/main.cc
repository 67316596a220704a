// The `cinch` command line: parses arguments and calls the command (commands.h).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstring>

#include "tools/cinch/commands.h"

namespace {

using cinch::ConfigFormat;

// How many of the arguments are Cinch's own. Those of `run` end at the command: after "--", or at
// the first word that is not an option. What follows is taken as it is, further "--" included.
int countOwnArguments(int argc, char** argv) {
  if (argc < 2 || strcmp(argv[1], "run") != 0) return argc;
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

void addConfig(CLI::App& app, ConfigFormat& format, int& status) {
  CLI::App* config =
      app.add_subcommand("config", "print every parameter, its value and its source");
  CLI::Option* json = config->add_flag_callback(
      "--json", [&format] { format = ConfigFormat::json; }, "as JSON");
  config
      ->add_flag_callback(
          "--markdown", [&format] { format = ConfigFormat::markdown; },
          "as the page docs/config.md, which has no values")
      ->excludes(json);
  config->callback([&format, &status] { status = cinch::printConfig(format); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Cinch: smaller gradients for unmodified NCCL programs", "cinch");
  app.set_version_flag("--version", "cinch " CINCH_VERSION);
  app.require_subcommand(0, 1);  // none is answered below, once unknown ones are refused
  const int own = countOwnArguments(argc, argv);
  cinch::RunOptions runOptions;
  runOptions.command = commandAfter(own, argc, argv);
  ConfigFormat configFormat = ConfigFormat::text;
  int status = cinch::kExitOk;
  addRun(app, runOptions, status);
  addConfig(app, configFormat, status);
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
