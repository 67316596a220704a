#include "interpose/policy/layers/ddp_shapes.h"

#include <algorithm>

#include "interpose/policy/layers/bucket_layout.h"

namespace cinch {

namespace {

using Numbers = std::span<const int64_t>;

// The elements of a tensor that is dense in memory, where strides grow from the dimension that
// `dimAt` names for 0 on; 0 if it is not. PyTorch writes the strides of dimensions of size 1 too as
// this rule has them.
template <class DimAt>
uint64_t elementsIfDense(Numbers sizes, Numbers strides, DimAt dimAt) {
  uint64_t elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[dimAt(i)], stride = strides[dimAt(i)];
    if (stride < 0 || static_cast<uint64_t>(stride) != elements) return 0;
    if (size < 1 || static_cast<uint64_t>(size) > kMaxLayerCount / elements) return 0;
    elements *= static_cast<uint64_t>(size);
  }
  return elements;
}

uint64_t elementsIfContiguous(Numbers sizes, Numbers strides) {
  const size_t last = sizes.size() - 1;
  return elementsIfDense(sizes, strides, [=](size_t i) { return last - i; });
}

// Images and volumes: from the channels (dimension 1) over the rest, backwards, to the batch (0).
uint64_t elementsIfChannelsLast(Numbers sizes, Numbers strides) {
  const size_t nDims = sizes.size();
  if (nDims != 4 && nDims != 5) return 0;
  return elementsIfDense(sizes, strides, [=](size_t i) {
    if (i == 0) return size_t{1};
    return i == nDims - 1 ? size_t{0} : nDims - i;
  });
}

uint64_t elementsOf(Numbers sizes, Numbers strides) {
  const uint64_t elements = elementsIfContiguous(sizes, strides);
  return elements ? elements : elementsIfChannelsLast(sizes, strides);
}

}  // namespace

std::optional<DdpShapes> DdpShapes::read(uint32_t nParameters, std::span<const int64_t> numbers) {
  if (nParameters == 0 || nParameters > kMaxParameters) return std::nullopt;
  if (numbers.size() > kMaxNumbers) return std::nullopt;
  DdpShapes shapes(nParameters, numbers);
  if (shapes.fewestShapes() > nParameters) return std::nullopt;
  return shapes;
}

DdpShapes::DdpShapes(uint32_t nParameters, std::span<const int64_t> numbers)
    : nParameters_(nParameters), elements_(numbers.size() + 1), rests_(numbers.size() + 1) {
  for (auto position = static_cast<uint32_t>(numbers.size()); position-- > 0;) {
    const Numbers from = numbers.subspan(position);
    for (uint32_t dims = 1; dims <= kMaxDims && 2 * dims <= from.size(); ++dims)
      elements_[position][dims - 1] = elementsOf(from.first(dims), from.subspan(dims, dims));
    rests_[position] = restFrom(position);
  }
}

DdpShapes::Rest DdpShapes::restFrom(uint32_t position) const {
  Rest rest{UINT32_MAX, 0, UINT64_MAX, 0};
  for (uint32_t dims = 1; dims <= kMaxDims; ++dims) {
    const uint64_t count = elements(position, dims);
    if (count == 0) continue;
    const Rest& next = rests_[position + 2 * dims];
    if (next.fewest > next.most) continue;
    rest.fewest = std::min(rest.fewest, next.fewest + 1);
    rest.most = std::max(rest.most, next.most + 1);
    rest.fewestElements = std::min(rest.fewestElements, next.fewestElements + count);
    rest.mostElements = std::max(rest.mostElements, next.mostElements + count);
  }
  return rest;
}

}  // namespace cinch
