// The layouts that NCCL and a plugin have to agree on, in numbers (those of NCCL's own
// headers, 2.21 to 2.30, on 64-bit machines). Nothing of this is run.
#include <cstddef>
#include <initializer_list>

#include "tuner_plugin/abi/tables.h"

namespace {

using Offsets = std::initializer_list<size_t>;

// Nothing but pointers, in this order.
constexpr bool isTable(size_t size, Offsets offsets) {
  size_t end = 0;
  for (const size_t offset : offsets) {
    if (offset != end) return false;
    end += sizeof(void*);
  }
  return size == end;
}

static_assert(ncclFuncBroadcast == 0 && ncclFuncReduce == 1 && ncclFuncAllGather == 2 &&
              ncclFuncReduceScatter == 3 && ncclFuncAllReduce == 4);

#define AT(field) offsetof(ncclTuner_v2_t, field)
static_assert(isTable(sizeof(ncclTuner_v2_t), {AT(name), AT(init), AT(getCollInfo), AT(destroy)}));
#undef AT

#define AT(field) offsetof(ncclTuner_v3_t, field)
static_assert(isTable(sizeof(ncclTuner_v3_t), {AT(name), AT(init), AT(getCollInfo), AT(destroy)}));
#undef AT

#define AT(field) offsetof(ncclTuner_v4_t, field)
static_assert(isTable(sizeof(ncclTuner_v4_t), {AT(name), AT(init), AT(getCollInfo), AT(destroy)}));
#undef AT

#define AT(field) offsetof(ncclTuner_v5_t, field)
static_assert(isTable(sizeof(ncclTuner_v5_t), {AT(name), AT(init), AT(getCollInfo), AT(finalize)}));
#undef AT

#define AT(field) offsetof(ncclTuner_v6_t, field)
static_assert(isTable(sizeof(ncclTuner_v6_t),
                      {AT(name), AT(init), AT(getCollInfo), AT(finalize), AT(getChunkSize)}));
#undef AT

static_assert(sizeof(ncclNvlDomainInfo_v5_t) == 12);
static_assert(offsetof(ncclNvlDomainInfo_v5_t, minRanksPerNvlDomain) == 4);
static_assert(offsetof(ncclNvlDomainInfo_v5_t, maxRanksPerNvlDomain) == 8);

#define AT(field) (offsetof(ncclTunerConstants_v5_t, field) / sizeof(double))
static_assert(sizeof(ncclTunerConstants_v5_t) == 144 * sizeof(double));
static_assert(AT(baseLatencies) == 0 && AT(hwLatencies) == 21 && AT(llMaxBws) == 84);
static_assert(AT(perChMaxRingLL128Bws) == 96 && AT(perChMaxTreeLL128Bws) == 108);
static_assert(AT(perChMaxTreeBws) == 120 && AT(perChMaxNVLSTreeBws) == 132);
#undef AT

}  // namespace
