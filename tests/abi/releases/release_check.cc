// Compiles only if what Cinch declares of NCCL's ABI, and what the tests' fake NCCL declares, is
// what the nccl.h of a release says, as far as that release has it. tests/wheels compiles it with
// one release after the other: -DCINCH_RELEASE=<its NCCL_VERSION_CODE>.
//
// The release's header is included into a namespace within that of our own declarations. A name
// that it lacks is thus found among ours and compared with itself, and a function is Absent; that
// no name is missing where it should be there is for tests/wheels to say, which reads the header. A
// macro that both define differently is a redefinition, which the compiler refuses.
#include <climits>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ours {

// The order is what this file is about.
// clang-format off
#include "common/nccl_types.h"
#include "tests/fake/nccl/later_types.h"
// clang-format on

// What differs from release to release.
#undef NCCL_MAJOR
#undef NCCL_MINOR
#undef NCCL_PATCH
#undef NCCL_VERSION_CODE
#undef NCCL_CONFIG_INITIALIZER

struct Absent {};
#define CINCH_NCCL(name, ...) extern Absent nccl##name;
#define FAKE_NCCL(name, ...) extern Absent nccl##name;
#include "interpose/real/nccl_functions.def"
#include "tests/fake/nccl/functions.def"
#undef CINCH_NCCL
#undef FAKE_NCCL

namespace release {

#include <nccl.h>

static_assert(NCCL_VERSION_CODE == CINCH_RELEASE, "this is another release's nccl.h");
static_assert(!std::is_same_v<release::ncclResult_t, ours::ncclResult_t>);

template <class Found, class Wanted>
constexpr bool fits = std::is_same_v<Found, Wanted> || std::is_same_v<Found, Absent>;

#define CINCH_NCCL(name, parameters)                                 \
  static_assert(fits<decltype(nccl##name), ncclResult_t parameters>, \
                "nccl_functions.def: nccl" #name " has another type");
#include "interpose/real/nccl_functions.def"
#undef CINCH_NCCL

#define FAKE_NCCL(name, parameters, ...)                             \
  static_assert(fits<decltype(nccl##name), ncclResult_t parameters>, \
                "fake/nccl/functions.def: nccl" #name " has another type");
#include "tests/fake/nccl/functions.def"
#undef FAKE_NCCL

#define SAME_VALUE(name) static_assert(int{name} == int{ours::name}, #name " has another value");
#define SAME_SIZE(type) \
  static_assert(sizeof(type) == sizeof(ours::type), #type " has another size");

// True where the release's struct has no such field.
#define SAME_FIELD(type, field)                                       \
  static_assert(                                                      \
      []<class T>(T*) {                                               \
        if constexpr (requires(T value) { value.field; }) {           \
          return offsetof(T, field) == offsetof(ours::type, field) && \
                 sizeof(T::field) == sizeof(ours::type::field);       \
        }                                                             \
        return true;                                                  \
      }(static_cast<type*>(nullptr)),                                 \
      #type "." #field " lies elsewhere");

SAME_SIZE(ncclComm_t)
SAME_SIZE(ncclWindow_t)
SAME_SIZE(ncclUniqueId)
SAME_SIZE(ncclResult_t)
SAME_SIZE(ncclDataType_t)
SAME_SIZE(ncclRedOp_t)
SAME_SIZE(ncclScalarResidence_t)
SAME_SIZE(ncclSimInfo_t)
SAME_SIZE(ncclCommMemStat_t)

// ncclNumResults and ncclNumTypes grow with the releases.
SAME_VALUE(ncclSuccess)
SAME_VALUE(ncclUnhandledCudaError)
SAME_VALUE(ncclSystemError)
SAME_VALUE(ncclInternalError)
SAME_VALUE(ncclInvalidArgument)
SAME_VALUE(ncclInvalidUsage)
SAME_VALUE(ncclRemoteError)
SAME_VALUE(ncclInProgress)
SAME_VALUE(ncclSum)
SAME_VALUE(ncclProd)
SAME_VALUE(ncclMax)
SAME_VALUE(ncclMin)
SAME_VALUE(ncclAvg)
SAME_VALUE(ncclNumOps)
SAME_VALUE(ncclMaxRedOp)
SAME_VALUE(ncclScalarDevice)
SAME_VALUE(ncclScalarHostImmediate)
SAME_VALUE(ncclInt8)
SAME_VALUE(ncclChar)
SAME_VALUE(ncclUint8)
SAME_VALUE(ncclInt32)
SAME_VALUE(ncclInt)
SAME_VALUE(ncclUint32)
SAME_VALUE(ncclInt64)
SAME_VALUE(ncclUint64)
SAME_VALUE(ncclFloat16)
SAME_VALUE(ncclHalf)
SAME_VALUE(ncclFloat32)
SAME_VALUE(ncclFloat)
SAME_VALUE(ncclFloat64)
SAME_VALUE(ncclDouble)
SAME_VALUE(ncclBfloat16)
SAME_VALUE(ncclFloat8e4m3)
SAME_VALUE(ncclFloat8e5m2)

SAME_FIELD(ncclConfig_t, size)
SAME_FIELD(ncclConfig_t, magic)
SAME_FIELD(ncclConfig_t, version)
SAME_FIELD(ncclConfig_t, blocking)
SAME_FIELD(ncclConfig_t, cgaClusterSize)
SAME_FIELD(ncclConfig_t, minCTAs)
SAME_FIELD(ncclConfig_t, maxCTAs)
SAME_FIELD(ncclConfig_t, netName)
SAME_FIELD(ncclConfig_t, splitShare)
SAME_FIELD(ncclConfig_t, trafficClass)
SAME_FIELD(ncclConfig_t, commName)
SAME_FIELD(ncclConfig_t, collnetEnable)
SAME_FIELD(ncclConfig_t, CTAPolicy)
SAME_FIELD(ncclConfig_t, shrinkShare)
SAME_FIELD(ncclConfig_t, nvlsCTAs)
SAME_FIELD(ncclConfig_t, nChannelsPerNetPeer)
SAME_FIELD(ncclConfig_t, nvlinkCentricSched)
SAME_FIELD(ncclSimInfo_t, size)
SAME_FIELD(ncclSimInfo_t, magic)
SAME_FIELD(ncclSimInfo_t, version)
SAME_FIELD(ncclSimInfo_t, estimatedTime)

constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
static_assert(kConfig.size == sizeof(ncclConfig_t) && kConfig.magic == NCCL_CONFIG_MAGIC &&
                  kConfig.version == CINCH_RELEASE && kConfig.blocking == NCCL_CONFIG_UNDEF_INT,
              "a config is initialised otherwise");
#ifdef NCCL_SIM_INFO_INITIALIZER
constexpr ncclSimInfo_t kSimInfo = NCCL_SIM_INFO_INITIALIZER;
static_assert(kSimInfo.magic == NCCL_SIM_INFO_MAGIC, "a simulation info is initialised otherwise");
#endif

}  // namespace release
}  // namespace ours
