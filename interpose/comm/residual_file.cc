#include "interpose/comm/residual_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {
namespace {

constexpr uint32_t kMagic = 0x53455243;  // "CRES"
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = 24;
constexpr size_t kEntryBytes = 34;  // and the name
constexpr size_t kHashBytes = 8;
constexpr size_t kMaxName = 255;
constexpr uint32_t kMaxListBytes = 16 << 20;
constexpr uint64_t kMaxResidualBytes = uint64_t{1} << 46;

using Bytes = std::vector<uint8_t>;

Error refused(const char* why) {
  return errorf(Status::invalidUsage, "%s", why);
}

template <std::unsigned_integral T>
void append(Bytes& bytes, T value) {
  bytes.resize(bytes.size() + sizeof value);
  storeLittle(value, &bytes[bytes.size() - sizeof value]);
}

void appendHash(Bytes& bytes) {
  append(bytes, hashBytes(bytes.data(), bytes.size()));
}

// Whether the last bytes are the hash of those before.
bool isWhole(std::span<const uint8_t> bytes) {
  const size_t hashed = bytes.size() - kHashBytes;
  return loadLittle<uint64_t>(&bytes[hashed]) == hashBytes(bytes.data(), hashed);
}

Bytes listOf(std::span<const ResidualEntry> entries) {
  Bytes list;
  for (const ResidualEntry& entry : entries) {
    const std::string name = entry.name.substr(0, kMaxName);
    append(list, entry.slot);
    append(list, entry.encodeBytes);
    append(list, entry.reduceFirst);
    append(list, entry.reduceBytes);
    append(list, static_cast<uint8_t>(entry.type));
    append(list, static_cast<uint8_t>(name.size()));
    list.insert(list.end(), name.begin(), name.end());
  }
  return list;
}

Bytes headOf(const ResidualOwner& owner, std::span<const ResidualEntry> entries) {
  const Bytes list = listOf(entries);
  Bytes head;
  for (const uint32_t field :
       {kMagic, kVersion, owner.nRanks, owner.rank, static_cast<uint32_t>(entries.size()),
        static_cast<uint32_t>(list.size())})
    append(head, field);
  head.insert(head.end(), list.begin(), list.end());
  appendHash(head);
  return head;
}

Result<void> write(FILE* file, const Bytes& bytes) {
  if (fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
    return errorf(Status::systemError, "cannot write: %m");
  return {};
}

Result<Bytes> take(FILE* file, size_t nBytes) {
  Bytes bytes(nBytes);
  if (fread(bytes.data(), 1, nBytes, file) != nBytes) return refused("the file is too short");
  return bytes;
}

// Removes the file unless it has got its real name.
struct Temporary {
  explicit Temporary(const std::string& target)
      : path(target + "." + std::to_string(getpid()) + ".tmp") {}
  ~Temporary() { remove(path.c_str()); }
  Temporary(const Temporary&) = delete;
  const std::string path;
};

Result<void> writeAll(FILE* file, const ResidualOwner& owner,
                      std::span<const ResidualEntry> entries, const ResidualSource& source) {
  CINCH_TRY(write(file, headOf(owner, entries)));
  for (size_t i = 0; i < entries.size(); ++i) {
    Bytes residuals(entries[i].bytes());
    CINCH_TRY(source(i, residuals));
    appendHash(residuals);
    CINCH_TRY(write(file, residuals));
  }
  if (fflush(file) != 0 || fsync(fileno(file)) != 0)
    return errorf(Status::systemError, "cannot write: %m");
  return {};
}

}  // namespace

Result<void> saveResiduals(const std::string& path, const ResidualOwner& owner,
                           std::span<const ResidualEntry> entries, const ResidualSource& source) {
  const Temporary temporary(path);
  {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(temporary.path.c_str(), "wbe"), &fclose);
    if (!file) return errorf(Status::systemError, "cannot write %s: %m", temporary.path.c_str());
    CINCH_TRY(writeAll(file.get(), owner, entries, source));
  }
  if (rename(temporary.path.c_str(), path.c_str()) != 0)
    return errorf(Status::systemError, "cannot write %s: %m", path.c_str());
  return {};
}

