// What layer-adaptive precision saves on real gradients, against q4 for all.
//
//   adaptive_precision --count VALUES --layers 16384,1572864,... FILE
//
// FILE holds snapshots of one gradient over a training run, as train_lm --dump-gradients writes
// them. For each way to cut it into segments and each set of codecs it prints a line of JSON: the
// mean over the snapshots of
//   bytes       at the squared error of q4, relative to q4
//   error       at the bytes of q4, relative to q4
// where the choice was made on the snapshot itself ("same") or on the one before ("earlier", as in
// a job, whose plan is always older than the gradient), and for the latter
//   drift       the error of the choice for equal error, relative to q4's
//   bytes_kept  the bytes of that choice.
// With --relative the errors of each layer are divided by its power: what an optimiser that scales
// every parameter by itself, as Adam, makes of them. Bytes are those of the encoded bucket of four
// ranks: headers, padding and unequal shards count.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/adaptive/tile_errors.h"
#include "bench/lab/raw_file.h"
#include "interpose/policy/precision/precision.h"
#include "interpose/policy/precision/precision_plan.h"
#include "interpose/policy/precision/segments.h"

namespace {

using namespace cinch;
using Names = std::vector<std::string>;

constexpr uint32_t kRanks = 4;

struct Arguments {
  size_t count = 0;
  std::vector<uint64_t> layers;
  bool relative = false;
  std::string file;
};

// Of one snapshot: the errors of every codec by tile.
using TileErrors = std::map<std::string, std::vector<double>>;

// The first of a set is the standard, the last one raw.
struct CodecSet {
  const char* name;
  Names codecs;
};
const CodecSet kCodecSets[] = {
    {"q", {"q4", "q2", "q3", "q5", "q6", "q8", "bf16"}},
    {"q h", {"q4", "q2", "q3", "q5", "q6", "q8", "h2", "h3", "h4", "bf16"}},
    {"h q5-8", {"q4", "h2", "h3", "h4", "q5", "q6", "q8", "bf16"}},
    {"h q5-8 sign", {"q4", "sign", "h2", "h3", "h4", "q5", "q6", "q8", "bf16"}},
    {"all", {"q4", "q2", "q3", "q5", "q6", "q8", "h2", "h3", "h4", "sign", "bf16"}},
};

// A way to cut and a set of codecs, on one snapshot.
class Case {
 public:
  Case(const TileErrors& errors, const std::vector<PrecisionSegment>& segments, const Names& names)
      : segments_(segments) {
    for (const std::string& name : names) codecs_.push_back(codec::findCodec(name)->format);
    size_t tile = 0;
    for (const PrecisionSegment& segment : segments) {
      for (const std::string& name : names) errors_.push_back(sum(errors.at(name), tile, segment));
      tile += segment.nTiles;
    }
    count_ = tile * wire::kTileElems;
  }

  PrecisionProblem problem() const {
    return {segments_, codecs_, 0, static_cast<uint32_t>(codecs_.size()) - 1, errors_};
  }
  PrecisionChoice standard() const {
    return {std::vector<uint8_t>(segments_.size(), 0), 0, 0, 0, true};
  }
  double errorOf(const PrecisionChoice& choice) const {
    double error = 0;
    for (size_t i = 0; i < segments_.size(); ++i)
      error += errors_[i * codecs_.size() + choice.candidates[i]];
    return error;
  }
  double bytesOf(const PrecisionChoice& choice) const {
    const auto runs = runsOf(problem(), choice);
    const wire::MixedLayout layout(count_, kRanks, runs);
    return static_cast<double>(layout.layout().totalBytes());
  }
  uint64_t tileBytes() const {
    uint64_t nTiles = 0;
    for (const PrecisionSegment& segment : segments_) nTiles += segment.nTiles;
    return nTiles * codecs_[0].tileBytes();
  }

 private:
  static double sum(const std::vector<double>& errors, size_t first,
                    const PrecisionSegment& segment) {
    double sum = 0;
    for (size_t tile = first; tile < first + segment.nTiles; ++tile) sum += errors[tile];
    return sum;
  }

  std::vector<PrecisionSegment> segments_;
  std::vector<wire::CodecFormat> codecs_;
  std::vector<double> errors_;
  uint64_t count_ = 0;
};

// The fewest bytes of a choice made on `from` whose error on `to` is that of q4.
PrecisionChoice equalError(const Case& from, const Case& to) {
  const double wanted = to.errorOf(to.standard());
  double low = 0, high = 8 * from.errorOf(from.standard());
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (to.errorOf(fewestBytes(from.problem(), middle)) <= wanted ? low : high) = middle;
  }
  return fewestBytes(from.problem(), low);
}

