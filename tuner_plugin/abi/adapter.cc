#include "tuner_plugin/abi/adapter.h"

#include <atomic>
#include <exception>

#include "common/param.h"
#include "tuner_plugin/cost_writer.h"
#include "tuner_plugin/log.h"
#include "tuner_plugin/rule_files.h"
#include "tuner_plugin/tuner.h"

namespace cinch::tuner::abi {
namespace {

std::atomic<ncclDebugLogger_t> ncclLogger{nullptr};

// The INIT flag is what makes NCCL print lines at NCCL_DEBUG=INFO without NCCL_DEBUG_SUBSYS.
void writeToNccl(LogLevel level, const char* function, int line, const char* text) {
  const ncclDebugLogger_t logger = ncclLogger.load(std::memory_order_acquire);
  const bool isWarning = level == LogLevel::warn;
  logger(isWarning ? NCCL_LOG_WARN : NCCL_LOG_INFO,
         isWarning ? ~0ul : NCCL_LOG_INIT | NCCL_LOG_TUNING, function, line, "%s", text);
}

void useLogger(ncclDebugLogger_t logger) {
  if (logger == nullptr) return;
  ncclLogger.store(logger, std::memory_order_release);
  setLogSink(writeToNccl);
}

// Runs the body of a function of the table.
template <class Body>
ncclResult_t guarded(const char* function, Body body) {
  static std::atomic<bool> isSaid{false};  // of this function: a call may come again and again
  try {
    body();
  } catch (const std::exception& exception) {
    if (!isSaid.exchange(true))
      CINCH_TUNER_WARN("%s: %s; the choice is NCCL's", function, exception.what());
  } catch (...) {
    if (!isSaid.exchange(true))
      CINCH_TUNER_WARN("%s: unknown exception; the choice is NCCL's", function);
  }
  return ncclSuccess;
}

// What was said about the settings is said once.
const Params& params() {
  static const bool isSaid = [] {
    for (const std::string& warning : processParams().warnings)
      CINCH_TUNER_INFO("%s", warning.c_str());
    for (const std::string& notice : processParams().notices)
      CINCH_TUNER_INFO("%s", notice.c_str());
    return true;
  }();
  static_cast<void>(isSaid);
  return processParams().params;
}

// Goes back when the communicator ends, or when the tuner cannot be made.
struct Context {
  explicit Context(uint64_t nRanks, uint64_t nNodes)
      : costs(processCostWriter().acquire(nRanks, nNodes)),
        tuner(readRuleFiles(params()), nRanks, nNodes, costs.store) {}

  struct Costs {
    explicit Costs(CostStore* acquired) : store(acquired) {}
    ~Costs() { processCostWriter().release(store); }
    Costs(const Costs&) = delete;
    Costs& operator=(const Costs&) = delete;
    CostStore* const store;
  };
  Costs costs;
  Tuner tuner;
};

ncclResult_t initTuner(void** context, size_t nRanks, size_t nNodes, ncclDebugLogger_t logger) {
  useLogger(logger);
  return guarded("init", [&] {
    if (context == nullptr) return;
    *context = nullptr;
    if (params().mode == Mode::off) return;
    auto* const made = new Context(nRanks, nNodes);
    *context = made;
    CINCH_TUNER_INFO("%zu ranks on %zu nodes: %zu rules", nRanks, nNodes, made->tuner.countRules());
  });
}

// NCCL's own variables come before any rule; without a cost table they do so here.
bool isChosenByUser() {
  const char* const algorithm = environmentVariable("NCCL_ALGO");
  const char* const protocol = environmentVariable("NCCL_PROTO");
  return algorithm != nullptr || protocol != nullptr;
}

}  // namespace

ncclResult_t initV2(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void** context) {
  return initTuner(context, nRanks, nNodes, logger);
}

ncclResult_t initV5(void** context, uint64_t, size_t nRanks, size_t nNodes,
                    ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t*, ncclTunerConstants_v5_t*) {
  return initTuner(context, nRanks, nNodes, logger);
}

ncclResult_t destroyTuner(void* context) {
  return guarded("destroy", [&] { delete static_cast<Context*>(context); });
}

ncclResult_t getCollInfoV2(void* context, ncclFunc_t collective, size_t nBytes, int, int,
                           int nPipeOps, int* algorithm, int* protocol, int*) {
  return guarded("getCollInfo", [&] {
    if (context == nullptr || algorithm == nullptr || protocol == nullptr) return;
    static const bool isLeftAlone = isChosenByUser();
    if (isLeftAlone) return;
    const auto choice = static_cast<Context*>(context)->tuner.chooseBlindly(
        {collective, nBytes, nPipeOps}, params().tunerLl128);
    if (!choice) return;
    *algorithm = static_cast<int>(choice->algorithm);
    *protocol = static_cast<int>(choice->protocol);
  });
}

ncclResult_t getCollInfoV3(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                           float** costs, int nAlgorithms, int nProtocols, int* nChannels) {
  return guarded("getCollInfo", [&] {
    if (context == nullptr || costs == nullptr || nAlgorithms <= 0 || nProtocols <= 0) return;
    static_cast<Context*>(context)->tuner.choose(
        {collective, nBytes, nPipeOps}, {reinterpret_cast<float*>(costs), nAlgorithms, nProtocols},
        nChannels);
  });
}

ncclResult_t getCollInfoV4(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                           float** costs, int nAlgorithms, int nProtocols, int, int* nChannels) {
  return getCollInfoV3(context, collective, nBytes, nPipeOps, costs, nAlgorithms, nProtocols,
                       nChannels);
}

ncclResult_t keepChunkSizeV6(void*, ncclFunc_t, size_t, int, int, int, size_t*) {
  return ncclSuccess;
}

}  // namespace cinch::tuner::abi
