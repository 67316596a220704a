#include "examples/lm/gradient_bucket.h"

#include <ctime>

#include "examples/lm/bfloat16.h"

namespace lm {
namespace {

size_t bytesOf(GradientType type) {
  return type == GradientType::fp32 ? 4 : 2;
}

}  // namespace

double monotonicSeconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

GradientBucket::GradientBucket(Communicator& communicator, size_t count, GradientType type,
                               Reduction reduction)
    : communicator_(communicator),
      type_(type),
      reduction_(reduction),
      memory_(count * bytesOf(type)),
      halves_(type == GradientType::bf16 ? count : 0) {}

void GradientBucket::prepare(std::span<float> gradient) const {
  if (reduction_ == Reduction::sum) {
    const float share = 1.0f / static_cast<float>(communicator_.ranks());
    for (float& value : gradient) value *= share;
  }
  if (type_ == GradientType::bf16)
    for (float& value : gradient) value = fromBfloat16(toBfloat16(value));
}

void GradientBucket::upload(std::span<const float> gradient) {
  const void* source = gradient.data();
  if (type_ == GradientType::bf16) {
    for (size_t i = 0; i < gradient.size(); ++i) halves_[i] = toBfloat16(gradient[i]);
    source = halves_.data();
  }
  communicator_.stream().copy(memory_.data(), source, gradient.size() * bytesOf(type_));
}

void GradientBucket::download(std::span<float> gradient) {
  if (type_ == GradientType::fp32) {
    communicator_.stream().copy(gradient.data(), memory_.data(), gradient.size_bytes());
    return;
  }
  communicator_.stream().copy(halves_.data(), memory_.data(), halves_.size() * sizeof(uint16_t));
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = fromBfloat16(halves_[i]);
}

Interval GradientBucket::allReduce(std::span<float> gradient) {
  upload(gradient);
  Interval interval{monotonicSeconds(), 0};
  communicator_.run("ncclAllReduce", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(memory_.data(), memory_.data(), gradient.size(),
                         type_ == GradientType::fp32 ? ncclFloat32 : ncclBfloat16,
                         reduction_ == Reduction::sum ? ncclSum : ncclAvg, comm, stream);
  });
  interval.done = monotonicSeconds();
  download(gradient);
  return interval;
}

}  // namespace lm
