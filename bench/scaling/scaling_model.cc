// Answers questions to the cost model: a JSON array of them on standard input, one of answers on
// standard output, in the same order. Status 2 and a message where the input is not understood.
//
//   {"fit": [[bytes, seconds, seconds known], ...]}
//       -> {"fixed_s": A, "s_per_byte": B}
//   {"op": "allreduce", "dtype": "fp32", "codec": "q4", "bytes": N, "ranks": P, "hosts": H,
//    "network": COST, "local": COST, "message_s": S, "encode": COST, "reduce": COST, "decode":
//    COST}
//       -> [{"scheme": NAME, "exact": B, "in_this_version": B, "seconds": S, "wire_s": S,
//            "latency_s": S, "codec_s": S, "host_link_bytes": N, "quantisations": Q, "nmse": E},
//            ...]
//
// COST is what a fit answers; costs that are left out are nothing.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/cinch/predict/cost_fit.h"
#include "tools/cinch/predict/cost_model.h"

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;

Json answerFit(const Json& samples) {
  std::vector<CostSample> read;
  for (const Json& sample : samples)
    read.push_back({sample.at(0), sample.at(1), sample.size() > 2 ? double{sample.at(2)} : 0.0});
  const auto cost = fitLinear(read);
  if (!cost) throw std::runtime_error("a fit without samples of positive time");
  return {{"fixed_s", cost->fixedSeconds}, {"s_per_byte", cost->secondsPerByte}};
}

LinearCost costAt(const Json& question, const char* name) {
  const auto found = question.find(name);
  if (found == question.end()) return {};
  return {found->at("fixed_s"), found->at("s_per_byte")};
}

template <class Value>
Value oneOf(const std::string& text, std::initializer_list<std::pair<const char*, Value>> known) {
  for (const auto& [name, value] : known)
    if (text == name) return value;
  throw std::runtime_error("unknown: " + text);
}

const codec::CodecInfo& codecOf(const std::string& name) {
  const codec::CodecInfo* found = codec::findCodec(name);
  if (found == nullptr) throw std::runtime_error("unknown codec: " + name);
  return *found;
}

CostedCall callOf(const Json& question) {
  const auto kind = oneOf<CallKind>(
      question.at("op"),
      {{"allreduce", CallKind::allReduce}, {"reduce_scatter", CallKind::reduceScatter}});
  const auto type = oneOf<ElementType>(
      question.at("dtype"),
      {{"fp32", ElementType::fp32}, {"fp16", ElementType::fp16}, {"bf16", ElementType::bf16}});
  return {kind, type, question.at("bytes").get<uint64_t>() / elementBytes(type)};
}

CostFacts factsOf(const Json& question) {
  const CodecCost codecCost{costAt(question, "encode"), costAt(question, "reduce"),
                            costAt(question, "decode")};
  const LinkCost link{costAt(question, "network"), costAt(question, "local"),
                      question.value("message_s", 0.0)};
  const Topology topology{question.at("ranks"), question.at("hosts")};
  if (!topology.isValid()) throw std::runtime_error("hosts without an equal number of ranks");
  return {codecOf(question.at("codec")).format, codecCost, link, topology};
}

Json answerCall(const Json& question) {
  const CostedCall call = callOf(question);
  const CostFacts facts = factsOf(question);
  const auto one = gaussianNmse(codecOf(question.at("codec")));
  Json answers = Json::array();
  for (size_t i = 0; i < kSchemeCount; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    const auto made = predict(scheme, call, facts);
    if (!made) continue;
    answers.push_back({{"scheme", infoOf(scheme).name},
                       {"exact", infoOf(scheme).isExact},
                       {"in_this_version", infoOf(scheme).isExecuted},
                       {"seconds", made->seconds()},
                       {"wire_s", made->wireSeconds},
                       {"latency_s", made->latencySeconds},
                       {"codec_s", made->codecSeconds},
                       {"host_link_bytes", made->hostLinkBytes},
                       {"quantisations", made->quantisations},
                       {"nmse", one ? Json(made->quantisations * *one) : Json(nullptr)}});
  }
  return answers;
}

Json answer(const Json& question) {
  const auto samples = question.find("fit");
  return samples == question.end() ? answerCall(question) : answerFit(*samples);
}

}  // namespace
}  // namespace cinch

int main() {
  try {
    nlohmann::ordered_json answers = nlohmann::ordered_json::array();
    for (const auto& question : nlohmann::ordered_json::parse(std::cin))
      answers.push_back(cinch::answer(question));
    printf("%s\n", answers.dump().c_str());
  } catch (const std::exception& error) {
    fprintf(stderr, "scaling_model: %s\n", error.what());
    return 2;
  }
  return 0;
}
