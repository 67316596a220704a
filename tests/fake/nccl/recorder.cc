#include <algorithm>
#include <cstring>

#include "tests/fake/nccl/fake_nccl.h"
#include "tests/fake/nccl/records.h"

namespace cinch::fake {

constinit Records records;

namespace {

Record* find(const char* name) {
#define FAKE_NCCL(Name, ...) &records.Name,
  Record* const all[] = {
#include "tests/fake/nccl/functions.def"
      &records.GetErrorString, &records.GetLastError, &records.ResetDebugInit,
      &records.ParamDumpAll};
#undef FAKE_NCCL
  for (Record* record : all) {
    if (strcmp(record->name, name) == 0) return record;
  }
  return nullptr;
}

}  // namespace
}  // namespace cinch::fake

using cinch::fake::Record;

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int64_t fakeNcclCalls(const char* name) {
  const Record* record = cinch::fake::find(name);
  return record == nullptr ? -1 : record->calls.load();
}

FAKE_EXPORT int fakeNcclLastCall(const char* name, uint64_t* args, int maxArgs) {
  const Record* record = cinch::fake::find(name);
  if (record == nullptr || record->calls == 0) return -1;
  const int nArgs = record->nArgs;
  for (int i = 0; i < std::min(nArgs, maxArgs); ++i) args[i] = record->args[i];
  return nArgs;
}

FAKE_EXPORT uint64_t fakeNcclIdHash(const ncclUniqueId* id) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : id->internal) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

FAKE_EXPORT bool fakeNcclSetResult(const char* name, ncclResult_t result) {
  Record* record = cinch::fake::find(name);
  if (record == nullptr) return false;
  record->result = result;
  return true;
}
