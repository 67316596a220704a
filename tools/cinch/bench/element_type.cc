#include "tools/cinch/bench/element_type.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/element/element_traits.h"

namespace cinch::bench {
namespace {

constexpr ElementType kTypes[] = {
    {"int8", ncclInt8, 1, 7, false, true},      {"uint8", ncclUint8, 1, 8, false, false},
    {"int32", ncclInt32, 4, 31, false, true},   {"uint32", ncclUint32, 4, 32, false, false},
    {"int64", ncclInt64, 8, 53, false, true},   {"uint64", ncclUint64, 8, 53, false, false},
    {"half", ncclFloat16, 2, 11, true, true},   {"float", ncclFloat32, 4, 24, true, true},
    {"double", ncclFloat64, 8, 53, true, true}, {"bfloat16", ncclBfloat16, 2, 8, true, true}};

template <class Integer>
struct IntegerFormat {
  using Storage = Integer;
  static Integer store(double value) { return static_cast<Integer>(static_cast<int64_t>(value)); }
  static double load(Integer element) { return static_cast<double>(element); }
};

template <class Float>
struct FloatFormat {
  using Storage = Float;
  static Float store(double value) { return static_cast<Float>(value); }
  static double load(Float element) { return static_cast<double>(element); }
};

template <cinch::ElementType type>
struct HalfFormat {
  using Traits = ElementTraits<type>;
  using Storage = uint16_t;
  static uint16_t store(double value) { return Traits::fromFloat(static_cast<float>(value)); }
  static double load(uint16_t element) { return static_cast<double>(Traits::toFloat(element)); }
};

// Calls call.operator()<Format>() for the type.
template <class Call>
void withFormat(const ElementType& type, const Call& call) {
  switch (type.id) {
    case ncclInt8:
      return call.template operator()<IntegerFormat<int8_t>>();
    case ncclUint8:
      return call.template operator()<IntegerFormat<uint8_t>>();
    case ncclInt32:
      return call.template operator()<IntegerFormat<int32_t>>();
    case ncclUint32:
      return call.template operator()<IntegerFormat<uint32_t>>();
    case ncclInt64:
      return call.template operator()<IntegerFormat<int64_t>>();
    case ncclUint64:
      return call.template operator()<IntegerFormat<uint64_t>>();
    case ncclFloat16:
      return call.template operator()<HalfFormat<cinch::ElementType::fp16>>();
    case ncclBfloat16:
      return call.template operator()<HalfFormat<cinch::ElementType::bf16>>();
    case ncclFloat64:
      return call.template operator()<FloatFormat<double>>();
    default:
      return call.template operator()<FloatFormat<float>>();
  }
}

}  // namespace

std::span<const ElementType> elementTypes() {
  return kTypes;
}

const ElementType* findElementType(std::string_view name) {
  for (const ElementType& type : kTypes)
    if (name == type.name) return &type;
  return nullptr;
}

void storeValues(const ElementType& type, std::span<const double> values, std::byte* elements) {
  withFormat(type, [&]<class Format>() {
    for (size_t i = 0; i < values.size(); ++i) {
      const typename Format::Storage element = Format::store(values[i]);
      std::memcpy(elements + i * sizeof element, &element, sizeof element);
    }
  });
}

void loadValues(const ElementType& type, const std::byte* elements, std::span<double> values) {
  withFormat(type, [&]<class Format>() {
    for (size_t i = 0; i < values.size(); ++i) {
      typename Format::Storage element;
      std::memcpy(&element, elements + i * sizeof element, sizeof element);
      values[i] = Format::load(element);
    }
  });
}

}  // namespace cinch::bench
