#include "tools/cinch/codec_costs.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/host_name.h"

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json jsonOf(const LinearCost& cost) {
  return {{"fixed_s", cost.fixedSeconds}, {"s_per_byte", cost.secondsPerByte}};
}

double readSeconds(const Json& from, const char* name) {
  const double value = from.at(name).get<double>();
  if (!std::isfinite(value) || value < 0)
    throw std::domain_error(std::string(name) + " is not a time");
  return value;
}

LinearCost readCost(const Json& from) {
  return {readSeconds(from, "fixed_s"), readSeconds(from, "s_per_byte")};
}

CodecCosts readCosts(const Json& from) {
  if (from.at("version").get<int>() != kVersion) throw std::domain_error("another version's");
  CodecCosts costs{.machine = from.at("machine").get<std::string>(), .costs = {}};
  for (const auto& [key, each] : from.at("codecs").items())
    costs.costs[key] = {
        {readCost(each.at("encode")), readCost(each.at("reduce")), readCost(each.at("decode"))},
        each.at("date").get<std::string>()};
  return costs;
}

const char* nameOf(ElementType type) {
  if (type == ElementType::fp16) return "fp16";
  return type == ElementType::bf16 ? "bf16" : "fp32";
}

const char* nameOf(ResidualType type) {
  if (type == ResidualType::int8) return "int8";
  return type == ResidualType::bf16 ? "bf16" : "fp32";
}

}  // namespace

std::string codecCostKey(const codec::CodecInfo& codec, ElementType type, const CodingRule& rule) {
  std::string key = std::string(codec.name) + " " + nameOf(type);
  if (rule.rounding != Rounding::nearest) key += " dithered";
  if (rule.gain > 0) key += std::string(" residual ") + nameOf(rule.residualType);
  return key;
}

std::string formatCodecCosts(const CodecCosts& costs) {
  Json codecs = Json::object();
  for (const auto& [key, kept] : costs.costs)
    codecs[key] = {{"date", kept.date},
                   {"encode", jsonOf(kept.cost.encode)},
                   {"reduce", jsonOf(kept.cost.reduce)},
                   {"decode", jsonOf(kept.cost.decode)}};
  const Json all = {{"version", kVersion}, {"machine", costs.machine}, {"codecs", codecs}};
  return all.dump(1) + "\n";
}

Result<CodecCosts> parseCodecCosts(std::string_view text) {
  try {
    return readCosts(Json::parse(text));
  } catch (const std::exception& error) {
    return errorf(Status::invalidArgument, "no costs of codecs: %s", error.what());
  }
}

std::string codecCostsPath(const std::string& folder) {
  return folder + "/codec-costs." + hostName() + ".json";
}

}  // namespace cinch
