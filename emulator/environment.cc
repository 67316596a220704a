#include "emulator/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace cinch::emulator {
namespace {

// An H100's: what programs refuse because it is too old or too new is seldom this one.
constexpr int kUsualCapability = 90;

std::string_view textOf(const char* name) {
  const char* const given = std::getenv(name);
  return given == nullptr ? "" : given;
}

// 0 if the variable is not a number of devices.
int deviceNumber(const char* name) {
  const std::string_view text = textOf(name);
  const char* const end = text.data() + text.size();
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool valid = error == std::errc() && rest == end && number >= 1 && number <= kMaxDevices;
  return valid ? number : 0;
}

}  // namespace

Links links() {
  const std::string_view text = textOf("CINCH_EMULATOR_LINKS");
  if (text == "pcie") return Links::pcie;
  return text == "nvlink" ? Links::nvlink : Links::unknown;
}

int devices() {
  for (const char* const name : {"CINCH_EMULATOR_DEVICES", "LOCAL_WORLD_SIZE"})
    if (const int number = deviceNumber(name); number != 0) return number;
  return 1;
}

bool loadsLazily() {
  return textOf("CUDA_MODULE_LOADING") != "EAGER";
}

int capability() {
  const std::string_view text = textOf("CINCH_EMULATOR_CAPABILITY");
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto [point, error] = std::from_chars(text.data(), end, major);
  if (error != std::errc() || point == end || *point != '.') return kUsualCapability;
  const auto [rest, minorError] = std::from_chars(point + 1, end, minor);
  const bool isValid =
      minorError == std::errc() && rest == end && major > 0 && minor >= 0 && minor < 10;
  return isValid ? 10 * major + minor : kUsualCapability;
}

}  // namespace cinch::emulator
