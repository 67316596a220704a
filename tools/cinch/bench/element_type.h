// NCCL's types of values: what nccl-tests calls them, and how they are read and written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "common/nccl_types.h"

namespace cinch::bench {

inline constexpr size_t kMaxElementBytes = 8;

struct ElementType {
  const char* name;  // nccl-tests' name
  ncclDataType_t id;
  size_t bytes;
  int significantBits;  // integers up to 2^this are exact
  bool isFloat;
  bool isSigned;
};

// Those that every NCCL since 2.18 reduces; 8-bit floats are not there.
std::span<const ElementType> elementTypes();
const ElementType* findElementType(std::string_view name);

// `values` as elements of the type: rounded to it, integers cut to their low bits.
void storeValues(const ElementType& type, std::span<const double> values, std::byte* elements);
void loadValues(const ElementType& type, const std::byte* elements, std::span<double> values);

}  // namespace cinch::bench
