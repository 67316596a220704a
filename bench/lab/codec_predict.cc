// What error the wire format predicts for given gradients: encodes and decodes them with the scalar
// core, without error feedback, in both stages of an allreduce, and prints the error relative to
// the signal.
//
//   codec_predict --codec q4 --count VALUES --steps N FILE...      one file per rank, N gradients
//   each
//   {"nmse": 0.0099, "nmse_reduce": 0.0099}
//
// As the ranks' own reports: a rank encodes all but its own shard and reduces that one; the figures
// are the means over the ranks.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/lab/raw_file.h"
#include "kernels/codec/registry.h"
#include "kernels/host/host_codec.h"

namespace {

using cinch::codec::findCodec;
using Values = std::vector<float>;

struct Arguments {
  std::string codec;
  size_t count = 0;
  size_t steps = 1;
  std::vector<std::string> files;
};

// Sums of squares of the error and of the signal.
struct Error {
  double error = 0;
  double power = 0;

  void add(const Values& exact, const Values& decoded, uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i) {
      const double difference = static_cast<double>(exact[i]) - decoded[i];
      error += difference * difference;
      power += static_cast<double>(exact[i]) * exact[i];
    }
  }
  double relative() const { return power > 0 ? error / power : 0; }
};

class Quantiser {
 public:
  explicit Quantiser(const Arguments& arguments)
      : codec_(*cinch::host::findHostCodec("reference")),
        layout_{arguments.count, static_cast<uint32_t>(arguments.files.size()),
                findCodec(arguments.codec)->format},
        encoded_(layout_.totalBytes()) {}

  const cinch::wire::ShardLayout& layout() const { return layout_; }

  Values roundTrip(const Values& input) {
    cinch::SlotState state{};
    state.ordinal = 1;
    uint32_t fault = 0;
    const cinch::CallContext call{layout_, cinch::ElementType::fp32, 1, 0, &state, &fault};
    codec_.encodeShards(
        {.call = call, .input = input.data(), .residual = nullptr, .output = encoded_.data()});
    Values output(input.size());
    codec_.decodeShards({call, encoded_.data(), output.data()});
    if (fault != 0) throw std::runtime_error("the codec refused its own bytes");
    return output;
  }

 private:
  const cinch::host::HostCodec& codec_;
  cinch::wire::ShardLayout layout_;
  std::vector<uint8_t> encoded_;
};

double mean(const std::vector<Error>& errors) {
  double sum = 0;
  for (const Error& error : errors) sum += error.relative();
  return sum / static_cast<double>(errors.size());
}

class Prediction {
 public:
  explicit Prediction(const Arguments& arguments)
      : arguments_(arguments),
        quantiser_(arguments),
        encode_(arguments.files.size()),
        reduce_(arguments.files.size()) {}

  void addStep(size_t step) {
    Values sum(arguments_.count, 0.0f);
    for (uint32_t rank = 0; rank < encode_.size(); ++rank) addGradient(step, rank, sum);
    const Values decoded = quantiser_.roundTrip(sum);
    for (uint32_t shard = 0; shard < reduce_.size(); ++shard)
      reduce_[shard].add(sum, decoded, layout().firstElem(shard), layout().shardElems(shard));
  }

  void print() const {
    std::printf("{\"nmse\": %.9g, \"nmse_reduce\": %.9g}\n", mean(encode_), mean(reduce_));
  }

 private:
  const cinch::wire::ShardLayout& layout() const { return quantiser_.layout(); }

  void addGradient(size_t step, uint32_t rank, Values& sum) {
    const auto gradient = cinch::lab::readRaw<float>(
        arguments_.files[rank], step * arguments_.count * sizeof(float), arguments_.count);
    const Values decoded = quantiser_.roundTrip(gradient);
    for (uint32_t shard = 0; shard < encode_.size(); ++shard)
      if (shard != rank)
        encode_[rank].add(gradient, decoded, layout().firstElem(shard), layout().shardElems(shard));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += decoded[i];
  }

  const Arguments& arguments_;
  Quantiser quantiser_;
  std::vector<Error> encode_;  // by rank
  std::vector<Error> reduce_;  // by shard
};

void predict(const Arguments& arguments) {
  Prediction prediction(arguments);
  for (size_t step = 0; step < arguments.steps; ++step) prediction.addStep(step);
  prediction.print();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("codec_predict: the error that the wire format predicts for given gradients");
  app.add_option("--codec", arguments.codec, "as CINCH_CODEC has it")
      ->required()
      ->check([](const std::string& name) {
        return findCodec(name) ? std::string() : name + " is no codec";
      });
  app.add_option("--count", arguments.count, "values of one gradient")->required();
  app.add_option("--steps", arguments.steps, "gradients in each file");
  app.add_option("files", arguments.files, "one per rank")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    predict(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codec_predict: %s\n", error.what());
    return 1;
  }
}
