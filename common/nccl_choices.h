// What NCCL chooses for a collective, by NCCL's own numbers, and how Cinch's files write it: the
// names of the columns that NCCL's example tuner reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cinch {

// ncclFunc_t, as far as a tuner is asked.
enum class TunedCollective : int { broadcast, reduce, allGather, reduceScatter, allReduce };
// NCCL_ALGO_*
enum class Algorithm : int { tree, ring, collnetDirect, collnetChain, nvls, nvlsTree, pat };
// NCCL_PROTO_*
enum class Protocol : int { ll, ll128, simple };

inline constexpr int kTunedCollectives = 5;
inline constexpr int kAlgorithms = 7;
inline constexpr int kProtocols = 3;

inline constexpr const char* kCollectiveNames =
    "broadcast|reduce|allgather|reducescatter|allreduce";
inline constexpr const char* kAlgorithmNames =
    "tree|ring|collnet_direct|collnet_chain|nvls|nvls_tree|pat";
inline constexpr const char* kProtocolNames = "ll|ll128|simple";

std::string nameOf(TunedCollective collective);
std::string nameOf(Algorithm algorithm);
std::string nameOf(Protocol protocol);

std::optional<TunedCollective> collectiveNamed(std::string_view name);
std::optional<Algorithm> algorithmNamed(std::string_view name);
std::optional<Protocol> protocolNamed(std::string_view name);

}  // namespace cinch
