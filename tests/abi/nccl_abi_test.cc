// The emulator's libnccl.so.2 as a file: what it exports and how, and its types against a real
// nccl.h where one is installed.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "common/nccl_types.h"
#include "kernels/device_table.h"
#include "tests/abi/nccl_abi_layout.h"

namespace cinch::test {
namespace {

constexpr const char* kFunctions[] = {
    "ncclGetVersion",
    "ncclGetErrorString",
    "ncclGetLastError",
    "ncclMemAlloc",
    "ncclMemFree",
    "ncclGetUniqueId",
    "ncclCommInitRank",
    "ncclCommInitRankConfig",
    "ncclCommFinalize",
    "ncclCommDestroy",
    "ncclCommAbort",
    "ncclCommGetAsyncError",
    "ncclCommCount",
    "ncclCommCuDevice",
    "ncclCommUserRank",
    "ncclAllReduce",
    "ncclReduceScatter",
    "ncclAllGather",
    "ncclReduce",
    "ncclBroadcast",
    "ncclBcast",
    "ncclSend",
    "ncclRecv",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclCommInitRankScalable",
    "ncclCommInitAll",
    "ncclCommSplit",
    "ncclCommShrink",
    "ncclCommRevoke",
    "ncclAlltoAll",
    "ncclGather",
    "ncclScatter",
    "ncclAllReduceConfig",
    "ncclReduceScatterConfig",
    "ncclAllGatherConfig",
    "ncclReduceConfig",
    "ncclBroadcastConfig",
    "ncclAlltoAllConfig",
    "ncclGatherConfig",
    "ncclScatterConfig",
    "ncclRedOpCreatePreMulSum",
    "ncclRedOpDestroy",
    "ncclGroupSimulateEnd",
    "ncclCommRegister",
    "ncclCommDeregister",
    "ncclCommWindowRegister",
    "ncclCommWindowDeregister",
    "ncclCommGetUniqueId",
    "ncclCommGrow",
    "ncclCommMemStats",
    "ncclCommResume",
    "ncclCommSuspend",
    "ncclDevCommCreate",
    "ncclDevCommDestroy",
    "ncclGetLsaMultimemDevicePointer",
    "ncclGetPeerDevicePointer",
    "ncclPutSignal",
    "ncclSignal",
    "ncclWaitSignal",
    "ncclWinGetUserPtr",
};

std::string outputOf(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), got);
  }
  return text;
}

struct Symbol {
  std::string address;
  char kind = '?';  // of nm: T strong, W weak function
};

std::map<std::string, Symbol> exports() {
  std::istringstream lines(outputOf("nm -D --defined-only " CINCH_EMULATED_NCCL));
  std::map<std::string, Symbol> symbols;
  Symbol symbol;
  for (std::string name; lines >> symbol.address >> symbol.kind >> name;) symbols[name] = symbol;
  return symbols;
}

TEST(NcclExports, AreExactlyTheFunctionsTheirTwinsAndTheMarker) {
  std::set<std::string> wanted = {kEmulatorMarkerSymbol};
  for (const char* name : kFunctions) {
    wanted.insert(name);
    wanted.insert(std::string("p") + name);
  }
  std::set<std::string> got;
  for (const auto& [name, symbol] : exports()) got.insert(name);
  EXPECT_EQ(got, wanted);
}

TEST(NcclExports, AreWeakNamesOfStrongFunctions) {
  const auto symbols = exports();
  for (const char* name : kFunctions) {
    ASSERT_TRUE(symbols.contains(name)) << name;
    const Symbol& weak = symbols.at(name);
    const Symbol& strong = symbols.at(std::string("p") + name);
    EXPECT_EQ(weak.kind, 'W') << name;
    EXPECT_EQ(strong.kind, 'T') << name;
    EXPECT_EQ(weak.address, strong.address) << name << " is not an alias";
  }
}

TEST(NcclLibrary, HasNcclsNameAndFindsItsNeighbour) {
  const std::string dynamic = outputOf("readelf -dW " CINCH_EMULATED_NCCL);
  EXPECT_NE(dynamic.find("soname: [libnccl.so.2]"), std::string::npos) << dynamic;
  EXPECT_NE(dynamic.find("[$ORIGIN]"), std::string::npos) << dynamic;
  EXPECT_EQ(dynamic.find("SYMBOLIC"), std::string::npos) << "its own calls must stay preemptible";
}

// As in NCCL, ncclBcast reaches ncclBroadcast by its public name, and ncclCommInitAll
// ncclGetUniqueId; there are no other such calls.
TEST(NcclLibrary, MakesTwoCallsByPublicNames) {
  const std::string relocations = outputOf("readelf -rW " CINCH_EMULATED_NCCL);
  EXPECT_NE(relocations.find("ncclBroadcast"), std::string::npos);
  EXPECT_NE(relocations.find("ncclGetUniqueId"), std::string::npos);
  EXPECT_EQ(relocations.find("ncclAllReduce"), std::string::npos);
  EXPECT_EQ(relocations.find("ncclGroupEnd"), std::string::npos);
}

TEST(NcclLibrary, CanBeLoadedByPathAndAnswers) {
  void* library = dlopen(CINCH_EMULATED_NCCL, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using GetVersion = ncclResult_t(int*);
  auto* getVersion = reinterpret_cast<GetVersion*>(dlsym(library, "ncclGetVersion"));
  ASSERT_NE(getVersion, nullptr);
  int version = 0;
  EXPECT_EQ(getVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  EXPECT_NE(dlsym(library, kEmulatorMarkerSymbol), nullptr);
}

TEST(NcclTypes, EqualThoseOfTheInstalledHeader) {
#ifdef CINCH_REAL_NCCL_HEADER
  const NcclLayout ours = emulatorLayout();
  const NcclLayout real = realLayout();
  ASSERT_FALSE(ours.empty());
  for (const auto& [fact, value] : real) {
    ASSERT_TRUE(ours.contains(fact)) << fact;
    EXPECT_EQ(ours.at(fact), value) << fact;
  }
  EXPECT_EQ(ours.size(), real.size());
#else
  GTEST_SKIP() << "no nccl.h of NCCL 2.28 is installed";
#endif
}

}  // namespace
}  // namespace cinch::test
