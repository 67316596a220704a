#include "tests/unit/kernels/data_sets.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "kernels/element/element_traits.h"

namespace cinch::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

template <class Distribution>
std::vector<float> drawn(size_t count, uint32_t seed, float scale, Distribution distribution) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(distribution(random));
  return values;
}

std::vector<float> readRecording() {
  using Bf16 = ElementTraits<ElementType::bf16>;
  const std::string path = CINCH_TEST_DATA_FOLDER "/train_lm_gradients.bf16";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) throw std::runtime_error("cannot read " + path);
  std::vector<float> values;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2)
    values.push_back(Bf16::toFloat(static_cast<uint16_t>(static_cast<uint8_t>(bytes[i]) |
                                                         static_cast<uint8_t>(bytes[i + 1]) << 8)));
  return values;
}

// One value of an awkward run of the given kind, made of an ordinary one.
float awkwardValue(uint32_t kind, size_t index, float ordinary, std::mt19937& random) {
  switch (kind) {
    case 0:
      return 3.14159f;
    case 1:
      return index % 2 ? -0.0f : 0.0f;
    case 2:
      return static_cast<float>(random() % 1000) * kSmallest;
    case 3:
      return index % 3 ? kLargest : -kLargest;
    case 4:
      return index % 50 == 7 ? kNan : ordinary;
    case 5:
      return index % 60 == 9 ? -kInfinity : ordinary;
    case 6:
      return 1.0f + ordinary * 1e-6f;
    case 7:
      return index == 11 ? 1e30f : ordinary;
    case 8:
      return floatOfBits(static_cast<uint32_t>(random()));
    case 9:
      return ordinary * 0x1p-121f;
    case 10:
      return ordinary * 3e4f;
    default:
      return ordinary * 1e-3f;
  }
}

}  // namespace

std::vector<float> gaussian(size_t count, uint32_t seed, float scale) {
  return drawn(count, seed, scale, std::normal_distribution<float>());
}

std::vector<float> laplace(size_t count, uint32_t seed, float scale) {
  return drawn(count, seed, scale * std::sqrt(0.5f), [](std::mt19937& random) {
    const float magnitude = std::exponential_distribution<float>()(random);
    return random() % 2 ? magnitude : -magnitude;
  });
}

std::vector<float> studentT3(size_t count, uint32_t seed, float scale) {
  return drawn(count, seed, scale, std::student_t_distribution<double>(3.0));
}

std::vector<float> layered(size_t count, uint32_t seed, float scale) {
  constexpr size_t kLayerElems = 1024;
  std::vector<float> values = gaussian(count, seed, scale);
  std::mt19937 random(seed ^ 0x5eed);
  std::lognormal_distribution<float> deviation(0.0f, 1.5f);
  float ofLayer = 1;
  for (size_t i = 0; i < count; ++i) {
    if (i % kLayerElems == 0) ofLayer = deviation(random);
    values[i] *= ofLayer;
  }
  return values;
}

std::vector<float> recorded(size_t count, uint32_t seed, float scale) {
  static const std::vector<float> recording = readRecording();
  const size_t first = std::mt19937(seed)() % recording.size();
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * recording[(first + i) % recording.size()];
  return values;
}

std::vector<float> awkward(size_t count, uint32_t seed) {
  constexpr size_t kRunElems[] = {128, 128, 128, 128, 64, 256, 16, 40};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  while (values.size() < count) {
    const size_t nElems = kRunElems[random() % std::size(kRunElems)];
    const auto kind = static_cast<uint32_t>(random() % 16);
    for (size_t i = 0; i < nElems; ++i)
      values.push_back(awkwardValue(kind, i, normal(random), random));
  }
  values.resize(count);
  return values;
}

}  // namespace cinch::test