// The least error of a choice made on `from` with no more bytes than q4, however shards come out.
PrecisionChoice equalBytes(const Case& from) {
  const uint64_t slack = kRanks * from.problem().candidates.back().tileBytes();
  return leastError(from.problem(), from.tileBytes() - slack);
}

class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++n_;
  }
  double value() const { return n_ > 0 ? sum_ / n_ : 0; }

 private:
  double sum_ = 0;
  int n_ = 0;
};

struct Figures {
  Mean bytes, error, drift, bytesKept, milliseconds;

  void add(const Case& from, const Case& to) {
    const double q4Error = to.errorOf(to.standard()), q4Bytes = to.bytesOf(to.standard());
    const auto start = std::chrono::steady_clock::now();
    const PrecisionChoice kept = fewestBytes(from.problem());
    milliseconds.add(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
    drift.add(to.errorOf(kept) / q4Error);
    bytesKept.add(to.bytesOf(kept) / q4Bytes);
    bytes.add(to.bytesOf(equalError(from, to)) / q4Bytes);
    error.add(to.errorOf(equalBytes(from)) / q4Error);
  }
};

nlohmann::ordered_json jsonOf(const Figures& same, const Figures& earlier) {
  return {{"same", {{"bytes", same.bytes.value()}, {"error", same.error.value()}}},
          {"earlier",
           {{"bytes", earlier.bytes.value()},
            {"error", earlier.error.value()},
            {"drift", earlier.drift.value()},
            {"bytes_kept", earlier.bytesKept.value()}}},
          {"solve_ms", same.milliseconds.value()}};
}

class Measurement {
 public:
  explicit Measurement(const Arguments& arguments) : arguments_(arguments) {
    for (uint64_t count : arguments.layers) layers_.push_back({count, kUnknownDims});
    const size_t bytes = arguments.count * sizeof(float);
    std::ifstream file(arguments.file, std::ios::binary | std::ios::ate);
    for (size_t at = 0; at + bytes <= static_cast<size_t>(file.tellg()); at += bytes)
      snapshots_.push_back(measure(lab::readRaw<float>(arguments.file, at, arguments.count)));
  }

  void print() const {
    for (const CodecSet& set : kCodecSets) {
      printRow("layers", set, segmentsOf(arguments_.count, layers_, arguments_.count));
      for (uint64_t nTiles : {64, 16, 4})
        printRow(std::to_string(nTiles) + " Ki", set, segmentsOf(arguments_.count, {}, nTiles));
    }
  }

 private:
  TileErrors measure(const lab::Values& values) const {
    TileErrors errors;
    for (const CodecSet& set : kCodecSets)
      for (const std::string& name : set.codecs)
        if (!errors.contains(name))
          errors[name] = lab::tileErrors(values, codec::findCodec(name)->format);
    if (arguments_.relative) {
      const std::vector<double> power = layerPower(values);
      for (auto& [name, ofTiles] : errors)
        for (size_t tile = 0; tile < ofTiles.size(); ++tile) ofTiles[tile] /= power[tile];
    }
    return errors;
  }

  // By tile: the mean power of a value of its layer.
  std::vector<double> layerPower(const lab::Values& values) const {
    std::vector<double> power;
    size_t at = 0;
    for (const PrecisionSegment& layer : segmentsOf(values.size(), layers_, values.size())) {
      double sum = 0;
      const size_t end = std::min(at + layer.nTiles * wire::kTileElems, values.size());
      for (const size_t first = at; at < end; ++at)
        sum += static_cast<double>(values[at]) * values[at] / static_cast<double>(end - first);
      power.insert(power.end(), layer.nTiles, sum);
    }
    return power;
  }

  void printRow(const std::string& how, const CodecSet& set,
                const std::vector<PrecisionSegment>& segments) const {
    std::vector<Case> cases;
    for (const TileErrors& errors : snapshots_) cases.emplace_back(errors, segments, set.codecs);
    Figures same, earlier;
    for (size_t i = 0; i < cases.size(); ++i) {
      same.add(cases[i], cases[i]);
      if (i > 0) earlier.add(cases[i - 1], cases[i]);
    }
    nlohmann::ordered_json row = {{"segments", how}, {"n", segments.size()}, {"codecs", set.name}};
    row.update(jsonOf(same, earlier));
    std::printf("%s\n", row.dump().c_str());
  }

  const Arguments& arguments_;
  BucketLayout layers_;
  std::vector<TileErrors> snapshots_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("adaptive_precision: what layer-adaptive precision saves on given gradients");
  app.add_option("--count", arguments.count, "values of one gradient")->required();
  app.add_option("--layers", arguments.layers, "values of each layer, in order")->delimiter(',');
  app.add_flag("--relative", arguments.relative, "divide errors by the power of their layer");
  app.add_option("file", arguments.file, "gradients as raw fp32, one after another")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    Measurement(arguments).print();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adaptive_precision: %s\n", error.what());
    return 1;
  }
}
