#include "interpose/policy/rules.h"

#include <array>
#include <cstdio>

#include "common/codec_names.h"
#include "common/hash.h"

namespace cinch {
namespace {

bool holdsButForOrdinal(const Rule& rule, const Signature& signature, int nRanks) {
  return (!rule.kind || rule.kind == signature.kind) &&
         (!rule.dataType || rule.dataType == signature.dataType) &&
         (!rule.op || rule.op == signature.op) &&
         rule.bytes.holds(bufferBytes(signature, nRanks)) &&
         rule.ranks.holds(static_cast<uint64_t>(nRanks));
}

}  // namespace

const Rule* Rules::search(const Signature& signature, int nRanks, uint64_t seenBefore) const {
  for (const Rule& rule : rules_)
    if (holdsButForOrdinal(rule, signature, nRanks) && rule.ordinal.holds(seenBefore)) return &rule;
  return nullptr;
}

std::vector<std::string> Rules::notices() const {
  std::vector<std::string> all;
  for (const Rule& rule : rules_)
    if (!rule.retiredCodec.empty()) all.push_back(retiredCodecText(rule.retiredCodec));
  return all;
}

std::string Rules::fingerprint() const {
  if (rules_.empty()) return "none";
  std::string text;
  for (const Rule& rule : rules_) text += describe(rule) + ';';
  const uint64_t hash = hashText(text);
  std::array<char, 20> digits;
  snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

}  // namespace cinch
