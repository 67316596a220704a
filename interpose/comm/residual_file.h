// The residuals of one rank of a communicator in a file, so that a job which goes on from a
// checkpoint still owes its gradients what it owed them. Host memory only.
//
//   offset  bytes  integers little-endian
//   0       4      magic "CRES"
//   4       4      version  1: the first; every other one is refused
//   8       4      ranks of the communicator
//   12      4      this rank
//   16      4      n, slots
//   20      4      bytes of their list
//   24      ...    list: identity 8, bytes of the stage 1 residual 8, first byte of stage 2's
//   within
//                  the bucket 8, bytes of it 8, residual type 1, length of the name 1, name
//   ...     8      hash of all bytes before
//   ...     ...    slot after slot: stage 1 residual, stage 2 residual, the levels of its profile
//                  (ProbeState), hash of the three 8
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch {

struct ResidualOwner {
  uint32_t nRanks = 0;
  uint32_t rank = 0;
  bool operator==(const ResidualOwner&) const = default;
};

// What belongs to one slot.
struct ResidualEntry {
  uint64_t slot = 0;  // identity
  std::string name;   // at most 255 bytes are kept
  ResidualType type = ResidualType::fp32;
  uint64_t encodeBytes = 0;  // of the whole bucket
  uint64_t reduceFirst = 0;  // stage 2 covers a part of it only, which begins at this byte
  uint64_t reduceBytes = 0;
  uint64_t reduceEnd() const { return reduceFirst + reduceBytes; }
  uint64_t bytes() const { return encodeBytes + reduceBytes + sizeof ProbeState::levels; }
  bool operator==(const ResidualEntry&) const = default;
};

// Fills in what is kept of entry `index`: the residual of stage 1, that of stage 2, the levels.
using ResidualSource = std::function<Result<void>(size_t index, std::span<uint8_t> bytes)>;

// Writes the file anew, all or nothing: the old one stays until the new one is complete.
Result<void> saveResiduals(const std::string& path, const ResidualOwner& owner,
                           std::span<const ResidualEntry> entries, const ResidualSource& source);

class ResidualFile {
 public:
  // Refuses everything but what saveResiduals() writes for this owner; the residuals themselves are
  // checked when they are read.
  static Result<ResidualFile> open(const std::string& path, const ResidualOwner& owner);

  const std::vector<ResidualEntry>& entries() const { return entries_; }
  // As a ResidualSource has them. An error where they are damaged.
  Result<std::vector<uint8_t>> read(size_t index);

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  explicit ResidualFile(File file) : file_(std::move(file)) {}
  Result<void> readHead(const ResidualOwner& owner);
  Result<void> readList(std::span<const uint8_t> list, uint32_t nSlots);
  Result<void> checkSize();

  File file_;
  std::vector<ResidualEntry> entries_;
  std::vector<uint64_t> offsets_;  // of each entry's residuals, and the end
};

}  // namespace cinch
