// Whether compression lost anything: over a run, what all ranks put in minus what came out must be
// what the residuals hold, sum(in) - sum(out) = sum over ranks of e1 + the owner's e2, for every
// value.
//
//   residual_check RANK0.sums RANK0.residual RANK1.sums RANK1.residual ...
//
// RANK.sums comes from train_lm --dump-sums, RANK.residual.{bin,json} from CINCH_RESIDUAL_DUMP.
// Prints Euclidean norms: {"sent": .., "kept": .., "unexplained": .., "outputs_equal": true}
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/lab/raw_file.h"

namespace {

using Sums = std::vector<double>;

struct Totals {
  Sums sent;      // over ranks
  Sums reduced;   // of the first rank
  Sums residual;  // over ranks and both stages
  bool outputsEqual = true;

  explicit Totals(size_t count) : sent(count), residual(count) {}
};

template <class T>
void addTo(Sums& sums, size_t first, const std::vector<T>& values) {
  for (size_t i = 0; i < values.size(); ++i) sums[first + i] += values[i];
}

nlohmann::json largestSlot(const std::string& residual) {
  const std::string path = residual + ".json";
  std::ifstream file(path);
  const auto index = nlohmann::json::parse(file, nullptr, false);
  if (index.is_discarded() || !index.contains("slots") || index["slots"].empty())
    throw std::runtime_error(path + " lists no residual: was anything compressed?");
  nlohmann::json largest = index["slots"][0];
  for (const auto& slot : index["slots"])
    if (slot.at("count") > largest.at("count")) largest = slot;
  if (largest.at("residual_type") != "fp32")
    throw std::runtime_error(path + ": only fp32 residuals add up; run with CINCH_RESIDUAL=fp32");
  return largest;
}

void addRank(const std::string& sums, const std::string& residual, const nlohmann::json& slot,
             Totals& totals) {
  const size_t count = totals.sent.size();
  addTo(totals.sent, 0, cinch::lab::readRaw<double>(sums, 0, count));
  Sums reduced = cinch::lab::readRaw<double>(sums, count * sizeof(double), count);
  if (totals.reduced.empty())
    totals.reduced = std::move(reduced);
  else if (totals.reduced != reduced)
    totals.outputsEqual = false;

  const size_t offset = slot.at("offset");
  const std::string data = residual + ".bin";
  addTo(totals.residual, 0, cinch::lab::readRaw<float>(data, offset, count));
  addTo(totals.residual, slot.at("shard_first"),
        cinch::lab::readRaw<float>(data, offset + count * sizeof(float), slot.at("shard_count")));
}

void report(const Totals& totals) {
  double sent = 0, kept = 0, unexplained = 0;
  for (size_t i = 0; i < totals.sent.size(); ++i) {
    const double lost = totals.sent[i] - totals.reduced[i];
    sent += totals.sent[i] * totals.sent[i];
    kept += totals.residual[i] * totals.residual[i];
    unexplained += (lost - totals.residual[i]) * (lost - totals.residual[i]);
  }
  std::printf("{\"sent\": %.9g, \"kept\": %.9g, \"unexplained\": %.9g, \"outputs_equal\": %s}\n",
              std::sqrt(sent), std::sqrt(kept), std::sqrt(unexplained),
              totals.outputsEqual ? "true" : "false");
}

void check(int nRanks, char** files) {
  Totals totals(largestSlot(files[1]).at("count"));
  for (int rank = 0; rank < nRanks; ++rank) {
    const std::string sums = files[2 * rank];
    const std::string residual = files[2 * rank + 1];
    addRank(sums, residual, largestSlot(residual), totals);
  }
  report(totals);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: residual_check RANK0.sums RANK0.residual [RANK1.sums ...]\n");
    return 1;
  }
  try {
    check((argc - 1) / 2, argv + 1);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "residual_check: %s\n", error.what());
    return 1;
  }
}
