#include "emulator/nccl/reduction.h"

#include <array>
#include <cmath>
#include <cstring>

#include "emulator/nccl/element.h"

namespace cinch::emulator {
namespace {

template <class T>
constexpr bool kIsFloating = std::is_floating_point_v<T>;

// Integers add and multiply unsigned, at least 32 bits wide: no overflow is undefined.
template <class T>
auto asArithmetic(T value) {
  if constexpr (kIsFloating<T>) {
    return value;
  } else if constexpr (sizeof(T) < sizeof(uint32_t)) {
    return static_cast<uint32_t>(value);
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(asArithmetic(a) + asArithmetic(b));
  }
};

struct Product {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(asArithmetic(a) * asArithmetic(b));
  }
};

// A number wins over a NaN, as in IEEE 754 maxNum.
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    return a > b || b != b ? a : b;
  }
};

struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    return a < b || b != b ? a : b;
  }
};

template <class Element>
void copy(const void* own, void* out, size_t count, const void*) {
  if (own != out) memmove(out, own, count * sizeof(typename Element::Storage));
}

template <class Element, class Op>
void combine(const void* received, const void* own, void* out, size_t count, const void*) {
  using Storage = typename Element::Storage;
  const auto* a = static_cast<const Storage*>(received);
  const auto* b = static_cast<const Storage*>(own);
  auto* to = static_cast<Storage*>(out);
  for (size_t i = 0; i < count; ++i) {
    to[i] = Element::narrow(Op::apply(Element::widen(a[i]), Element::widen(b[i])));
  }
}

// Each input is multiplied by a scalar, and the product rounded to the type, before the sum.
template <class Element>
struct Scaling {
  using Storage = typename Element::Storage;
  using Wide = typename Element::Wide;

  static Wide factor(const void* scalar) {
    Storage value;
    memcpy(&value, scalar, sizeof value);
    return Element::widen(value);
  }

  static Storage scaled(Storage value, Wide factor) {
    return Element::narrow(Product::apply(Element::widen(value), factor));
  }

  static void load(const void* own, void* out, size_t count, const void* scalar) {
    const auto* from = static_cast<const Storage*>(own);
    auto* to = static_cast<Storage*>(out);
    const Wide scale = factor(scalar);
    for (size_t i = 0; i < count; ++i) to[i] = scaled(from[i], scale);
  }

  static void combine(const void* received, const void* own, void* out, size_t count,
                      const void* scalar) {
    const auto* a = static_cast<const Storage*>(received);
    const auto* b = static_cast<const Storage*>(own);
    auto* to = static_cast<Storage*>(out);
    const Wide scale = factor(scalar);
    for (size_t i = 0; i < count; ++i) {
      const Wide addend = Element::widen(scaled(b[i], scale));
      to[i] = Element::narrow(Sum::apply(Element::widen(a[i]), addend));
    }
  }
};

// An integer average divides the complete sum, towards zero.
template <class T>
void divide(void* values, size_t count, int nRanks) {
  using Wide = std::common_type_t<T, int>;
  auto* to = static_cast<T*>(values);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<T>(to[i] / static_cast<Wide>(nRanks));
}

using Row = std::array<Reduction, kPreMulSum + 1>;  // by ncclRedOp_t

template <class Element>
constexpr Reduction preMulSum() {
  return {Scaling<Element>::load, Scaling<Element>::combine, nullptr};
}

template <class Element>
constexpr Reduction average() {
  if constexpr (kIsFloating<typename Element::Wide>) {
    return preMulSum<Element>();
  } else {
    return {copy<Element>, combine<Element, Sum>, divide<typename Element::Storage>};
  }
}

template <class Element>
constexpr Row row() {
  return {Reduction{copy<Element>, combine<Element, Sum>, nullptr},
          Reduction{copy<Element>, combine<Element, Product>, nullptr},
          Reduction{copy<Element>, combine<Element, Maximum>, nullptr},
          Reduction{copy<Element>, combine<Element, Minimum>, nullptr},
          average<Element>(),
          preMulSum<Element>()};
}

constexpr std::array<Row, ncclBfloat16 + 1> kReductions = {
    // by ncclDataType_t
    row<PlainElement<int8_t>>(),   row<PlainElement<uint8_t>>(), row<PlainElement<int32_t>>(),
    row<PlainElement<uint32_t>>(), row<PlainElement<int64_t>>(), row<PlainElement<uint64_t>>(),
    row<Float16Element>(),         row<PlainElement<float>>(),   row<PlainElement<double>>(),
    row<Bfloat16Element>(),
};

}  // namespace

size_t elementBytes(ncclDataType_t type) {
  static constexpr std::array<size_t, ncclNumTypes> kBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  const auto index = static_cast<size_t>(type);
  return index < kBytes.size() ? kBytes[index] : 0;
}

const Reduction* findReduction(ncclDataType_t type, ncclRedOp_t op) {
  const auto row = static_cast<size_t>(type);
  const auto column = static_cast<size_t>(op);
  if (row >= kReductions.size() || column > kPreMulSum) return nullptr;
  return &kReductions[row][column];
}

uint64_t averageScalar(ncclDataType_t type, int nRanks) {
  switch (type) {
    case ncclFloat16:
      return Float16Element::narrow(1.0f / static_cast<float>(nRanks));
    case ncclBfloat16:
      return Bfloat16Element::narrow(1.0f / static_cast<float>(nRanks));
    case ncclFloat32:
      return std::bit_cast<uint32_t>(1.0f / static_cast<float>(nRanks));
    case ncclFloat64:
      return std::bit_cast<uint64_t>(1.0 / nRanks);
    default:
      return 0;
  }
}

}  // namespace cinch::emulator
