#include "net_plugin/ib/verbs_api.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace cinch::net::ib {
namespace {

TEST(VerbsApi, SaysWhatToInstallWhereThereIsNoLibrary) {
  const Result<VerbsApi> api = loadVerbsFrom("libibverbs-of-nobody.so.1");
  ASSERT_FALSE(api.ok());
  EXPECT_NE(api.error().message.find("libibverbs-of-nobody.so.1"), std::string::npos);
  EXPECT_NE(api.error().message.find("rdma-core"), std::string::npos);
}

TEST(VerbsApi, NamesWhatALibraryLacks) {
  const Result<VerbsApi> api = loadVerbsFrom("libc.so.6");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().message,
            "libc.so.6 lacks ibv_get_device_list; InfiniBand and RoCE need rdma-core 32 or later");
}

TEST(VerbsApi, IsWholeWhereTheLibraryIs) {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW);
  if (library == nullptr) GTEST_SKIP() << "libibverbs is not installed";
  dlclose(library);
  const Result<const VerbsApi*> api = loadVerbs();
  ASSERT_TRUE(api.ok()) << api.error().message;
  const VerbsApi& verbs = *api.value();
  EXPECT_EQ(loadVerbs().value(), &verbs);
  // Everything down to the optional ones is a pointer, and none of them is null.
  const auto* first = reinterpret_cast<void* const*>(&verbs);
  const auto* end = reinterpret_cast<void* const*>(&verbs.regMrIova2);
  for (const auto* function = first; function != end; ++function)
    EXPECT_NE(*function, nullptr) << function - first;
  int nDevices = -1;
  ibv_device** devices = verbs.getDeviceList(&nDevices);
  // Without kernel support there is no list.
  if (devices != nullptr) {
    EXPECT_GE(nDevices, 0);
    verbs.freeDeviceList(devices);
  }
}

}  // namespace
}  // namespace cinch::net::ib
