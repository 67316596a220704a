#include "common/network/secret.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string_view>

namespace cinch {
namespace {

std::vector<uint8_t> bytesOf(std::string_view text) {
  return {text.begin(), text.end()};
}

std::string hex(const Proof& proof) {
  std::string text;
  for (uint8_t byte : proof) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

TEST(Proof, GivesTheValuesOfTheStandard) {
  EXPECT_EQ(hex(prove(Key(20, 0x0b), {bytesOf("Hi There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(prove(bytesOf("Jefe"), {bytesOf("what do ya want "), bytesOf("for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(prove(Key(131, 0xaa),
                      {bytesOf("Test Using Larger Than Block-Size Key - Hash Key First")})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Proof, IsThatOfOpenSslForEveryLengthOfKey) {
  std::mt19937 random(1);
  for (size_t n = 0; n < 200; ++n) {
    Key key(n);
    std::vector<uint8_t> text(random() % 300);
    for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : text) byte = static_cast<uint8_t>(random());
    Proof expected;
    ASSERT_NE(HMAC(EVP_sha256(), n == 0 ? "" : static_cast<void*>(key.data()), static_cast<int>(n),
                   text.data(), text.size(), expected.data(), nullptr),
              nullptr);
    const size_t cut = text.empty() ? 0 : random() % text.size();
    ASSERT_EQ(prove(key, {std::span(text).first(cut), std::span(text).subspan(cut)}), expected);
  }
}

TEST(SameSecret, SeesEveryBitAndTheLength) {
  const std::vector<uint8_t> secret(32, 0x5a);
  EXPECT_TRUE(sameSecret(secret, std::vector<uint8_t>(32, 0x5a)));
  EXPECT_FALSE(sameSecret(secret, std::vector<uint8_t>(31, 0x5a)));
  for (size_t bit = 0; bit < 256; ++bit) {
    std::vector<uint8_t> other = secret;
    other[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(sameSecret(secret, other));
  }
}

TEST(RandomBytes, DoNotComeTwice) {
  std::set<Random> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(randomBytes16());
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(seen.contains(Random{}));
}

class KeyFile : public ::testing::Test {
 protected:
  KeyFile() {
    char made[] = "/tmp/cinch-key-XXXXXX";
    folder_ = mkdtemp(made);
  }
  ~KeyFile() override { std::filesystem::remove_all(folder_); }

  std::string file(std::string_view content, mode_t mode = 0600) {
    const std::string path = folder_ / "key";
    std::ofstream(path, std::ios::binary) << content;
    chmod(path.c_str(), mode);
    return path;
  }
  static void expectRefused(const std::string& path, const std::string& why) {
    const auto key = readKeyFile("CINCH_KEY_FILE", path);
    ASSERT_FALSE(key.ok());
    EXPECT_EQ(key.error().status, Status::invalidUsage);
    EXPECT_NE(key.error().message.find(path), std::string::npos) << key.error().message;
    EXPECT_NE(key.error().message.find(why), std::string::npos) << key.error().message;
  }

  std::filesystem::path folder_;
};

TEST_F(KeyFile, IsTakenAsItIsWithoutOneNewline) {
  const std::string letters = "0123456789abcdef";
  for (const char* end : {"", "\n"})
    EXPECT_EQ(readKeyFile("CINCH_KEY_FILE", file(letters + end)).value(), bytesOf(letters));
  EXPECT_EQ(readKeyFile("CINCH_KEY_FILE", file(letters + "\n\n")).value(), bytesOf(letters + "\n"));
  const std::string binary("\0\1\2\3\4\5\6\7\n\r\377\376\0\0\0\0", 16);
  EXPECT_EQ(readKeyFile("CINCH_KEY_FILE", file(binary)).value(), bytesOf(binary));
  EXPECT_TRUE(readKeyFile("CINCH_KEY_FILE", file(letters, 0400)).ok());
}

TEST_F(KeyFile, HasALengthWithinLimits) {
  expectRefused(file(""), "at least 16 bytes");
  expectRefused(file(std::string(15, 'k')), "at least 16 bytes");
  expectRefused(file(std::string(15, 'k') + "\n"), "at least 16 bytes");
  EXPECT_EQ(readKeyFile("CINCH_KEY_FILE", file(std::string(4096, 'k') + "\n")).value().size(),
            kMaxKeyBytes);
  expectRefused(file(std::string(4097, 'k')), "at most 4096 bytes");
  expectRefused(file(std::string(4097, 'k') + "\n"), "at most 4096 bytes");
  expectRefused(file(std::string(4096, 'k') + "\nk"), "at most 4096 bytes");
  expectRefused(file(std::string(1 << 20, 'k')), "at most 4096 bytes");
}

TEST_F(KeyFile, IsOfNoUseWhereOthersHaveAccess) {
  for (mode_t mode : {0604, 0620, 0660, 0602, 0610, 0650, 0601, 0644, 0666, 0777})
    expectRefused(file(std::string(32, 'k'), mode), "chmod 600");
}

TEST_F(KeyFile, MayBeReadByOneOfOurGroups) {
  EXPECT_TRUE(readKeyFile("CINCH_KEY_FILE", file(std::string(32, 'k'), 0640)).ok());
  EXPECT_TRUE(readKeyFile("CINCH_KEY_FILE", file(std::string(32, 'k'), 0440)).ok());
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string path = file(std::string(32, 'k'), 0640);
  ASSERT_EQ(chown(path.c_str(), 0, 54321), 0);
  expectRefused(path, "one of your groups");
}

TEST_F(KeyFile, IsOursOrRoots) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string path = file(std::string(32, 'k'));
  ASSERT_EQ(chown(path.c_str(), 54321, 0), 0);
  expectRefused(path, "belongs to another user");
}

TEST_F(KeyFile, IsARegularFile) {
  expectRefused(folder_ / "none", "No such file");
  expectRefused(folder_, "not a regular file");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expectRefused(pipe, "not a regular file");
  const std::string link = folder_ / "link";
  ASSERT_EQ(symlink(file(std::string(32, 'k')).c_str(), link.c_str()), 0);
  EXPECT_TRUE(readKeyFile("CINCH_KEY_FILE", link).ok());
}

}  // namespace
}  // namespace cinch
