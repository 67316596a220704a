#include "common/nccl_choices.h"

#include "common/param_kinds.h"

namespace cinch {

std::string nameOf(TunedCollective collective) {
  return ChoiceKind<TunedCollective>{kCollectiveNames}.format(collective);
}

std::string nameOf(Algorithm algorithm) {
  return ChoiceKind<Algorithm>{kAlgorithmNames}.format(algorithm);
}

std::string nameOf(Protocol protocol) {
  return ChoiceKind<Protocol>{kProtocolNames}.format(protocol);
}

std::optional<TunedCollective> collectiveNamed(std::string_view name) {
  return ChoiceKind<TunedCollective>{kCollectiveNames}.parse(name);
}

std::optional<Algorithm> algorithmNamed(std::string_view name) {
  return ChoiceKind<Algorithm>{kAlgorithmNames}.parse(name);
}

std::optional<Protocol> protocolNamed(std::string_view name) {
  return ChoiceKind<Protocol>{kProtocolNames}.parse(name);
}

}  // namespace cinch
