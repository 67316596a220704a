// The emulator's CUDA runtime against the real one: headers, exports, and programs compiled with
// either header set.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

#include "tests/abi/cudart_abi.h"

namespace {

constexpr const char* kVersionNode = "libcudart.so.13";
constexpr const char* kMarker = "cinchEmulatorMarker";
// The marker's, and that of what the emulated driver asks.
constexpr const char* kOurPrefix = "cinchEmulator";

// The dynamic symbols that `library` defines, as nm writes them: name@@node.
std::set<std::string> exportsOf(const std::string& library) {
  const std::string command = "nm -D --defined-only '" + library + "'";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::set<std::string> symbols;
  char line[1024];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe.get()) != nullptr) {
    std::istringstream words(line);
    std::string first, type, name;
    words >> first >> type >> name;
    // The line of the version node itself has no address in some releases of nm.
    if (!name.empty() && name.rfind(kVersionNode, 0) != 0) symbols.insert(name);
  }
  return symbols;
}

bool startsWith(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

TEST(CudartAbi, exportsOnlyCudaSymbolsInTheRealVersionNode) {
  const std::set<std::string> symbols = exportsOf(CINCH_EMULATED_CUDART);
  ASSERT_GT(symbols.size(), 60u);
  for (const std::string& symbol : symbols) {
    EXPECT_TRUE(startsWith(symbol, "cuda") || startsWith(symbol, "__cuda") ||
                startsWith(symbol, kOurPrefix))
        << symbol;
    EXPECT_EQ(symbol.substr(symbol.find('@')), std::string("@@") + kVersionNode);
  }
}

TEST(CudartAbi, everyDeclaredFunctionIsExported) {
  void* const library = dlopen(CINCH_EMULATED_CUDART, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  void* const driver = dlopen(CINCH_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  size_t nFunctions = 0;
  const CudartAbi& abi = emulatorHeaders();
  for (const CudartAbi::Row* row = abi.rows; row != abi.rows + abi.nRows; ++row) {
    if (*row->type == '\0') continue;  // not a function
    ++nFunctions;
    void* const found = startsWith(row->name, "cuda") ? dlvsym(library, row->name, kVersionNode)
                                                      : dlsym(driver, row->name);
    EXPECT_NE(found, nullptr) << row->name;
  }
  EXPECT_GT(nFunctions, 50u);
  EXPECT_NE(dlvsym(library, kMarker, kVersionNode), nullptr);
  dlclose(driver);
  dlclose(library);
}

TEST(CudartAbi, hasTheRealSoname) {
  EXPECT_NE(dlopen(kVersionNode, RTLD_NOW | RTLD_NOLOAD), nullptr)
      << "the loaded library is not known as " << kVersionNode;
}

TEST(CudartAbi, programWithTheEmulatorsHeadersRuns) {
  EXPECT_EQ(emulatorHeaders().run(), "");
}

#ifdef CINCH_TOOLKIT_HEADERS

TEST(CudartAbi, headersSayTheSame) {
  const CudartAbi& ours = emulatorHeaders();
  const CudartAbi& real = toolkitHeaders();
  ASSERT_EQ(real.version / 1000, 13);
  ASSERT_EQ(ours.nRows, real.nRows);
  ASSERT_GT(ours.nRows, 250u);
  for (size_t i = 0; i < ours.nRows; ++i) {
    EXPECT_STREQ(ours.rows[i].name, real.rows[i].name);
    EXPECT_EQ(ours.rows[i].number, real.rows[i].number) << ours.rows[i].name;
    EXPECT_STREQ(ours.rows[i].type, real.rows[i].type) << ours.rows[i].name;
  }
}

TEST(CudartAbi, programWithTheToolkitsHeadersRuns) {
  EXPECT_EQ(toolkitHeaders().run(), "");
}

#else

TEST(CudartAbi, headersSayTheSame) {
  GTEST_SKIP() << "no headers of CUDA 13 on this machine (" CINCH_TOOLKIT_MISSING ")";
}

#endif

#ifdef CINCH_REAL_CUDART

TEST(CudartAbi, exportsNothingThatTheRealLibraryLacks) {
  const std::set<std::string> real = exportsOf(CINCH_REAL_CUDART);
  ASSERT_GT(real.size(), 100u);
  for (const std::string& symbol : exportsOf(CINCH_EMULATED_CUDART)) {
    if (startsWith(symbol, kOurPrefix)) continue;
    EXPECT_TRUE(real.contains(symbol)) << symbol;
  }
}

#else

TEST(CudartAbi, exportsNothingThatTheRealLibraryLacks) {
  GTEST_SKIP() << "no libcudart.so.13 of CUDA on this machine";
}

#endif

}  // namespace
