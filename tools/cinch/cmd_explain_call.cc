#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/cost_table.h"
#include "common/param.h"
#include "common/text_file.h"
#include "tools/cinch/codec_error.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/explain_call.h"
#include "tools/cinch/quantity.h"
#include "tools/cinch/text_table.h"

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;

struct NmseOfOne {
  double value;
  const char* source;
};

// Of one round trip.
NmseOfOne nmseOf(const codec::CodecInfo& codec) {
  if (const auto known = gaussianNmse(codec)) return {*known, "the error model, Gaussian values"};
  const DataSet& gauss = errorDataSets().front();
  constexpr uint64_t kValues = 1 << 18;
  return {codecError(codec.format, gauss.draw(kValues, 1)), "measured now, Gaussian values"};
}

ncclDataType_t ncclTypeOf(ElementType type) {
  if (type == ElementType::fp16) return ncclFloat16;
  return type == ElementType::bf16 ? ncclBfloat16 : ncclFloat32;
}

// What the policy says of the call where it is a gradient of a step that is known.
Reason reasonFor(const CallQuestion& question) {
  const CostedCall& call = question.call;
  const Topology& topology = question.facts.topology;
  const uint64_t count =
      call.kind == CallKind::reduceScatter ? call.count / topology.ranks : call.count;
  const CommFacts comm{static_cast<int>(topology.ranks), true, topology.hosts > 1};
  constexpr uint64_t kOften = 1 << 30;
  History history{.seenBefore = kOften};
  history.place.kind = Place::Kind::known;
  return decide(processParams().params, comm,
                {call.kind, OpClass::sum, ncclTypeOf(call.type), count}, history);
}

// What NCCL expects of the call, as its tuner was shown on this host.
struct NcclsView {
  ExpectedCost cost;
  std::string path;
};

// Nothing where no tuner has seen a communicator of that shape, and the call's size, here.
std::optional<NcclsView> ncclsViewOf(const CallQuestion& question) {
  const Topology& topology = question.facts.topology;
  const std::string folder = cacheFolder(processParams().params);
  if (folder.empty()) return std::nullopt;
  const std::string path =
      costTablePath(folder, static_cast<int>(topology.ranks), static_cast<int>(topology.hosts));
  const auto text = readTextFile(path);
  if (!text) return std::nullopt;
  const auto table = parseCostTable(text.value());
  if (!table) {
    fmt::print(stderr, "cinch explain: {}: {}; left out\n", path, table.error().message);
    return std::nullopt;
  }
  const auto cost =
      fastestIn(table.value(),
                question.call.kind == CallKind::allReduce ? TunedCollective::allReduce
                                                          : TunedCollective::reduceScatter,
                static_cast<uint64_t>(question.call.inputBytes()));
  if (!cost) return std::nullopt;
  return NcclsView{*cost, path};
}

// What is said, ready to be printed.
struct Explanation {
  explicit Explanation(const CallQuestion& asked)
      : question(asked),
        one(nmseOf(*asked.codec)),
        fastest(fastestScheme(asked.call, asked.facts, false)),
        executed(fastestScheme(asked.call, asked.facts, true)),
        reason(reasonFor(asked)),
        ncclsView(ncclsViewOf(asked)),
        compressed(compressedScheme(asked.call, asked.facts.topology)),
        breakEvenSize(breakEvenBytes(compressed, asked.call, asked.facts)),
        breakEvenLink(breakEvenRate(compressed, asked.call, asked.facts)) {}

  std::optional<Prediction> of(Scheme scheme) const {
    return predict(scheme, question.call, question.facts);
  }
  double nmse(const Prediction& made) const { return made.quantisations * one.value; }

  const CallQuestion& question;
  NmseOfOne one;
  Scheme fastest, executed;
  Reason reason;
  std::optional<NcclsView> ncclsView;
  Scheme compressed;  // how this version does it where it compresses
  std::optional<double> breakEvenSize, breakEvenLink;
};

constexpr double kMilli = 1e3, kMicro = 1e6;

std::string remarkOn(Scheme scheme, const Explanation& explanation) {
  std::string remark = infoOf(scheme).isExecuted ? "" : "not in this version";
  if (scheme == explanation.fastest) remark += remark.empty() ? "fastest" : ", fastest";
  return remark;
}

