#include "tools/cinch/explain_call.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>

#include "common/param.h"
#include "common/replace_file.h"
#include "common/text.h"
#include "common/text_file.h"
#include "tools/cinch/bench/collective.h"
#include "tools/cinch/codec_costs.h"
#include "tools/cinch/codec_option.h"
#include "tools/cinch/codec_speed.h"
#include "tools/cinch/quantity.h"

namespace cinch {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

// A value that the user did not give is the one of ExplainedCall.
const char* sourceOf(const std::string& text, const std::string& otherwise, const char* option) {
  return text == otherwise ? "assumed" : option;
}

template <class Parse>
Result<double> parsed(const char* option, const std::string& text, const char* wanted,
                      const Parse& parse) {
  const auto value = parse(text);
  if (value) return *value;
  return errorf(Status::invalidArgument, "%s %s: it is not %s", option, text.c_str(), wanted);
}

Result<double> bitRate(const char* option, const std::string& text) {
  return parsed(option, text, "a rate in bits a second, such as 25G or 400M", parseBitRate);
}

Result<double> time(const char* option, const std::string& text) {
  return parsed(option, text, "a time such as 20us, 1.5ms or 0", parseTime);
}

Result<ElementType> typeOf(const std::string& name) {
  if (name == "fp32") return ElementType::fp32;
  if (name == "fp16") return ElementType::fp16;
  if (name == "bf16") return ElementType::bf16;
  return errorf(Status::invalidArgument,
                "--dtype %s: it is not fp32, fp16 or bf16; other types pass", name.c_str());
}

Result<CallKind> kindOf(const std::string& name) {
  if (name == "allreduce") return CallKind::allReduce;
  if (name == "reduce_scatter") return CallKind::reduceScatter;
  return errorf(Status::invalidArgument, "--op %s: it is not allreduce or reduce_scatter",
                name.c_str());
}

Result<Topology> topologyOf(const ExplainedCall& call) {
  if (call.ranks < 2 || call.ranks > kMostRanks)
    return errorf(Status::invalidArgument, "--ranks %lld: it is not 2 to %lld",
                  static_cast<long long>(call.ranks), static_cast<long long>(kMostRanks));
  const int64_t nodes = call.nodes == 0 ? call.ranks : call.nodes;
  if (nodes < 1 || nodes > call.ranks || call.ranks % nodes != 0)
    return errorf(Status::invalidArgument,
                  "--nodes %lld: %lld ranks are not spread evenly over so many hosts",
                  static_cast<long long>(nodes), static_cast<long long>(call.ranks));
  return Topology{static_cast<uint32_t>(call.ranks), static_cast<uint32_t>(nodes)};
}

Result<CostedCall> callOf(const ExplainedCall& call, const Topology& topology) {
  const auto kind = kindOf(call.op);
  if (!kind) return kind.error();
  const auto type = typeOf(call.dtype);
  if (!type) return type.error();
  const auto nBytes = bench::parseSize(call.bytes);
  if (!nBytes || *nBytes == 0)
    return errorf(Status::invalidArgument, "--bytes %s: it is not a size such as 64M or 1.5G",
                  call.bytes.c_str());
  const uint64_t parts = kind.value() == CallKind::reduceScatter ? topology.ranks : 1;
  const uint64_t multiple = parts * elementBytes(type.value());
  if (*nBytes % multiple != 0)
    return errorf(Status::invalidArgument, "--bytes %s: it is not a multiple of %lld bytes%s",
                  call.bytes.c_str(), static_cast<long long>(multiple),
                  parts > 1 ? ", a value for each rank" : "");
  return CostedCall{kind.value(), type.value(), *nBytes / elementBytes(type.value())};
}

Result<LinkCost> linkOf(const ExplainedCall& call, CallQuestion::Sources& sources) {
  const auto rate = bitRate("--link", call.link);
  const auto localRate = bitRate("--local-link", call.localLink);
  const auto latency = time("--latency", call.latency);
  const auto localLatency = time("--local-latency", call.localLatency);
  const auto message = time("--message-time", call.messageTime);
  for (const auto* value : {&rate, &localRate, &latency, &localLatency, &message})
    if (!value->ok()) return value->error();
  const ExplainedCall assumed;
  sources.network = "--link";
  sources.latency = sourceOf(call.latency, assumed.latency, "--latency");
  sources.local = sourceOf(call.localLink, assumed.localLink, "--local-link");
  sources.localLatency = sourceOf(call.localLatency, assumed.localLatency, "--local-latency");
  sources.message = sourceOf(call.messageTime, assumed.messageTime, "--message-time");
  return LinkCost{{latency.value(), 8 / rate.value()},
                  {localLatency.value(), 8 / localRate.value()},
                  message.value()};
}

// What CINCH_CODEC stands for, for a call that is known to be a gradient.
Result<Coding> codingFor(const ExplainedCall& call, CallKind kind, std::string& source) {
  Params params = processParams().params;
  source = "CINCH_CODEC=" + std::string(params.codec);
  Rule rule;
  if (!call.codec.empty()) {
    source = "--codec";
    rule.codec = codecOption(call.codec);
    if (rule.codec == nullptr)
      return errorf(Status::invalidArgument,
                    "--codec %s: there is no such codec; `cinch explain --codecs` lists them",
                    call.codec.c_str());
  }
  Place place;
  place.kind = Place::Kind::known;
  return codingOf(params, kind, place, 0, rule.codec == nullptr ? nullptr : &rule);
}

std::string cpuModel() {
  const auto facts = readTextFile("/proc/cpuinfo");
  std::string_view text = facts ? std::string_view(facts.value()) : std::string_view();
  while (!text.empty()) {
    const std::string_view line = takeUntil(text, "\n");
    if (line.starts_with("model name")) return std::string(line.substr(line.find(':') + 1));
  }
  return {};
}

std::string today() {
  const time_t now = std::time(nullptr);
  tm parts{};
  return fmt::format("{:%Y-%m-%d}", *gmtime_r(&now, &parts));
}

// What was measured on this machine by this version before: nothing where that cannot be read.
CodecCosts keptCosts(const std::string& path) {
  const CodecCosts none{
      .machine = fmt::format("{},{}, Cinch {}", measuredCodecName(), cpuModel(), CINCH_VERSION),
      .costs = {}};
  const auto text = readTextFile(path);
  if (!text) return none;
  const auto kept = parseCodecCosts(text.value());
  if (!kept)
    fmt::print(stderr, "cinch explain: {}: {}; written anew\n", path, kept.error().message);
  return kept && kept.value().machine == none.machine ? kept.value() : none;
}

// It is of use without being kept.
void keep(const CodecCosts& costs, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const auto written = replaceFile(path, formatCodecCosts(costs));
  if (!written.ok())
    fmt::print(stderr, "cinch explain: {} (CINCH_CACHE_DIR says where it is kept)\n",
               written.error().message);
}

// Measured once on a machine, unless it is to be `anew`.
CodecCost measuredCost(const CallQuestion& question, bool anew, std::string& source) {
  const std::string folder = cacheFolder(processParams().params);
  const std::string path = folder.empty() ? "" : codecCostsPath(folder);
  CodecCosts costs = keptCosts(path);
  const std::string key = codecCostKey(*question.codec, question.call.type, question.rule);
  const auto found = costs.costs.find(key);
  const bool isKept = !anew && found != costs.costs.end();
  source = fmt::format("measured {}: {} on one thread of this CPU; for a GPU give --codec-rate",
                       isKept ? "on " + found->second.date : "now", measuredCodecName());
  if (isKept) return found->second.cost;
  const CodecCost cost = measureCodec(question.facts.codec, question.call.type, question.rule);
  costs.costs[key] = {cost, today()};
  if (!path.empty()) keep(costs, path);
  return cost;
}

Result<CodecCost> codecCostOf(const ExplainedCall& call, const CallQuestion& question,
                              std::string& source) {
  if (call.codecRate.empty()) return measuredCost(question, call.remeasure, source);
  source = "--codec-rate";
  const auto rate =
      parsed("--codec-rate", call.codecRate, "a rate in bytes a second, such as 5G", parseByteRate);
  if (!rate) return rate.error();
  const LinearCost each{0, 1 / rate.value()};
  return CodecCost{each, each, each};
}

}  // namespace

