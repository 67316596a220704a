#include "tests/unit/interpose/policy/trace.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace cinch::test {
namespace {

using Lines = std::vector<std::string>;

const std::map<std::string, CallKind> kKinds = {{"AllReduce", CallKind::allReduce},
                                                {"AllGather", CallKind::allGather},
                                                {"ReduceScatter", CallKind::reduceScatter},
                                                {"Reduce", CallKind::reduce},
                                                {"Broadcast", CallKind::broadcast},
                                                {"AllToAll", CallKind::allToAll},
                                                {"Gather", CallKind::gather},
                                                {"Scatter", CallKind::scatter}};
const std::map<std::string, OpClass> kOps = {{"None", OpClass::none},
                                             {"Sum", OpClass::sum},
                                             {"Avg", OpClass::avg},
                                             {"PreMulSum", OpClass::preMulSum},
                                             {"Other", OpClass::other}};
const std::map<std::string, ncclDataType_t> kTypes = {
    {"int32", ncclInt32},  {"int64", ncclInt64},   {"uint8", ncclUint8}, {"fp32", ncclFloat32},
    {"fp16", ncclFloat16}, {"bf16", ncclBfloat16}, {"fp64", ncclFloat64}};

// "@repeat N" ... "@end" stands for N copies, each of as many steps as the block has.
class Unfolder {
 public:
  explicit Unfolder(const Lines& lines) : lines_(lines) {}

  // From the current line to the end, or to the "@end" of the block; steps go up by `shift`.
  void read(int shift, std::vector<TraceCall>& calls) {
    for (; at_ < lines_.size() && lines_[at_] != "@end"; ++at_) {
      if (lines_[at_].starts_with("@repeat "))
        repeat(std::stoi(lines_[at_].substr(8)), shift, calls);
      else
        calls.push_back(parse(lines_[at_], shift));
    }
  }

 private:
  void repeat(int times, int shift, std::vector<TraceCall>& calls) {
    const size_t first = ++at_;
    int nSteps = 0;
    for (int i = 0; i < times; ++i) {
      at_ = first;
      const size_t before = calls.size();
      read(shift + i * nSteps, calls);
      if (calls.size() == before) throw std::runtime_error("an empty @repeat");
      if (i == 0) nSteps = calls.back().step - calls[before].step + 1;
    }
  }

  static TraceCall parse(const std::string& line, int shift) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    if (fields.size() != 9) throw std::runtime_error("not a call: " + line);
    const Signature signature{kKinds.at(fields[2]), kOps.at(fields[3]), kTypes.at(fields[4]),
                              std::stoull(fields[5])};
    return {std::stoi(fields[0]) + shift,
            std::stoi(fields[1]),
            signature,
            fields[6],
            fields[7],
            fields[8]};
  }

  const Lines& lines_;
  size_t at_ = 0;
};

void readHeader(const std::string& line, Trace& trace) {
  const size_t colon = line.find(": ");
  if (colon == std::string::npos) return;
  trace.header[line.substr(2, colon - 2)] = line.substr(colon + 2);
}

// bfloat16s of four hexadecimal digits each.
std::vector<float> parseValues(const std::string& digits) {
  std::vector<float> values;
  for (size_t i = 0; i + 4 <= digits.size(); i += 4)
    values.push_back(std::bit_cast<float>(
        static_cast<uint32_t>(std::stoul(digits.substr(i, 4), nullptr, 16)) << 16));
  return values;
}

void readValues(const std::string& name, Trace& trace) {
  std::ifstream file(std::string(CINCH_TRACES) + "/" + name + ".values");
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string row, input, output;
    std::getline(in, row, ',');
    std::getline(in, input, ',');
    std::getline(in, output, ',');
    if (row != "row") trace.values[std::stoul(row)] = {parseValues(input), parseValues(output)};
  }
}

}  // namespace

Trace readTrace(const std::string& name) {
  std::ifstream file(std::string(CINCH_TRACES) + "/" + name + ".csv");
  if (!file) throw std::runtime_error("no trace " + name);
  Trace trace;
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# "))
      readHeader(line, trace);
    else if (!line.starts_with("step,"))
      lines.push_back(line);
  }
  std::istringstream ranks(trace.header["ranks"]);
  for (int n = 0; ranks >> n;) trace.nRanks.push_back(n);
  Unfolder(lines).read(0, trace.calls);
  readValues(name, trace);
  return trace;
}

std::vector<std::string> traceNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CINCH_TRACES))
    if (entry.path().extension() == ".csv") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cinch::test
