#include "interpose/real/loader_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>

namespace cinch {
namespace {

using Paths = std::vector<std::string>;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A cache of (name, path) entries, byte by byte as ldconfig writes it.
std::string cacheOf(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string texts, bytes = "glibc-ld.so.cache1.1";
  const auto textsAt = static_cast<uint32_t>(48 + 24 * entries.size());
  const auto add = [&](const std::string& text) {
    const auto at = static_cast<uint32_t>(textsAt + texts.size());
    texts += text + '\0';
    return at;
  };
  std::string table;
  for (const auto& [name, path] : entries) {
    append<int32_t>(table, 0x303);
    append<uint32_t>(table, add(name));
    append<uint32_t>(table, add(path));
    append<uint32_t>(table, 0);
    append<uint64_t>(table, 0);
  }
  append(bytes, static_cast<uint32_t>(entries.size()));
  append(bytes, static_cast<uint32_t>(texts.size()));
  bytes.append(20, '\0');
  return bytes + table + texts;
}

const std::string kCache = cacheOf({{"libm.so.6", "/lib/libm.so.6"},
                                    {"libnccl.so.2", "/opt/a/libnccl.so.2"},
                                    {"libnccl.so", "/opt/a/libnccl.so"},
                                    {"libnccl.so.2", "/opt/b/libnccl.so.2"}});

TEST(LoaderCache, FindsEveryEntryOfTheName) {
  EXPECT_EQ(findInLoaderCache(kCache, "libnccl.so.2"),
            (Paths{"/opt/a/libnccl.so.2", "/opt/b/libnccl.so.2"}));
  EXPECT_EQ(findInLoaderCache(kCache, "libnccl.so.1"), Paths{});
  EXPECT_EQ(findInLoaderCache(kCache, ""), Paths{});
}

TEST(LoaderCache, FindsTheNewFormatBehindTheOld) {
  EXPECT_EQ(findInLoaderCache("ld.so-1.7.0" + std::string(53, '\0') + kCache, "libm.so.6"),
            Paths{"/lib/libm.so.6"});
}

TEST(LoaderCache, ReadsThisMachines) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  if (!file) GTEST_SKIP() << "no /etc/ld.so.cache here";
  const std::string cache((std::istreambuf_iterator<char>(file)), {});
  const Paths paths = findInLoaderCache(cache, "libc.so.6");
  ASSERT_FALSE(paths.empty());
  EXPECT_TRUE(paths[0].ends_with("/libc.so.6")) << paths[0];
}

TEST(LoaderCache, ShortenedOrOverstatedIsNothing) {
  for (size_t length = 0; length + 1 < kCache.size(); ++length) {
    // On the heap and of that length exactly, so that a sanitizer sees what is read behind it.
    const std::string cut = kCache.substr(0, length);
    EXPECT_LE(findInLoaderCache(cut, "libnccl.so.2").size(), 1u) << length;
  }
  std::string many = kCache;
  memset(many.data() + 20, 0xff, 4);
  EXPECT_EQ(findInLoaderCache(many, "libm.so.6"), Paths{});
}

TEST(LoaderCache, DamageNeverLeadsOutside) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = kCache;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    for (const std::string& path : findInLoaderCache(damaged, "libnccl.so.2"))
      ASSERT_LT(path.size(), damaged.size());
  }
}

}  // namespace
}  // namespace cinch
