// The exported functions, made from functions.def: strong pncclX, and ncclX as a weak alias of it.
#include <cstdlib>

#include "common/nccl_types.h"
#include "tests/fake/nccl/fake_comm.h"
#include "tests/fake/nccl/later_types.h"
#include "tests/fake/nccl/recorder.h"
#include "tests/fake/nccl/records.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))
#define FAKE_ALIAS(Name) __attribute__((visibility("default"), weak, alias("pnccl" #Name)))
#define FAKE_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

using namespace cinch::fake;

// Like the emulator, the fake runs where there is no GPU: the codec's host library fits it.
FAKE_EXPORT const char cinchEmulatorMarker[] = "fake NCCL";

#define FAKE_NCCL(Name, parameters, arguments, effect)                    \
  FAKE_EXPORT ncclResult_t pnccl##Name parameters {                       \
    const ncclResult_t result = note(records.Name FAKE_UNPACK arguments); \
    if (result == ncclSuccess) {                                          \
      effect;                                                             \
    }                                                                     \
    return result;                                                        \
  }                                                                       \
  extern "C" FAKE_ALIAS(Name) ncclResult_t nccl##Name parameters;
#include "tests/fake/nccl/functions.def"
#undef FAKE_NCCL

FAKE_EXPORT const char* pncclGetErrorString(ncclResult_t result) {
  note(records.GetErrorString, result);
  return result == ncclSuccess ? "no error" : "fake error";
}
extern "C" FAKE_ALIAS(GetErrorString) const char* ncclGetErrorString(ncclResult_t result);

FAKE_EXPORT const char* pncclGetLastError(ncclComm_t comm) {
  note(records.GetLastError, comm);
  return "";
}
extern "C" FAKE_ALIAS(GetLastError) const char* ncclGetLastError(ncclComm_t comm);

FAKE_EXPORT void pncclResetDebugInit() {
  note(records.ResetDebugInit);
}
extern "C" FAKE_ALIAS(ResetDebugInit) void ncclResetDebugInit();

FAKE_EXPORT void pncclParamDumpAll() {
  note(records.ParamDumpAll);
}
extern "C" FAKE_ALIAS(ParamDumpAll) void ncclParamDumpAll();
