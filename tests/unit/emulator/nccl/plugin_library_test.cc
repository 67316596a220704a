// The names that NCCL_NET_PLUGIN may hold, and the libraries that are opened for them.
#include "emulator/nccl/plugin_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

// Found in the program itself, as a plugin that is linked into it.
extern "C" [[gnu::visibility("default")]] const int cinchSymbolOfTheProgram = 42;

namespace cinch::emulator {
namespace {

using Names = std::vector<std::string>;

TEST(ListedPlugins, AreTheDefaultWhereNothingIsSet) {
  EXPECT_EQ(listedPlugins(nullptr), Names{"libnccl-net.so"});
}

TEST(ListedPlugins, AreNoneWhereNoneIsWanted) {
  EXPECT_EQ(listedPlugins("none"), Names{});
  EXPECT_EQ(listedPlugins("NONE"), Names{});
  EXPECT_EQ(listedPlugins(""), Names{});
  EXPECT_EQ(listedPlugins(",,"), Names{});
}

TEST(ListedPlugins, AreSeparatedByCommas) {
  EXPECT_EQ(listedPlugins("cinch"), Names{"cinch"});
  EXPECT_EQ(listedPlugins("a,/b/c.so,,libd.so,"), (Names{"a", "/b/c.so", "libd.so"}));
  EXPECT_EQ(listedPlugins("none,a"), (Names{"none", "a"})) << "only alone it means none";
}

TEST(ListedPlugins, AreFourteenAtMost) {
  std::string list;
  Names wanted;
  for (int i = 0; i < 20; ++i) {
    list += "plugin" + std::to_string(i) + ",";
    if (i < 14) wanted.push_back("plugin" + std::to_string(i));
  }
  EXPECT_EQ(listedPlugins(list.c_str()), wanted);
}

TEST(ListedPlugins, HaveNamesOfBoundedLength) {
  const std::string longest(254, 'x');
  EXPECT_EQ(listedPlugins((longest + ",b").c_str()), (Names{longest, "b"}));
  EXPECT_EQ(listedPlugins((longest + "x,b").c_str()), Names{"b"});
}

TEST(CandidateFiles, AreTheNameAndTheNameInNcclsForm) {
  EXPECT_EQ(candidateFiles("cinch"), (Names{"cinch", "libnccl-net-cinch.so"}));
  EXPECT_EQ(candidateFiles("libfoo"), (Names{"libfoo", "libnccl-net-libfoo.so"}));
  EXPECT_EQ(candidateFiles("foo.so"), (Names{"foo.so", "libnccl-net-foo.so.so"}));
}

TEST(CandidateFiles, AreOneForPathsAndLibraries) {
  EXPECT_EQ(candidateFiles("libfoo.so"), Names{"libfoo.so"});
  EXPECT_EQ(candidateFiles("./foo"), Names{"./foo"});
  EXPECT_EQ(candidateFiles("/a/libnccl-net.so.1"), Names{"/a/libnccl-net.so.1"});
}

TEST(PluginLibrary, IsFoundByNameOrPath) {
  const auto byName = PluginLibrary::open("trivial_v9");
  ASSERT_NE(byName, nullptr);
  EXPECT_NE(byName->symbol("ncclNetPlugin_v9"), nullptr);
  EXPECT_EQ(byName->symbol("ncclNetPlugin_v10"), nullptr) << "it exports its own version alone";
  EXPECT_TRUE(byName->path().ends_with("/libnccl-net-trivial_v9.so")) << byName->path();
  EXPECT_NE(PluginLibrary::open("libnccl-net-trivial_v9.so"), nullptr);
  EXPECT_NE(PluginLibrary::open(byName->path()), nullptr);
}

TEST(PluginLibrary, IsClosedAtTheEnd) {
  std::string path;
  {
    const auto library = PluginLibrary::open("trivial_v8");
    ASSERT_NE(library, nullptr);
    path = library->path();
    void* again = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(again, nullptr);
    dlclose(again);
  }
  EXPECT_EQ(dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(PluginLibrary, IsMissing) {
  EXPECT_EQ(PluginLibrary::open("trivial_v7"), nullptr);
  EXPECT_EQ(PluginLibrary::open("/no/such/libnccl-net.so"), nullptr);
}

TEST(PluginLibrary, MayBeTheProgramItself) {
  for (const char* name : {"STATIC_PLUGIN", "static_plugin", "STATIC"}) {
    const auto library = PluginLibrary::open(name);
    ASSERT_NE(library, nullptr) << name;
    EXPECT_EQ(library->symbol("cinchSymbolOfTheProgram"), &cinchSymbolOfTheProgram) << name;
  }
}

}  // namespace
}  // namespace cinch::emulator
