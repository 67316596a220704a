#include "interpose/comm/value_sample.h"

#include <charconv>
#include <cstring>

#include "interpose/policy/signature.h"
#include "kernels/element/element_traits.h"

namespace cinch {
namespace {

template <class T>
T loadAt(const uint8_t* memory) {
  T value;
  memcpy(&value, memory, sizeof value);
  return value;
}

// The double with the fewest decimal digits that still means this float: logs stay short.
double shortest(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double result = static_cast<double>(value);
  std::from_chars(text, written.ptr, result);
  return result;
}

double loadFloat(const uint8_t* memory, ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return shortest(ElementTraits<ElementType::fp16>::toFloat(loadAt<uint16_t>(memory)));
    case ncclBfloat16:
      return shortest(ElementTraits<ElementType::bf16>::toFloat(loadAt<uint16_t>(memory)));
    case ncclFloat64:
      return loadAt<double>(memory);
    default:
      return shortest(loadAt<float>(memory));
  }
}

bool isInteger(ncclDataType_t type) {
  return type == ncclInt32 || type == ncclInt64;
}

int64_t loadInteger(const uint8_t* memory, ncclDataType_t type) {
  return type == ncclInt32 ? loadAt<int32_t>(memory) : loadAt<int64_t>(memory);
}

}  // namespace

void ValueSample::copyInput(const DeviceValues& values, void* stream) {
  input_ = copy(values, kValues, stream);
}

void ValueSample::copyOutput(const DeviceValues& values, void* stream) {
  output_ = copy(values, kValues, stream);
}

void ValueSample::copyMessage(const DeviceValues& values, void* stream) {
  output_ = copy(values, static_cast<uint32_t>(values.count), stream);
}

// One copy for each value that is not beside the one before.
ValueSample::Part ValueSample::copy(const DeviceValues& values, uint32_t nValues, void* stream) {
  const uint32_t width = bytesOf(values.type);
  if (isBroken_ || values.data_dev == nullptr || values.count < nValues ||
      nValues * width > nBytes_ - nUsed_)
    return {};
  const Part part{nUsed_, nValues, values.type};
  const auto* from = static_cast<const uint8_t*>(values.data_dev);
  const bool isWhole = values.count == nValues;
  const uint32_t nCopies = isWhole ? 1 : nValues;
  const uint32_t nBytes = isWhole ? nValues * width : width;
  for (uint32_t i = 0; i < nCopies && !isBroken_; ++i) {
    const uint64_t at = isWhole ? 0 : (2 * i + 1) * values.count / (2 * nValues);
    isBroken_ = device_->copyAsync(memory_ + nUsed_, from + at * width, nBytes, stream) != 0;
    nUsed_ += nBytes;
  }
  return part;
}

void ValueSample::close(void* stream) {
  isClosed_ = !isBroken_ && arrived_.record(stream).ok();
}

SampledValues ValueSample::read(const Part& part) const {
  const uint32_t width = bytesOf(part.type);
  std::vector<double> floats;
  std::vector<int64_t> integers;
  for (uint32_t i = 0; i < part.nValues; ++i) {
    const uint8_t* const at = memory_ + part.offset + i * width;
    if (isInteger(part.type))
      integers.push_back(loadInteger(at, part.type));
    else
      floats.push_back(loadFloat(at, part.type));
  }
  if (isInteger(part.type)) return integers;
  return floats;
}

Result<std::unique_ptr<SamplePool>> SamplePool::make(const DeviceTable& device, uint32_t nSamples,
                                                     uint32_t nBytes) {
  auto pool = std::make_unique<SamplePool>();
  auto memory = Buffer::allocate(device, size_t{nSamples} * nBytes, Buffer::Where::host);
  CINCH_TRY(memory);
  pool->memory_ = std::move(memory.value());
  pool->nBytes_ = nBytes;
  pool->samples_.resize(nSamples);
  for (ValueSample& sample : pool->samples_) {
    auto event = Event::create(device);
    CINCH_TRY(event);
    sample.arrived_ = std::move(event.value());
    sample.device_ = &device;
    sample.memory_ = pool->memory_.as<uint8_t>() + pool->free_.size() * nBytes;
    sample.nBytes_ = nBytes;
    pool->free_.push_back(&sample);
  }
  return pool;
}

ValueSample* SamplePool::take() {
  if (free_.empty()) return nullptr;
  ValueSample* const sample = free_.back();
  free_.pop_back();
  sample->nUsed_ = 0;
  sample->input_ = sample->output_ = {};
  sample->isBroken_ = sample->isClosed_ = false;
  return sample;
}

}  // namespace cinch
