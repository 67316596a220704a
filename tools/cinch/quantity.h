// Rates and times as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cinch {

// "25G", "400M", "1.5Gbit", "100gbit": bits a second, with powers of 1000, as tc has them. Above 0.
std::optional<double> parseBitRate(std::string_view text);

// "5G", "800MB": bytes a second, with powers of 1000. Above 0.
std::optional<double> parseByteRate(std::string_view text);

// "20us", "1.5ms", "300ns", "1s": seconds; a unit has to be there, unless it is 0.
std::optional<double> parseTime(std::string_view text);

// "64 MiB", "1.5 KiB", "900 B".
std::string sizeText(double nBytes);
// "25 Gbit/s".
std::string bitRateText(double bytesPerSecond);

}  // namespace cinch