void printSchemes(const Explanation& explanation) {
  std::vector<TextRow> rows = {
      {"SCHEME", "MS", "WIRE", "LATENCY", "CODEC", "HOST LINK", "NMSE", ""}};
  for (size_t i = 0; i < kSchemeCount; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    const auto made = explanation.of(scheme);
    if (!made) continue;
    const auto ms = [](double seconds) { return fmt::format("{:.3f}", kMilli * seconds); };
    rows.push_back(
        {infoOf(scheme).name, ms(made->seconds()), ms(made->wireSeconds), ms(made->latencySeconds),
         ms(made->codecSeconds), sizeText(made->hostLinkBytes),
         infoOf(scheme).isExact ? "exact" : fmt::format("{:.2e}", explanation.nmse(*made)),
         remarkOn(scheme, explanation)});
  }
  printTable(rows);
}

// "flat, 2.4 times as fast as plain NCCL"
std::string gainText(Scheme scheme, const Explanation& explanation) {
  if (infoOf(scheme).isExact) return fmt::format("plain NCCL ({})", infoOf(scheme).name);
  const CallQuestion& question = explanation.question;
  const double exact = predictExact(question.call, question.facts).seconds();
  return fmt::format("{}, {:.2f} times as fast as plain NCCL", infoOf(scheme).name,
                     exact / explanation.of(scheme)->seconds());
}

void printBreakEven(const Explanation& explanation) {
  const CallQuestion& question = explanation.question;
  const auto& link = explanation.breakEvenLink;
  fmt::print("{} is faster than plain NCCL {}, at {};", infoOf(explanation.compressed).name,
             explanation.breakEvenSize
                 ? fmt::format("from {} on", sizeText(*explanation.breakEvenSize))
                 : "at no size",
             bitRateText(1 / question.facts.link.network.secondsPerByte));
  fmt::print(" with {} {}.\n", sizeText(question.call.inputBytes()),
             !link                  ? "on no link"
             : std::isfinite(*link) ? fmt::format("on links of up to {}", bitRateText(*link))
                                    : "on every link");
}

void printDecision(const Explanation& explanation) {
  const Scheme fastest = explanation.fastest, executed = explanation.executed;
  fmt::print("\nFastest: {}.\n", gainText(fastest, explanation));
  if (fastest != executed)
    fmt::print("It is not in this version. Of what is, the fastest: {}.\n",
               gainText(executed, explanation));
  if (const auto& view = explanation.ncclsView)
    fmt::print("NCCL itself expects {:.3f} ms of plain calls ({}, {}), says {}.\n",
               view->cost.microseconds / 1e3, nameOf(view->cost.algorithm),
               nameOf(view->cost.protocol), view->path);
  if (explanation.reason != Reason::none)
    fmt::print("This version passes the call whatever it costs: {}.\n",
               textOf(explanation.reason).why);
  printBreakEven(explanation);
}

std::string costText(const LinearCost& cost) {
  return fmt::format("{:.1f} us + 1 s per {:.3g} GB", kMicro * cost.fixedSeconds,
                     cost.secondsPerByte > 0 ? 1e-9 / cost.secondsPerByte : HUGE_VAL);
}

void printSources(const Explanation& explanation) {
  const CallQuestion& question = explanation.question;
  const LinkCost& link = question.facts.link;
  const CodecCost& codec = question.facts.codecCost;
  const CallQuestion::Sources& sources = question.sources;
  const auto us = [](double seconds) { return fmt::format("{:g} us", kMicro * seconds); };
  fmt::print("\n");
  printTable({{"NUMBER", "VALUE", "WHERE FROM"},
              {"codec", question.codec->name, sources.codec},
              {"encode", costText(codec.encode), sources.codecCost},
              {"reduce", costText(codec.reduce), sources.codecCost},
              {"decode", costText(codec.decode), sources.codecCost},
              {"link of a host", bitRateText(1 / link.network.secondsPerByte), sources.network},
              {"hop between hosts", us(link.network.fixedSeconds), sources.latency},
              {"link inside a host", bitRateText(1 / link.local.secondsPerByte), sources.local},
              {"hop inside a host", us(link.local.fixedSeconds), sources.localLatency},
              {"message", us(link.secondsPerMessage), sources.message},
              {"NMSE of one coding", fmt::format("{:.2e}", explanation.one.value),
               explanation.one.source}});
}

