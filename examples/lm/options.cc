#include "examples/lm/options.h"

#include <CLI/CLI.hpp>
#include <stdexcept>

namespace lm {
namespace {

void addJobOptions(CLI::App& app, Options& options) {
  app.add_option("--rank", options.rank, "number of this process, from 0")
      ->envname("RANK")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ranks", options.ranks, "how many processes train together")
      ->envname("WORLD_SIZE")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option(
      "--id-file", options.idFile,
      "path, on a file system that all ranks see, through which they find each other; it "
      "must not exist yet");
  app.add_option("--timeout", options.timeoutSeconds, "seconds to wait for the other ranks")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
}

void addTrainingOptions(CLI::App& app, Options& options) {
  app.add_option("--steps", options.steps, "training steps")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "samples per rank and step")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--lr", options.rate, "highest learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--hidden", options.shape.hidden, "width of the model's two hidden layers")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "start and batches")->capture_default_str();
  app.add_option("--text", options.text, "text to learn from; default: CMake's help files");
  const auto setType = [&options](const std::string& name) {
    options.gradientType = name == "bf16" ? GradientType::bf16 : GradientType::fp32;
  };
  const auto setReduction = [&options](const std::string& name) {
    options.reduction = name == "avg" ? Reduction::average : Reduction::sum;
  };
  app.add_option_function<std::string>("--grad-dtype", setType, "type of the reduced gradients")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option_function<std::string>(
         "--op", setReduction,
         "sum: of gradients divided by the ranks beforehand; avg: NCCL divides")
      ->check(CLI::IsMember({"sum", "avg"}));
}

void addReportOptions(CLI::App& app, Options& options) {
  app.add_option("--log", options.log, "write one JSON object per step to this file");
  app.add_option("--iface", options.interface,
                 "network interface whose byte counters go to the log");
  app.add_option("--eval-every", options.evalEvery,
                 "measure the held-out loss every so many steps; 0: only first and last")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--progress", options.progress, "show a progress line (rank 0)");
  app.add_option("--dump-gradients", options.dumpGradients,
                 "write this rank's gradients, as sent, as raw fp32");
  app.add_option("--dump-steps", options.dumpSteps, "steps whose gradients are written")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option(
      "--dump-sums", options.dumpSums,
      "write the sums over all steps of what was sent and of what came back, as raw fp64");
}

void checkTogether(const Options& options) {
  if (options.rank >= options.ranks)
    throw std::runtime_error("--rank is " + std::to_string(options.rank) + ", but --ranks is " +
                             std::to_string(options.ranks) + ": ranks count from 0");
  if (options.ranks > 1 && options.idFile.empty())
    throw std::runtime_error("--id-file is needed where there is more than one rank");
  if (!(options.rate <= 1))  // NaN as well
    throw std::runtime_error("--lr is " + std::to_string(options.rate) + ": at most 1");
  if (options.dumpGradients.empty() != options.dumpSteps.empty())
    throw std::runtime_error("--dump-gradients and --dump-steps belong together");
}

}  // namespace

Options parseOptions(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "train_lm: trains a byte-level language model on several ranks, which reduce their "
      "gradients with NCCL");
  addJobOptions(app, options);
  addTrainingOptions(app, options);
  addReportOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    options.help = app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    throw std::runtime_error(std::string(error.what()) + " (--help lists the options)");
  }
  checkTogether(options);
  return options;
}

}  // namespace lm
