#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/codec/registry.h"
#include "tools/cinch/codec_error.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/text_table.h"

namespace cinch {
namespace {

struct ExplainedCodec {
  codec::CodecInfo info;
  std::vector<double> errors;  // one for each of errorDataSets()

  double bitsPerValue() const { return 8.0 * info.format.tileBytes() / wire::kTileElems; }
  const char* rounding() const { return info.dithers ? "nearest, stochastic" : "nearest"; }
  const char* family() const;
};

const char* ExplainedCodec::family() const {
  constexpr uint8_t kFirstExperiment = 240;
  if (info.format.id >= kFirstExperiment) return "experiment";
  switch (static_cast<CodecFamily>(info.format.id / 16 * 16)) {
    case CodecFamily::uniform:
      return "min-max";
    case CodecFamily::rotated:
      return "Hadamard";
    default:
      return info.format.bits == 1 ? "sign" : "float";
  }
}

std::vector<ExplainedCodec> explainAll(const ExplainOptions& options) {
  std::vector<ExplainedCodec> rows;
  for (const codec::CodecInfo& info : codec::kCodecs)
    if (codec::isForCalls(info)) rows.push_back({info, {}});
  for (const DataSet& data : errorDataSets()) {
    const std::vector<float> values = data.draw(options.nValues, options.scale);
    for (ExplainedCodec& row : rows) row.errors.push_back(codecError(row.info.format, values));
  }
  return rows;
}

std::string errorText(double error) {
  return std::isfinite(error) ? fmt::format("{:.2e}", error) : "overflows";
}

// What text and Markdown have in their columns.
std::vector<TextRow> cellsOf(const std::vector<ExplainedCodec>& codecs) {
  std::vector<TextRow> rows = {
      {"codec", "family", "bits per value", "metadata", "against fp32", "against bf16"}};
  for (const DataSet& data : errorDataSets()) rows[0].push_back(data.name);
  rows[0].push_back("rounding");
  for (const ExplainedCodec& codec : codecs) {
    const double bits = codec.bitsPerValue();
    rows.push_back({codec.info.name, codec.family(), fmt::format("{:g}", bits),
                    fmt::format("{} bytes", codec.info.format.blockMetaBytes),
                    fmt::format("1 / {:.1f}", 32 / bits), fmt::format("1 / {:.1f}", 16 / bits)});
    for (double error : codec.errors) rows.back().push_back(errorText(error));
    rows.back().push_back(codec.rounding());
  }
  return rows;
}

void printMarkdown(const ExplainOptions& options, const std::vector<ExplainedCodec>& codecs) {
  fmt::print(
      "# Codecs\n\n"
      "What `CINCH_CODEC` can be. *Bits per value* has metadata in it: each block of 128 values "
      "has\n"
      "its own.\n"
      "The errors are squared error over squared signal after one round trip without error\n"
      "feedback, of {} values: Gaussian, Laplace, and Student's t with 3 degrees of freedom.\n"
      "docs/wire-format.md says what each codec does, docs/writing-a-codec.md how to add one.\n\n",
      options.nValues);
  bool isHeading = true;
  for (const TextRow& row : cellsOf(codecs)) {
    for (const std::string& cell : row) fmt::print("| {} ", cell);
    fmt::print("|\n");
    if (isHeading)
      for (size_t column = 0; column < row.size(); ++column) fmt::print("|---");
    if (isHeading) fmt::print("|\n");
    isHeading = false;
  }
  fmt::print("\nThis page is the output of `cinch explain --codecs --markdown`.\n");
}

void printJson(const ExplainOptions& options, const std::vector<ExplainedCodec>& codecs) {
  nlohmann::ordered_json report = {
      {"values", options.nValues}, {"scale", options.scale}, {"codecs", nullptr}};
  for (const ExplainedCodec& codec : codecs) {
    nlohmann::ordered_json errors;
    for (size_t i = 0; i < codec.errors.size(); ++i)
      errors[errorDataSets()[i].name] = codec.errors[i];  // null where not finite
    report["codecs"].push_back({{"name", codec.info.name},
                                {"id", codec.info.format.id},
                                {"family", codec.family()},
                                {"bits_per_value", codec.bitsPerValue()},
                                {"code_bits", codec.info.format.bits},
                                {"block", wire::kBlockElems},
                                {"block_metadata_bytes", codec.info.format.blockMetaBytes},
                                {"rounding", codec.rounding()},
                                {"nmse", errors}});
  }
  fmt::print("{}\n", report.dump(2));
}

}  // namespace

int explainCodecs(const ExplainOptions& options) {
  const std::vector<ExplainedCodec> codecs = explainAll(options);
  switch (options.format) {
    case OutputFormat::text:
      printTable(cellsOf(codecs));
      break;
    case OutputFormat::json:
      printJson(options, codecs);
      break;
    case OutputFormat::markdown:
      printMarkdown(options, codecs);
      break;
  }
  return kExitOk;
}

}  // namespace cinch
