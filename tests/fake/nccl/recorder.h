// Counts and arguments of the fake's calls, one record per function.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "common/nccl_types.h"
#include "tests/fake/nccl/fake_nccl.h"

namespace cinch::fake {

inline constexpr int kMaxArgs = 11;

struct Record {
  const char* name = nullptr;
  std::atomic<int64_t> calls{0};
  std::atomic<int> result{ncclSuccess};
  std::atomic<int> nArgs{0};
  std::array<std::atomic<uint64_t>, kMaxArgs> args{};
};

template <class T>
uint64_t widen(const T& value) {
  if constexpr (std::is_same_v<T, ncclUniqueId>) {
    return fakeNcclIdHash(&value);
  } else if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

// Notes one call; returns what it should answer.
template <class... Args>
ncclResult_t note(Record& record, const Args&... args) {
  static_assert(sizeof...(Args) <= kMaxArgs);
  int i = 0;
  (record.args[i++].store(widen(args), std::memory_order_relaxed), ...);
  record.nArgs.store(i, std::memory_order_relaxed);
  record.calls.fetch_add(1, std::memory_order_relaxed);
  return static_cast<ncclResult_t>(record.result.load(std::memory_order_relaxed));
}

}  // namespace cinch::fake