const CLI::Option* addCallOptions(CLI::App& explain, CLI::App& topic, ExplainedCall& call) {
  CLI::Option* op = topic.add_option(
      "--op", call.op, "allreduce or reduce_scatter: what each way of doing one call would take");
  const auto add = [&](const char* name, auto& value, const char* help) {
    return explain.add_option(name, value, help)->needs(op);
  };
  CLI::Option* needed[] = {
      add("--bytes", call.bytes, "what a rank hands in: 64M (powers of 1024)"),
      add("--ranks", call.ranks, "ranks"),
      add("--link", call.link, "bits a second that a host's network carries each way: 25G")};
  for (CLI::Option* option : needed) op->needs(option);
  add("--dtype", call.dtype, "fp32, fp16 or bf16")->capture_default_str();
  add("--nodes", call.nodes, "hosts, with as many ranks each (one for each rank)");
  add("--codec", call.codec, "(CINCH_CODEC)");
  add("--codec-rate", call.codecRate,
      "bytes a second that each of encode, reduce and decode handles (measured on this CPU)");
  explain
      .add_flag("--remeasure", call.remeasure, "the codec, also where CINCH_CACHE_DIR has its cost")
      ->needs(op)
      ->excludes("--codec-rate");
  add("--latency", call.latency, "of a hop between hosts")->capture_default_str();
  add("--local-link", call.localLink,
      "bits a second of a rank inside its host; PCIe 4.0 x16 has 200G")
      ->capture_default_str();
  add("--local-latency", call.localLatency, "of a hop inside a host")->capture_default_str();
  add("--message-time", call.messageTime, "of each message of an exchange")->capture_default_str();
  for (const char* other : {"--markdown", "--values", "--scale"})
    op->excludes(explain.get_option(other));
  return op;
}

Result<CallQuestion> questionOf(const ExplainedCall& call) {
  const auto topology = topologyOf(call);
  if (!topology) return topology.error();
  const auto costed = callOf(call, topology.value());
  if (!costed) return costed.error();
  CallQuestion::Sources sources;
  const auto link = linkOf(call, sources);
  if (!link) return link.error();
  const auto coding = codingFor(call, costed.value().kind, sources.codec);
  if (!coding) return coding.error();
  CallQuestion question{costed.value(),
                        {coding.value().codec.format, {}, link.value(), topology.value()},
                        &coding.value().codec,
                        coding.value().rule,
                        sources};
  const auto cost = codecCostOf(call, question, question.sources.codecCost);
  if (!cost) return cost.error();
  question.facts.codecCost = cost.value();
  return question;
}

}  // namespace cinch
