#include "tools/cinch/doctor/facts.h"

namespace cinch::doctor {

Variables::Variables(const char* const* environment) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      values_.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
}

std::string Variables::operator[](const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

std::vector<std::string> Variables::namesWith(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_)
    if (name.starts_with(prefix) && !value.empty()) names.push_back(name);
  return names;
}

}  // namespace cinch::doctor
