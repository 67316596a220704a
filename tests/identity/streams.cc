// Whether anything but gradients is ever compressed: generated streams of calls with threads,
// values and known truth, replayed through the policy.
//
//   identity_streams [--streams N] [--seed S]
//
// Then some of them again with each veto disabled: if no stream fails without it, nothing has
// tested it.
#include <cstdio>

#include "tests/identity/options.h"
#include "tests/identity/stream.h"

namespace cinch::identity {
namespace {

constexpr uint64_t kShown = 10;

const Kind& drawKind(Random& random) {
  const size_t n = random.below(kGradientKinds.size() + kOtherKinds.size());
  return n < kGradientKinds.size() ? kGradientKinds[n] : kOtherKinds[n - kGradientKinds.size()];
}

struct Drawn {
  uint64_t seed;
  const Kind* kind;
  StreamResult result;
};

Drawn runStream(Random& seeds, const Disabled& disabled) {
  const Kind& kind = drawKind(seeds);
  const uint64_t seed = seeds.bits();
  Stream stream(seed, disabled);
  kind.run(stream);
  return {seed, &kind, stream.result()};
}

// Whether some stream fails without them.
bool doesMatter(const Disabled& disabled, uint64_t seed, uint64_t nStreams) {
  Random seeds(seed);
  for (uint64_t i = 0; i < nStreams; ++i)
    if (runStream(seeds, disabled).result.nWrong > 0) return true;
  return false;
}

int countThatMatter(uint64_t seed, uint64_t nStreams) {
  const std::pair<const char*, Disabled> vetoes[] = {
      {"alike", {.vetoes = {.alike = false}}},
      {"integers", {.vetoes = {.integers = false}}},
      {"of one sign", {.vetoes = {.ofOneSign = false}}},
      {"gathered by sums", {.vetoes = {.gatheredBySums = false}}},
      {"threads", {.vetoes = {}, .threads = true}}};
  int n = 0;
  for (const auto& [name, disabled] : vetoes) {
    const bool matters = doesMatter(disabled, seed, nStreams);
    if (!matters) std::printf("no stream fails without: %s\n", name);
    n += matters;
  }
  return n;
}

// Bytes of each kind, where it is sufficient.
struct Share {
  uint64_t expected = 0, compressed = 0;
  double value() const {
    return expected == 0 ? 1 : static_cast<double>(compressed) / static_cast<double>(expected);
  }
};

void print(const std::vector<std::pair<const Kind*, Share>>& shares) {
  for (const auto& [kind, share] : shares)
    if (share.expected > 0) std::printf("%s: %.4f\n", kind->name, share.value());
}

int run(const Options& options) {
  Random seeds(options.seed);
  std::vector<std::pair<const Kind*, Share>> shares;
  for (const auto* kinds : {&kGradientKinds, &kOtherKinds})
    for (const Kind& kind : *kinds) shares.emplace_back(&kind, Share());
  uint64_t nFailures = 0;
  double shareSum = 0;
  uint64_t nSufficient = 0;
  for (uint64_t i = 0; i < options.number; ++i) {
    const auto [seed, kind, result] = runStream(seeds, {});
    if (result.nWrong > 0 && ++nFailures <= kShown)
      std::printf("fails: %s, seed %llu: %llu calls\n", kind->name,
                  static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(result.nWrong));
    for (auto& [of, share] : shares) {
      if (of != kind) continue;
      share.expected += result.expectedBytes;
      share.compressed += result.compressedBytes;
    }
    if (result.expectedBytes > 0) {
      ++nSufficient;
      shareSum +=
          static_cast<double>(result.compressedBytes) / static_cast<double>(result.expectedBytes);
    }
    if ((i + 1) % 20000 == 0) {
      std::printf("%llu streams\n", static_cast<unsigned long long>(i + 1));
      std::fflush(stdout);
    }
  }
  print(shares);
  Share all;
  for (const auto& [kind, share] : shares) {
    all.expected += share.expected;
    all.compressed += share.compressed;
  }
  const double shareOfEach = nSufficient == 0 ? 1.0 : shareSum / static_cast<double>(nSufficient);
  std::printf("%llu streams with sufficient evidence; of each, %.4f of the bytes\n",
              static_cast<unsigned long long>(nSufficient), shareOfEach);
  constexpr uint64_t kTried = 20000;
  const bool doesNoiseMatter = doesMatter({.vetoes = {.steady = false}}, ~options.seed, kTried);
  const int nMatter = countThatMatter(~options.seed, kTried);
  std::printf(
      "{\"streams\":%llu,\"stream_failures\":%llu,\"stream_share\":%.4f,"
      "\"vetoes_matter\":\"%d/5\",\"noise_matters\":%s}\n",
      static_cast<unsigned long long>(options.number), static_cast<unsigned long long>(nFailures),
      all.value(), nMatter, doesNoiseMatter ? "true" : "false");
  // Of few streams the largest ones decide the share of all bytes: 0.94 to 0.98 of 2,000.
  const double share = options.number < kTried ? shareOfEach : all.value();
  return nFailures == 0 && share >= 0.95 && nMatter == 5 && doesNoiseMatter ? 0 : 1;
}

}  // namespace
}  // namespace cinch::identity

int main(int argc, char** argv) {
  return cinch::identity::run(cinch::identity::readOptions(argc, argv, "--streams", 100000));
}
