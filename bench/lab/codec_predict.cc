// What error the wire format predicts for given gradients: encodes and decodes them with the scalar
// core, without error feedback, in both stages of an allreduce, and prints the error relative to
// the signal.
//
//   codec_predict --codec q4 --count VALUES --steps N FILE...      one file per rank, N gradients
//   each
//   {"nmse": 0.0099, "nmse_reduce": 0.0099}
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "bench/lab/raw_file.h"
#include "kernels/host/host_codec.h"

namespace {

using cinch::wire::Codec;
using Values = std::vector<float>;

struct Arguments {
  Codec codec = Codec::q4;
  size_t count = 0;
  size_t steps = 1;
  std::vector<std::string> files;
};

// Sums of squares of the error and of the signal.
struct Error {
  double error = 0;
  double power = 0;

  void add(const Values& exact, const Values& decoded) {
    for (size_t i = 0; i < exact.size(); ++i) {
      const double difference = static_cast<double>(exact[i]) - decoded[i];
      error += difference * difference;
      power += static_cast<double>(exact[i]) * exact[i];
    }
  }
  double relative() const { return power > 0 ? error / power : 0; }
};

class Quantiser {
 public:
  Quantiser(const Arguments& arguments)
      : codec_(*cinch::host::findHostCodec("reference")),
        layout_{arguments.count, static_cast<uint32_t>(arguments.files.size()), arguments.codec},
        encoded_(layout_.totalBytes()) {}

  Values roundTrip(const Values& input) {
    cinch::SlotState state{};
    state.ordinal = 1;
    uint32_t fault = 0;
    const cinch::CallContext call{layout_, cinch::ElementType::fp32, 1, 0, &state, &fault};
    codec_.encodeShards({call, input.data(), nullptr, 0, encoded_.data(), -1, false});
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

void predict(const Arguments& arguments) {
  Quantiser quantiser(arguments);
  Error encode, reduce;
  for (size_t step = 0; step < arguments.steps; ++step) {
    Values sum(arguments.count, 0.0f);
    for (const std::string& file : arguments.files) {
      const auto gradient =
          cinch::lab::readRaw<float>(file, step * arguments.count * sizeof(float), arguments.count);
      const Values decoded = quantiser.roundTrip(gradient);
      encode.add(gradient, decoded);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += decoded[i];
    }
    reduce.add(sum, quantiser.roundTrip(sum));
  }
  std::printf("{\"nmse\": %.9g, \"nmse_reduce\": %.9g}\n", encode.relative(), reduce.relative());
}

}  // namespace

int main(int argc, char** argv) {
  static const std::map<std::string, Codec> kCodecs{
      {"q2", Codec::q2}, {"q4", Codec::q4}, {"q8", Codec::q8}};
  Arguments arguments;
  CLI::App app("codec_predict: the error that the wire format predicts for given gradients");
  app.add_option("--codec", arguments.codec, "q2, q4 or q8")
      ->required()
      ->transform(CLI::CheckedTransformer(kCodecs));
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