void printText(const Explanation& explanation) {
  const CallQuestion& question = explanation.question;
  const Topology& topology = question.facts.topology;
  fmt::print("{} of {} {} over {} ranks on {} hosts, with {}; predicted, not measured.\n\n",
             kindName(question.call.kind), sizeText(question.call.inputBytes()),
             typeName(ncclTypeOf(question.call.type)), topology.ranks, topology.hosts,
             question.codec->name);
  printSchemes(explanation);
  printDecision(explanation);
  printSources(explanation);
}

Json jsonOf(const LinearCost& cost, const std::string& source) {
  return {{"fixed_s", cost.fixedSeconds}, {"s_per_byte", cost.secondsPerByte}, {"source", source}};
}

Json jsonOf(Scheme scheme, const Prediction& made, const Explanation& explanation) {
  return {{"scheme", infoOf(scheme).name},  {"seconds", made.seconds()},
          {"wire_s", made.wireSeconds},     {"latency_s", made.latencySeconds},
          {"codec_s", made.codecSeconds},   {"host_link_bytes", made.hostLinkBytes},
          {"nmse", explanation.nmse(made)}, {"in_this_version", infoOf(scheme).isExecuted}};
}

Json jsonOf(const std::optional<NcclsView>& view) {
  if (!view) return nullptr;
  return {{"seconds", 1e-6 * view->cost.microseconds},
          {"algorithm", nameOf(view->cost.algorithm)},
          {"protocol", nameOf(view->cost.protocol)},
          {"source", view->path}};
}

Json orNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

void printJson(const Explanation& explanation) {
  const CallQuestion& question = explanation.question;
  const CostFacts& facts = question.facts;
  const CallQuestion::Sources& sources = question.sources;
  Json report = {{"op", kindName(question.call.kind)},
                 {"bytes", question.call.inputBytes()},
                 {"dtype", typeName(ncclTypeOf(question.call.type))},
                 {"ranks", facts.topology.ranks},
                 {"nodes", facts.topology.hosts},
                 {"codec", {{"name", question.codec->name}, {"source", sources.codec}}},
                 {"schemes", Json::array()}};
  for (size_t i = 0; i < kSchemeCount; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    if (const auto made = explanation.of(scheme))
      report["schemes"].push_back(jsonOf(scheme, *made, explanation));
  }
  report["fastest"] = infoOf(explanation.fastest).name;
  report["fastest_in_this_version"] = infoOf(explanation.executed).name;
  report["policy"] = kReasonNames[static_cast<int>(explanation.reason)];
  report["nccl_expects"] = jsonOf(explanation.ncclsView);
  report["break_even_bytes"] = orNull(explanation.breakEvenSize);
  report["break_even_bytes_per_s"] = orNull(explanation.breakEvenLink);
  report["numbers"] = {{"encode", jsonOf(facts.codecCost.encode, sources.codecCost)},
                       {"reduce", jsonOf(facts.codecCost.reduce, sources.codecCost)},
                       {"decode", jsonOf(facts.codecCost.decode, sources.codecCost)},
                       {"network", jsonOf(facts.link.network, sources.network)},
                       {"local", jsonOf(facts.link.local, sources.local)},
                       {"message_s", facts.link.secondsPerMessage},
                       {"nmse_of_one_coding", explanation.one.value},
                       {"nmse_source", explanation.one.source}};
  fmt::print("{}\n", report.dump(2));
}

}  // namespace

int explainCall(const ExplainedCall& call, OutputFormat format) {
  const auto question = questionOf(call);
  if (!question) {
    fmt::print(stderr, "cinch explain: {}\n", question.error().message);
    return kExitUsage;
  }
  const Explanation explanation(question.value());
  if (format == OutputFormat::json)
    printJson(explanation);
  else
    printText(explanation);
  return kExitOk;
}

}  // namespace cinch
