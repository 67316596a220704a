// A profiler as NVTX knows them: a library that the process loads and that takes over NVTX's
// functions. It writes down what it is told.
#include <nvtx3/nvToolsExt.h>

#include <string>

#define EXPORTED extern "C" [[gnu::visibility("default")]]

namespace {

std::string& log() {
  static std::string text;
  return text;
}

nvtxDomainHandle_t createDomain(const char* name) {
  log() += std::string("domain ") + name + "; ";
  return reinterpret_cast<nvtxDomainHandle_t>(&log());
}

int pushRange(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  const bool isOurs = domain == reinterpret_cast<nvtxDomainHandle_t>(&log());
  log() += std::string(isOurs ? "push " : "elsewhere ") + range->message.ascii + "; ";
  return 0;
}

int popRange(nvtxDomainHandle_t) {
  log() += "pop; ";
  return 0;
}

}  // namespace

EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t exportTable) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(exportTable(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned nFunctions = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &nFunctions) ||
      nFunctions <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(createDomain);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(pushRange);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(popRange);
  return 1;
}

// What was told since the last call.
EXPORTED const char* takeNvtxLog() {
  static std::string taken;
  taken.swap(log());
  log().clear();
  return taken.c_str();
}
