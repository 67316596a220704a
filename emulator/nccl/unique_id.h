// What a unique id says: where the ranks of one communicator meet. It fills the first bytes only;
// the rest is zero when made and never looked at, since others keep notes of their own there.
#pragma once

#include "common/nccl_types.h"
#include "common/result.h"
#include "emulator/nccl/address.h"

namespace cinch::emulator {

struct UniqueId {
  uint64_t magic = kMagic;
  uint64_t nonce = 0;  // tells communicators apart
  Address root;

  static constexpr uint64_t kMagic = 0x31646975636c636eull;
};
static_assert(sizeof(UniqueId) < 50);

ncclUniqueId packUniqueId(const UniqueId& id);
// Fails on bytes that packUniqueId did not make.
Result<UniqueId> unpackUniqueId(const ncclUniqueId& packed);

}  // namespace cinch::emulator
