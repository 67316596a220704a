#include "random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace cinch::emulator_torch {
namespace {

// CUDA's generators want offsets that are multiples of the four numbers of a Philox round.
constexpr uint64_t kOffsetStep = 4;

// SplitMix64's mixing of its state (Steele, Lea, Flood 2014): nearby seeds and offsets give
// unrelated sequences.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

at::Generator hostGenerator(const std::optional<at::Generator>& given, c10::Device device) {
  at::Generator source =
      given && given->defined() ? *given : at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(source.mutex());
  const uint64_t offset = source.get_offset();
  source.set_offset(offset + kOffsetStep);
  return at::make_generator<at::CPUGeneratorImpl>(mix(mix(source.current_seed()) ^ offset));
}

}  // namespace cinch::emulator_torch
