#include "common/log.h"
#include "interpose/comm/join.h"
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"

namespace cinch {
namespace {

bool isOff() {
  return processParams().params.mode == Mode::off;
}

// Why a communicator made with these arguments cannot be compressed by this version.
std::string refusalFor(const ncclConfig_t* config) {
  if (groupIsOpen()) return "its communicator is made inside a group";
  const bool readable = config != nullptr && config->magic == NCCL_CONFIG_MAGIC &&
                        config->size >= offsetof(ncclConfig_t, cgaClusterSize);
  return readable && config->blocking == 0 ? "its communicator is non-blocking" : "";
}

ncclResult_t refuse(const RealNccl& real, ncclComm_t* comm, const Error& error) {
  CINCH_WARN("AGREE", "%s", error.message.c_str());
  real.CommAbort(*comm);
  *comm = nullptr;
  return static_cast<ncclResult_t>(error.status);
}

// Runs `init` (the real one) between hello and verdict.
template <class Init>
ncclResult_t initialise(const RealNccl& real, ncclComm_t* comm, int nRanks, const ncclUniqueId& id,
                        int rank, const ncclConfig_t* config, Init init) {
  arm();
  Joining joining(real, id, rank, nRanks, refusalFor(config));
  const ncclResult_t result = init();
  // Without a communicator there is nothing to follow; the ranks hear it as this one's leaving.
  if (result != ncclSuccess || comm == nullptr || *comm == nullptr || groupIsOpen()) return result;
  auto state = joining.complete(*comm);
  if (!state.ok()) return refuse(real, comm, state.error());
  Registry::instance().add(std::move(state.value()));
  return result;
}

}  // namespace
}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const EntryGuard guard;
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), GetUniqueId, id);
  if (result != ncclSuccess || !guard.outermost() || isOff()) return result;
  arm();
  const auto served = serveAgreement(reinterpret_cast<uint8_t*>(id->internal));
  if (!served.ok())
    CINCH_WARN("AGREE", "communicators of this id will not be compressed: %s",
               served.error().message.c_str());
  return result;
}

CINCH_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nRanks, ncclUniqueId id,
                                           int rank) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto init = [&] { return CINCH_FORWARD(real, CommInitRank, comm, nRanks, id, rank); };
  if (real == nullptr || !guard.outermost() || isOff()) return init();
  return initialise(*real, comm, nRanks, id, rank, nullptr, init);
}

CINCH_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nRanks, ncclUniqueId id,
                                                 int rank, ncclConfig_t* config) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto init = [&] {
    return CINCH_FORWARD(real, CommInitRankConfig, comm, nRanks, id, rank, config);
  };
  if (real == nullptr || !guard.outermost() || isOff()) return init();
  return initialise(*real, comm, nRanks, id, rank, config, init);
}

CINCH_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const EntryGuard guard;
  if (const auto state = followed(guard, comm)) state->finish();
  return CINCH_FORWARD(CINCH_REAL(), CommFinalize, comm);
}

CINCH_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const EntryGuard guard;
  if (auto state = guard.outermost() ? Registry::instance().take(comm) : nullptr) state->finish();
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), CommDestroy, comm);
  if (guard.outermost()) writeReport();
  return result;
}

CINCH_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const EntryGuard guard;
  if (const auto state = guard.outermost() ? Registry::instance().take(comm) : nullptr)
    state->abandon();
  // Before anything that could wait: an abort is what ends a stuck job.
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), CommAbort, comm);
  if (guard.outermost()) writeReport();
  return result;
}

CINCH_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const EntryGuard guard;
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), CommGetAsyncError, comm, error);
  if (result != ncclSuccess || error == nullptr || *error != ncclSuccess) return result;
  if (const auto state = followed(guard, comm)) *error = state->health();
  return result;
}