Result<ResidualFile> ResidualFile::open(const std::string& path, const ResidualOwner& owner) {
  File opened(fopen(path.c_str(), "rbe"), &fclose);
  if (!opened) return errorf(Status::systemError, "cannot read %s: %m", path.c_str());
  ResidualFile file(std::move(opened));
  CINCH_TRY(file.readHead(owner));
  CINCH_TRY(file.checkSize());
  return file;
}

Result<void> ResidualFile::readHead(const ResidualOwner& owner) {
  auto read = take(file_.get(), kHeadBytes);
  CINCH_TRY(read);
  Bytes& head = read.value();
  const auto field = [&](size_t at) { return loadLittle<uint32_t>(&head[at]); };
  if (field(0) != kMagic) return refused("the file holds no residuals");
  if (field(4) != kVersion) return refused("the file is of another version");
  if (owner != ResidualOwner{field(8), field(12)})
    return errorf(Status::invalidUsage, "it is of rank %u of %u", field(12), field(8));
  const uint32_t nSlots = field(16), nListBytes = field(20);
  if (nListBytes > kMaxListBytes) return refused("its list of slots is damaged");
  const auto list = take(file_.get(), nListBytes + kHashBytes);
  CINCH_TRY(list);
  head.insert(head.end(), list.value().begin(), list.value().end());
  if (!isWhole(head)) return refused("its list of slots is damaged");
  return readList(std::span(list.value()).first(nListBytes), nSlots);
}

Result<void> ResidualFile::readList(std::span<const uint8_t> list, uint32_t nSlots) {
  offsets_ = {kHeadBytes + list.size() + kHashBytes};
  while (!list.empty()) {
    if (list.size() < kEntryBytes || list.size() - kEntryBytes < list[33])
      return refused("its list of slots is damaged");
    const uint8_t type = list[32], nameBytes = list[33];
    ResidualEntry entry{
        .slot = loadLittle<uint64_t>(&list[0]),
        .name = {list.begin() + kEntryBytes, list.begin() + kEntryBytes + nameBytes},
        .type = static_cast<ResidualType>(type),
        .encodeBytes = loadLittle<uint64_t>(&list[8]),
        .reduceFirst = loadLittle<uint64_t>(&list[16]),
        .reduceBytes = loadLittle<uint64_t>(&list[24])};
    const bool isWithin = entry.encodeBytes <= kMaxResidualBytes &&
                          entry.reduceFirst <= entry.encodeBytes &&
                          entry.reduceBytes <= entry.encodeBytes - entry.reduceFirst;
    if (!isWithin || type > static_cast<uint8_t>(ResidualType::int8))
      return refused("its list of slots is damaged");
    offsets_.push_back(offsets_.back() + entry.bytes() + kHashBytes);
    if (offsets_.back() > kMaxResidualBytes) return refused("its list of slots is damaged");
    entries_.push_back(std::move(entry));
    list = list.subspan(kEntryBytes + nameBytes);
  }
  if (entries_.size() != nSlots) return refused("its list of slots is damaged");
  return {};
}

// Before memory is taken for what a list only promises.
Result<void> ResidualFile::checkSize() {
  struct stat status {};
  if (fstat(fileno(file_.get()), &status) != 0)
    return errorf(Status::systemError, "cannot read: %m");
  if (static_cast<uint64_t>(status.st_size) != offsets_.back())
    return refused("its size is not what it says");
  return {};
}

Result<std::vector<uint8_t>> ResidualFile::read(size_t index) {
  if (fseeko(file_.get(), static_cast<off_t>(offsets_[index]), SEEK_SET) != 0)
    return errorf(Status::systemError, "cannot read: %m");
  auto residuals = take(file_.get(), entries_[index].bytes() + kHashBytes);
  CINCH_TRY(residuals);
  if (!isWhole(residuals.value())) return refused("the residuals of a slot are damaged");
  residuals.value().resize(entries_[index].bytes());
  return residuals;
}

}  // namespace cinch
