#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "tools/cinch/doctor/judge.h"
#include "tools/cinch/installation.h"

namespace cinch::doctor {
namespace {

// NCCL 2.18 to 2.32: tests/wheels/nccl_releases.py.
constexpr int kOldestNccl = 18, kNewestNccl = 32;

struct DriverNeed {
  int cudaMajor;
  int driver;  // the first branch that runs it
};
constexpr DriverNeed kDriverNeeds[] = {{12, 525}, {13, 580}};

// "580.65.06": 580; 0 where there is no number.
int leadingNumber(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Of "2.28.9": 28; -1 where it is no version of that form.
int minorOf(const std::string& version) {
  return version.starts_with("2.") ? leadingNumber(std::string_view(version).substr(2)) : -1;
}

Check missing(const LibraryFact& library, Verdict verdict, const char* consequence) {
  return {"libraries", verdict,
          fmt::format("{} is not beside this program: {}", library.name, consequence),
          "reinstall Cinch, and keep bin and lib together"};
}

Check judgeLibrary(const LibraryFact& library, bool hasDriver) {
  const bool isCuda = library.name == kCudaCodecLibrary;
  if (!library.path.empty()) {
    if (library.fault.empty()) return {"libraries", Verdict::pass, library.path, ""};
    return {"libraries", Verdict::fail, library.path + ": " + library.fault,
            "reinstall Cinch, all libraries of one release"};
  }
  if (library.name == kPreloadLibrary)
    return missing(library, Verdict::fail, "nothing can be preloaded");
  if (isCuda)
    return missing(library, hasDriver ? Verdict::fail : Verdict::warn,
                   "calls on GPUs cannot be compressed");
  if (library.name == kHostCodecLibrary)
    return missing(library, Verdict::warn, "calls on the emulator cannot be compressed");
  return missing(library, Verdict::warn, "NCCL cannot load this plugin");
}

int neededDriver(int cudaMajor) {
  for (const DriverNeed& need : kDriverNeeds)
    if (need.cudaMajor == cudaMajor) return need.driver;
  return 0;
}

Check judgeVersion(const DriverFacts& facts) {
  if (facts.version.empty()) {
    return {"driver", Verdict::warn, "no NVIDIA driver is loaded: only the emulator runs here",
            "install NVIDIA's driver, or start the job on a machine that has a GPU"};
  }
  const int needed = neededDriver(facts.cudaMajor);
  if (leadingNumber(facts.version) < needed) {
    return {
        "driver", Verdict::fail,
        fmt::format("driver {} is too old for the codec, which was built with CUDA {}",
                    facts.version, facts.cudaMajor),
        fmt::format("update the driver to {} or newer, or build Cinch with an older CUDA", needed)};
  }
  if (!facts.hasLibcuda) {
    return {"driver", Verdict::fail,
            fmt::format("driver {} is loaded, but libcuda.so.1 is not where the loader looks",
                        facts.version),
            "in a container, start it with NVIDIA's runtime (--gpus all)"};
  }
  return {"driver", Verdict::pass, "driver " + facts.version, ""};
}

Check judgeGpus(const DriverFacts& facts) {
  if (!facts.hasNvml) return {"gpus", Verdict::skip, "libnvidia-ml.so.1 cannot be used here", ""};
  if (facts.gpus.empty()) {
    return {"gpus", Verdict::fail, "the driver shows no GPU",
            "see `nvidia-smi`; in a container, give it a GPU"};
  }
  std::vector<std::string> names;
  bool hasNvlinks = false;
  for (const Gpu& gpu : facts.gpus) {
    hasNvlinks |= gpu.nNvlinks > 0;
    names.push_back(gpu.nNvlinks > 0 ? fmt::format("{} ({} NVLinks)", gpu.name, gpu.nNvlinks)
                                     : gpu.name + " (PCIe)");
  }
  const char* meaning =
      hasNvlinks ? "; inside this host calls pass, which is faster over NVLink" : "";
  return {"gpus", Verdict::pass, fmt::format("{}{}", fmt::join(names, ", "), meaning), ""};
}

Check judgeStart(const ProgramFacts& facts) {
  const auto fail = [](std::string found, const char* fix) {
    return Check{"program", Verdict::fail, std::move(found), fix};
  };
  if (!facts.fault.empty()) return fail(facts.fault, "correct the command, or its PATH");
  if (facts.isForeign)
    return fail(facts.path + " is for another kind of machine", "use a build for this machine");
  if (facts.isSetuid) {
    return fail(facts.path + " is setuid or setgid: the loader leaves out LD_PRELOAD",
                "start it as its owner without the bit: chmod ug-s on a copy");
  }
  if (facts.content.hidesNccl()) {
    return fail(hiddenNcclText(facts.path, facts.content),
                "link it to libnccl.so.2: docs/reaching-nccl.md");
  }
  if (facts.isStatic) {
    return fail(facts.path + " is linked statically: nothing can be preloaded into it",
                "link it dynamically, and to libnccl.so.2: docs/reaching-nccl.md");
  }
  return {"program", Verdict::pass, facts.path, ""};
}

}  // namespace

Checks judgeLibraries(const std::vector<LibraryFact>& libraries, const DriverFacts& driver) {
  Checks checks;
  for (const LibraryFact& library : libraries)
    checks.push_back(judgeLibrary(library, !driver.version.empty()));
  return checks;
}

Checks judgeNccl(const std::vector<NcclFact>& found, const DriverFacts& driver) {
  if (found.empty()) {
    return {{"nccl", driver.version.empty() ? Verdict::warn : Verdict::fail,
             "no libnccl.so.2 is where the loader or Python looks",
             "install NCCL (libnccl2, or nvidia-nccl for Python), or set CINCH_NCCL_LIB to its "
             "path"}};
  }
  const NcclFact& used = found.front();
  const int minor = minorOf(used.version);
  const std::string others =
      found.size() == 1 ? "" : fmt::format(" ({} more of other places)", found.size() - 1);
  if (minor < 0) {
    return {{"nccl", Verdict::warn, fmt::format("{} does not say its version{}", used.path, others),
             "see that it is NCCL 2.18 to 2.30: NCCL_DEBUG=INFO shows it"}};
  }
  const std::string text = fmt::format("NCCL {} in {}{}", used.version, used.path, others);
  if (minor < kOldestNccl)
    return {{"nccl", Verdict::fail, text + " is too old", "use NCCL 2.18 or newer"}};
  if (minor > kNewestNccl) {
    return {{"nccl", Verdict::warn, text + " is newer than Cinch was tried with",
             "try CINCH_MODE=observe first, or use NCCL 2.30"}};
  }
  return {{"nccl", Verdict::pass, text, ""}};
}

Checks judgeDriver(const DriverFacts& facts) {
  return {judgeVersion(facts), judgeGpus(facts)};
}

Checks judgeProgram(const ProgramFacts& facts) {
  if (facts.command.empty()) return {{"program", Verdict::skip, "no command was given", ""}};
  Check check = judgeStart(facts);
  if (check.verdict != Verdict::pass) return {check};
  if (!facts.hiddenIn.empty()) {
    return {{"program", Verdict::fail,
             fmt::format("{} loads {}, which has NCCL {} linked into it statically: Cinch cannot "
                         "reach its calls",
                         facts.command, facts.hiddenIn, facts.hiddenVersion),
             "use a build that is linked to libnccl.so.2: docs/reaching-nccl.md"}};
  }
  if (facts.content.importsNccl) {
    check.found += " is linked to NCCL, whose calls Cinch reaches";
  } else if (!facts.python.empty()) {
    check.found += ": what it imports is linked to NCCL or opens it, and Cinch reaches both";
  } else {
    check.found +=
        " is not linked to NCCL: what it opens by the name libnccl.so.2, or starts, is "
        "reached";
  }
  return {check};
}

}  // namespace cinch::doctor
