#include "common/network/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace cinch {
namespace {

static_assert(sizeof(Proof) == SHA256_DIGEST_LENGTH);

using Block = std::array<uint8_t, SHA256_CBLOCK>;

// OpenSSL's hash of everything at once would bring in the providers.
class Sha256 {
 public:
  Sha256() { SHA256_Init(&state_); }
  void add(std::span<const uint8_t> bytes) { SHA256_Update(&state_, bytes.data(), bytes.size()); }
  Proof take() {
    Proof digest;
    SHA256_Final(digest.data(), &state_);
    return digest;
  }

 private:
  SHA256_CTX state_;
};

// The key as HMAC wants it: a long one is hashed.
Block blockOf(const Key& key) {
  Block block{};
  if (key.size() <= block.size()) {
    std::copy(key.begin(), key.end(), block.begin());
    return block;
  }
  Sha256 hash;
  hash.add(key);
  const Proof digest = hash.take();
  std::copy(digest.begin(), digest.end(), block.begin());
  return block;
}

// A hash that has begun with the key under a mask.
Sha256 maskedHash(Block key, uint8_t mask) {
  for (uint8_t& byte : key) byte ^= mask;
  Sha256 hash;
  hash.add(key);
  return hash;
}

// An open file.
class File {
 public:
  // Does not wait for the writer of a pipe.
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool isOpen() const { return fd_ >= 0; }
  struct stat facts() const {
    struct stat facts = {};
    fstat(fd_, &facts);
    return facts;
  }
  // The first `n` bytes, or as many as can be read.
  std::vector<uint8_t> read(size_t n) const {
    std::vector<uint8_t> bytes(n);
    size_t done = 0;
    while (done < n) {
      const ssize_t got = pread(fd_, &bytes[done], n - done, static_cast<off_t>(done));
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  int fd_;
};

bool isOneOfOurGroups(gid_t group) {
  if (group == getegid()) return true;
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  const int n = getgroups(static_cast<int>(groups.size()), groups.data());
  return n > 0 && std::find(groups.begin(), groups.begin() + n, group) != groups.begin() + n;
}

// Why a file with these rights is no place for a key; null: it is one.
const char* whyNoSecret(const struct stat& facts) {
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    return "it belongs to another user, who could replace the key: copy it";
  const mode_t others = facts.st_mode & (S_IRWXG | S_IRWXO);
  if (others == 0 || (others == S_IRGRP && isOneOfOurGroups(facts.st_gid))) return nullptr;
  return "others than its owner, and readers of one of your groups, have access to it: chmod 600 "
         "it";
}

}  // namespace

Result<Key> readKeyFile(const char* variable, const std::string& path) {
  const auto refused = [&](const char* why) {
    return errorf(Status::invalidUsage, "%s=%s: %s", variable, path.c_str(), why);
  };
  const File file(path);
  if (!file.isOpen()) return refused(strerrordesc_np(errno));
  const struct stat facts = file.facts();
  if (!S_ISREG(facts.st_mode)) return refused("it is not a regular file");
  if (const char* const why = whyNoSecret(facts)) return refused(why);
  Key key = file.read(kMaxKeyBytes + 2);
  if (!key.empty() && key.back() == '\n') key.pop_back();
  if (key.size() < kMinKeyBytes)
    return refused("a key has at least 16 bytes: make one with openssl rand -hex 32");
  if (key.size() > kMaxKeyBytes) return refused("a key has at most 4096 bytes");
  return key;
}

Random randomBytes16() {
  Random bytes{};
  while (getrandom(bytes.data(), bytes.size(), 0) < 0 && errno == EINTR) {
  }
  return bytes;
}

bool isZero(const Random& bytes) {
  return bytes == Random{};
}

Proof prove(const Key& key, std::initializer_list<std::span<const uint8_t>> parts) {
  const Block block = blockOf(key);
  Sha256 inner = maskedHash(block, 0x36), outer = maskedHash(block, 0x5c);
  for (const auto& part : parts) inner.add(part);
  outer.add(inner.take());
  return outer.take();
}

bool sameSecret(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace cinch
