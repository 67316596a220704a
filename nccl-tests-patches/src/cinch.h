// What the patches call: a check that accepts what a codec may do to values, inputs like those of a
// training job, and what Cinch did, at the end of each line. C++14.
//
// All is as it was while no --cinch flag is given and Cinch is not preloaded.
#pragma once

#include <dlfcn.h>
#include <getopt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cinch_compare.h"
#include "cinch_input.h"
#include "cinch_report.h"
#include "common.h"

// A macro, since it becomes a part of a longer text.
#define CINCH_USAGE                                                                              \
  "[--cinch-tolerance <VALUE,NMSE> accept what a codec does, as `cinch explain --tolerance "     \
  "CODEC` prints it] \n\t"                                                                       \
  "[--cinch-input <stock/gauss/student/FILE of fp32 values>] \n\t"                               \
  "[--cinch-columns <0/1> wire bytes, ratio, NMSE and path at the end of each line (default: 1 " \
  "under Cinch)] \n\t"

template <typename T>
void Allreduce(struct threadArgs* args, T* value, int average);

namespace cinch {
inline namespace nccl_tests {  // the library has types of the same names

enum Flag { kTolerance = 1000, kInput, kColumns };

constexpr option kToleranceFlag = {"cinch-tolerance", required_argument, nullptr, kTolerance};
constexpr option kInputFlag = {"cinch-input", required_argument, nullptr, kInput};
constexpr option kColumnsFlag = {"cinch-columns", required_argument, nullptr, kColumns};

struct Settings {
  Tolerance tolerance;
  InputKind input = InputKind::stock;
  std::vector<float> recorded;
  int columns = -1;  // -1: where Cinch is preloaded

  bool checks() const { return tolerance.isGiven || input != InputKind::stock; }
};

inline Settings& settings() {
  static Settings all;
  return all;
}

// One row of the table, and what a thread has found in it so far.
struct Row {
  std::string name;  // as Cinch's report has it; empty: no call of a kind that Cinch knows
  CallFigures before;
  CallFigures after;
  double plainBytes = 0;  // of a call, what a rank of a plain ring sends
  double nmse = -1;       // the worse of out of place and in place; below 0: not checked
};

inline Row& row() {
  static Row theOnly;
  return theOnly;
}

inline Sums& sums() {
  static thread_local Sums ofThisThread;
  return ofThisThread;
}

// Whether the NCCL that is called is Cinch.
inline bool isPreloaded() {
  Dl_info found;
  void* entry = dlsym(RTLD_DEFAULT, "ncclAllReduce");
  if (entry == nullptr || dladdr(entry, &found) == 0 || found.dli_fname == nullptr) return false;
  return strstr(found.dli_fname, "libcinch") != nullptr;
}

inline bool hasColumns() {
  static const bool isCinch = isPreloaded();
  return settings().columns < 0 ? isCinch : settings().columns != 0;
}

inline bool readValues(const char* path) {
  std::vector<float>& values = settings().recorded;
  FILE* file = fopen(path, "rb");
  if (file == nullptr) {
    fprintf(stderr, "--cinch-input: cannot open %s (stock, gauss, student, or a file)\n", path);
    return false;
  }
  float block[4096];
  for (size_t n; (n = fread(block, sizeof *block, 4096, file)) > 0;)
    values.insert(values.end(), block, block + n);
  fclose(file);
  const bool isGood = !values.empty() && std::all_of(values.begin(), values.end(),
                                                     [](float v) { return std::isfinite(v); });
  if (!isGood) fprintf(stderr, "--cinch-input: %s has no values, or some not finite\n", path);
  return isGood;
}

inline bool takeInput(const char* text) {
  Settings& all = settings();
  all.input = strcmp(text, "stock") == 0     ? InputKind::stock
              : strcmp(text, "gauss") == 0   ? InputKind::gauss
              : strcmp(text, "student") == 0 ? InputKind::student
                                             : InputKind::file;
  return all.input != InputKind::file || readValues(text);
}

// Takes a flag of ours; false, with a line on standard error, where its value is of no use.
inline bool takeFlag(int flag, const char* text) {
  if (flag == kInput) return takeInput(text);
  if (flag == kTolerance) return parseTolerance(text, &settings().tolerance);
  settings().columns = atoi(text);
  return true;
}

inline std::string& reportPath() {
  static std::string path;
  return path;
}

// Before the first call of NCCL's: Cinch is told to write a report, and that one call over and over
// is no training step.
inline void prepare() {
  setenv("CINCH_SLOTS", "signature", 0);
  if (hasColumns() && isPreloaded()) reportPath() = claimReport();
}

// NCCL's numbers of the types that values of ours can have.
inline bool isReal(ncclDataType_t type) {
  return type == ncclFloat || type == ncclDouble || type == ncclHalf
#if HAVE_BF16
         || type == ncclBfloat16
#endif
      ;
}

inline bool adds(ncclRedOp_t op) {
  return op == ncclSum
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 10, 0)
         || op == ncclAvg
#endif
      ;
}

inline bool averages(ncclRedOp_t op) {
  return op != ncclSum && adds(op);
}

// Whether buffers of the kind are filled here.
inline bool fills(ncclDataType_t type, ncclRedOp_t op) {
  return settings().input != InputKind::stock && isReal(type) && adds(op);
}

// Whether results of the kind are checked here.
inline bool checks(ncclDataType_t type, ncclRedOp_t op) {
  return settings().checks() && isReal(type) && adds(op);
}

// Calls a function for the device type of an NCCL type that isReal().
template <class Function>
testResult_t withType(ncclDataType_t type, Function function) {
  if (type == ncclFloat) return function(float());
  if (type == ncclDouble) return function(double());
#if HAVE_BF16
  if (type == ncclBfloat16) return function(__nv_bfloat16());
#endif
  return function(half());
}

// The recorded values on the device that is current; one copy for each.
inline testResult_t inputHere(Input* input) {
  static thread_local std::vector<float*> copies;
  const Settings& all = settings();
  *input = {all.input, nullptr, all.recorded.size()};
  if (all.input != InputKind::file) return testSuccess;
  int device = 0;
  CUDACHECK(cudaGetDevice(&device));
  if (copies.size() <= static_cast<size_t>(device)) copies.resize(device + 1);
  if (copies[device] == nullptr) {
    CUDACHECK(cudaMalloc(&copies[device], all.recorded.size() * sizeof(float)));
    CUDACHECK(cudaMemcpy(copies[device], all.recorded.data(), all.recorded.size() * sizeof(float),
                         cudaMemcpyDefault));
  }
  input->recorded = copies[device];
  return testSuccess;
}

// What ranks [firstRank, firstRank + nRanks) send, added, of one of them: its own values.
inline testResult_t fill(void* data, size_t count, size_t offset, ncclDataType_t type,
                         ncclRedOp_t op, uint64_t seed, int firstRank, int nRanks) {
  Input input;
  TESTCHECK(inputHere(&input));
  const double share = averages(op) && nRanks > 1 ? 1.0 / nRanks : 1;
  return withType(type, [&](auto value) {
    using T = decltype(value);
    CUDACHECK(forEach(
        count, FillSum<T>{static_cast<T*>(data), offset, input, seed, firstRank, nRanks, share}));
    return testSuccess;
  });
}

// Remembers how large the values are that are sent.
inline testResult_t measure(const void* data, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  if (!checks(type, op)) return testSuccess;
  return withType(type, [&](auto value) {
    using T = decltype(value);
    const T* values = static_cast<const T*>(data);
    Sums found;
    CUDACHECK(reduceOnDevice(count, Magnitudes<T>{values}, &found));
    sums().noteSent(found, count);
    return testSuccess;
  });
}

inline testResult_t fillAndMeasure(void* data, size_t count, size_t offset, ncclDataType_t type,
                                   ncclRedOp_t op, uint64_t seed, int rank) {
  TESTCHECK(fill(data, count, offset, type, op, seed, rank, 1));
  return measure(data, count, type, op);
}

inline void beginCheck() {
  sums() = Sums();
}

// The expected values are sums of what the ranks send: not so where a collective only gathers.
inline void noteReduction() {
  sums().reduces = true;
}

// All ranks learn how large the values of any of them are.
inline void agree(struct threadArgs* args) {
  if (!settings().checks()) return;
  Allreduce(args, &sums().largestSent, /*max*/ 3);
  Allreduce(args, &sums().meanSquareSent, /*max*/ 3);
}

// Compares results with what they should be. `*decides`: this stands in place of nccl-tests' own
// check, and `*wrong` says how many values are beyond their bound.
inline testResult_t compare(const void* results, const void* expected, size_t count,
                            ncclDataType_t type, ncclRedOp_t op, int nRanks, int64_t* wrong,
                            bool* decides) {
  *decides = checks(type, op);
  if (!*decides && (!hasColumns() || !isReal(type))) return testSuccess;
  return withType(type, [&](auto value) {
    using T = decltype(value);
    const T* right = static_cast<const T*>(expected);
    Sums of;
    CUDACHECK(reduceOnDevice(count, Magnitudes<T>{right}, &of));
    const bool adds = sums().reduces;
    const Reach reach = {adds ? nRanks : 1, adds && averages(op), Rounding<T>::kStep};
    const double bound = valueBound(settings().tolerance, reach, sums(), of.largest);
    Sums found;
    CUDACHECK(reduceOnDevice(count, Differences<T>{static_cast<const T*>(results), right, bound},
                             &found));
    sums().addChecked(found, count, reach);
    if (*decides) *wrong = static_cast<int64_t>(found.wrong);
    return testSuccess;
  });
}

// After all buffers of a thread: the squared error of all ranks together. Where it is beyond its
// bound, every value counts as wrong.
inline void endCheck(struct threadArgs* args, ncclDataType_t type, ncclRedOp_t op, int64_t* wrong) {
  const bool decides = checks(type, op);
  if (!decides && (!hasColumns() || !isReal(type))) return;
  Sums& mine = sums();
  const double count = static_cast<double>(mine.count);
  double all = count;
  Allreduce(args, &mine.squaredError, /*sum*/ 4);
  Allreduce(args, &mine.squaredSignal, /*sum*/ 4);
  Allreduce(args, &all, /*sum*/ 4);
  if (is_main_thread) row().nmse = std::max(row().nmse, mine.nmse());
  if (!decides || mine.nmse() <= nmseBound(settings().tolerance, mine, all)) return;
  if (args->reportErrors && *wrong == 0) args->errors[0]++;
  *wrong = std::max(*wrong, static_cast<int64_t>(count));
}

// Has Cinch write its report, as it does whenever a communicator ends, and reads it.
inline testResult_t read(CallFigures* figures) {
  if (reportPath().empty() || row().name.empty()) return testSuccess;
  ncclUniqueId id;
  ncclComm_t comm;
  NCCLCHECK(ncclGetUniqueId(&id));
  NCCLCHECK(ncclCommInitRank(&comm, 1, id, 0));
  NCCLCHECK(ncclCommDestroy(comm));
  *figures = figuresOf(readAll(reportPath() + ".json"), row().name);
  return testSuccess;
}

// As Cinch's report calls it: "AllReduce fp32 Sum x 1024".
inline std::string callName(const char* call, ncclDataType_t type, ncclRedOp_t op, size_t count) {
  const char* typeName = type == ncclFloat    ? "fp32"
                         : type == ncclDouble ? "fp64"
                         : type == ncclHalf   ? "fp16"
#if HAVE_BF16
                         : type == ncclBfloat16 ? "bf16"
#endif
                                                : nullptr;
  if (typeName == nullptr || !adds(op)) return "";
  const bool reduces = strstr(call, "Reduce") != nullptr;
  const std::string opName = !reduces ? "" : averages(op) ? " Avg" : " Sum";
  return std::string(call) + " " + typeName + opName + " x " + std::to_string(count);
}

// Around the two halves of a line. The other threads wait meanwhile: what a communicator's making
// waits for must not wait for them.
inline testResult_t beginRow(struct threadArgs* args, ncclDataType_t type, ncclRedOp_t op) {
  if (!hasColumns()) return testSuccess;
  Barrier(args);
  if (is_main_thread) {
    const int nRanks = args->nProcs * args->nThreads * args->nGpus;
    const double all = static_cast<double>(std::max(args->sendBytes, args->expectedBytes));
    const char* call = args->collTest->name;
    const double rounds = strcmp(call, "AllReduce") == 0 ? 2 : 1;
    row() = Row();
    row().name = callName(call, type, op, args->nbytes / wordSize(type));
    row().plainBytes = rounds * all * (nRanks - 1) / nRanks;
    TESTCHECK(read(&row().before));
    row().after = row().before;
  }
  Barrier(args);
  return testSuccess;
}

inline testResult_t endRow(struct threadArgs* args) {
  if (!hasColumns()) return testSuccess;
  Barrier(args);
  if (is_main_thread) TESTCHECK(read(&row().after));
  Barrier(args);
  return testSuccess;
}

// Of a compressed call, what this rank sends; where none was, what it sends in a plain ring.
inline double wireBytes() {
  const double calls = static_cast<double>(row().after.compressed - row().before.compressed);
  if (calls == 0) return row().plainBytes;
  return static_cast<double>(row().after.wireBytes - row().before.wireBytes) / calls;
}

inline double ratio() {
  return wireBytes() > 0 ? row().plainBytes / wireBytes() : 1;
}

inline std::string path() {
  return reportPath().empty() ? "plain" : pathOf(row().before, row().after);
}

// The end of a line.
inline std::string columns() {
  if (!hasColumns()) return "";
  char nmse[16] = "N/A";
  char text[160];
  if (row().nmse >= 0) snprintf(nmse, sizeof nmse, "%.2e", row().nmse);
  snprintf(text, sizeof text, "  %12.0f  %6.2f  %8s  %s", wireBytes(), ratio(), nmse,
           path().c_str());
  return text;
}

// The end of a line of headings: what stood there, in its width, and ours.
inline const char* heading(int line, const char* before, int width) {
  static std::string texts[2];
  if (!hasColumns()) return before;
  char text[160];
  const char* const names[2][4] = {{"wire", "ratio", "nmse", "path"}, {"(B)", "", "", ""}};
  const auto& name = names[line];
  snprintf(text, sizeof text, "%*s  %12s  %6s  %8s  %s", width, before, name[0], name[1], name[2],
           name[3]);
  texts[line] = text;
  return texts[line].c_str();
}

}  // namespace nccl_tests
}  // namespace cinch
