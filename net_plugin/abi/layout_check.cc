// The layouts that NCCL and a plugin have to agree on, in numbers (those of NCCL's own
// headers, 2.20 to 2.30, on 64-bit machines). Nothing of this is run.
#include <cstddef>
#include <initializer_list>

// The same numbers are held against NCCL's own headers where they are found (tests).
#ifdef CINCH_NCCL_NET_HEADER
#include CINCH_NCCL_NET_HEADER
using ncclNetAttr_t = ncclNetAttr_v12_t;
using ncclNetCommAttr_t = ncclNetCommAttr_v12_t;
using ncclNetCommConfig_t = ncclNetCommConfig_v12_t;
#else
#include "net_plugin/abi/tables.h"
#endif

namespace {

using Offsets = std::initializer_list<size_t>;

constexpr bool same(Offsets actual, Offsets expected) {
  const size_t* next = expected.begin();
  if (actual.size() != expected.size()) return false;
  for (const size_t offset : actual) {
    if (offset != *next++) return false;
  }
  return true;
}

// A table is nothing but pointers, in this order.
constexpr bool isTable(size_t size, Offsets offsets) {
  size_t end = 0;
  for (const size_t offset : offsets) {
    if (offset != end) return false;
    end += sizeof(void*);
  }
  return size == end;
}

#define AT(field) offsetof(ncclNetDeviceHandle_t, field)
static_assert(sizeof(ncclNetDeviceHandle_t) == 32);
static_assert(same({AT(netDeviceType), AT(netDeviceVersion), AT(handle), AT(size),
                    AT(needsProxyProgress)},
                   {0, 4, 8, 16, 24}));
#undef AT

#define AT(field) offsetof(ncclNetVDeviceProps_v9_t, field)
static_assert(sizeof(ncclNetVDeviceProps_v9_t) == 20);
static_assert(same({AT(ndevs), AT(devs)}, {0, 4}));
#undef AT

#define AT(field) offsetof(ncclNetVDeviceProps_v12_t, field)
static_assert(sizeof(ncclNetVDeviceProps_v12_t) == 36);
static_assert(same({AT(ndevs), AT(devs)}, {0, 4}));
#undef AT

#define AT(field) offsetof(ncclNetCommConfig_t, field)
static_assert(sizeof(ncclNetCommConfig_t) == 4);
static_assert(same({AT(trafficClass)}, {0}));
#undef AT

#define AT(field) offsetof(ncclNetCommAttr_t, field)
static_assert(sizeof(ncclNetCommAttr_t) == 16);
static_assert(same({AT(maxConcurrentPeers), AT(minConcurrentPeers), AT(maxFlowsPerPeer),
                    AT(minFlowsPerPeer)},
                   {0, 4, 8, 12}));
#undef AT

#define AT(field) offsetof(ncclNetAttr_t, field)
static_assert(sizeof(ncclNetAttr_t) == 44);
static_assert(same({AT(sendCommAttr), AT(recvCommAttr), AT(op), AT(algo), AT(proto)},
                   {0, 16, 32, 36, 40}));
#undef AT

#define AT(field) offsetof(ncclNetProperties_v8_t, field)
static_assert(sizeof(ncclNetProperties_v8_t) == 64);
static_assert(same({AT(name), AT(pciPath), AT(guid), AT(ptrSupport), AT(regIsGlobal), AT(speed),
                    AT(port), AT(latency), AT(maxComms), AT(maxRecvs), AT(netDeviceType),
                    AT(netDeviceVersion)},
                   {0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56}));
#undef AT

#define AT(field) offsetof(ncclNetProperties_v9_t, field)
static_assert(sizeof(ncclNetProperties_v9_t) == 104);
static_assert(same({AT(name), AT(pciPath), AT(guid), AT(ptrSupport), AT(regIsGlobal),
                    AT(forceFlush), AT(speed), AT(port), AT(latency), AT(maxComms), AT(maxRecvs),
                    AT(netDeviceType), AT(netDeviceVersion), AT(vProps), AT(maxP2pBytes),
                    AT(maxCollBytes)},
                   {0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 88, 96}));
#undef AT

#define AT(field) offsetof(ncclNetProperties_v10_t, field)
static_assert(sizeof(ncclNetProperties_v10_t) == 104);
static_assert(same({AT(name), AT(pciPath), AT(guid), AT(ptrSupport), AT(regIsGlobal),
                    AT(forceFlush), AT(speed), AT(port), AT(latency), AT(maxComms), AT(maxRecvs),
                    AT(netDeviceType), AT(netDeviceVersion), AT(vProps), AT(maxP2pBytes),
                    AT(maxCollBytes)},
                   {0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 88, 96}));
#undef AT

#define AT(field) offsetof(ncclNetProperties_v11_t, field)
static_assert(sizeof(ncclNetProperties_v11_t) == 112);
static_assert(same({AT(name), AT(pciPath), AT(guid), AT(ptrSupport), AT(regIsGlobal),
                    AT(forceFlush), AT(speed), AT(port), AT(latency), AT(maxComms), AT(maxRecvs),
                    AT(netDeviceType), AT(netDeviceVersion), AT(vProps), AT(maxP2pBytes),
                    AT(maxCollBytes), AT(maxMultiRequestSize)},
                   {0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 88, 96, 104}));
#undef AT

#define AT(field) offsetof(ncclNetProperties_v12_t, field)
static_assert(sizeof(ncclNetProperties_v12_t) == 128);
static_assert(same({AT(name), AT(pciPath), AT(guid), AT(ptrSupport), AT(regIsGlobal),
                    AT(forceFlush), AT(speed), AT(port), AT(latency), AT(maxComms), AT(maxRecvs),
                    AT(netDeviceType), AT(netDeviceVersion), AT(vProps), AT(maxP2pBytes),
                    AT(maxCollBytes), AT(maxMultiRequestSize), AT(railId), AT(planeId)},
                   {0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 104, 112, 120, 124,
                    126}));
#undef AT

#define AT(field) offsetof(ncclNet_v8_t, field)
static_assert(isTable(sizeof(ncclNet_v8_t),
                      {AT(name), AT(init), AT(devices), AT(getProperties), AT(listen), AT(connect),
                       AT(accept), AT(regMr), AT(regMrDmaBuf), AT(deregMr), AT(isend), AT(irecv),
                       AT(iflush), AT(test), AT(closeSend), AT(closeRecv), AT(closeListen),
                       AT(getDeviceMr), AT(irecvConsumed)}));
#undef AT

#define AT(field) offsetof(ncclNet_v9_t, field)
static_assert(isTable(sizeof(ncclNet_v9_t),
                      {AT(name),        AT(init),        AT(devices),       AT(getProperties),
                       AT(listen),      AT(connect),     AT(accept),        AT(regMr),
                       AT(regMrDmaBuf), AT(deregMr),     AT(isend),         AT(irecv),
                       AT(iflush),      AT(test),        AT(closeSend),     AT(closeRecv),
                       AT(closeListen), AT(getDeviceMr), AT(irecvConsumed), AT(makeVDevice)}));
#undef AT

#define AT(field) offsetof(ncclNet_v10_t, field)
static_assert(isTable(sizeof(ncclNet_v10_t),
                      {AT(name),        AT(init),        AT(devices),       AT(getProperties),
                       AT(listen),      AT(connect),     AT(accept),        AT(regMr),
                       AT(regMrDmaBuf), AT(deregMr),     AT(isend),         AT(irecv),
                       AT(iflush),      AT(test),        AT(closeSend),     AT(closeRecv),
                       AT(closeListen), AT(getDeviceMr), AT(irecvConsumed), AT(makeVDevice)}));
#undef AT

#define AT(field) offsetof(ncclNet_v11_t, field)
static_assert(isTable(sizeof(ncclNet_v11_t),
                      {AT(name),        AT(init),        AT(devices),       AT(getProperties),
                       AT(listen),      AT(connect),     AT(accept),        AT(regMr),
                       AT(regMrDmaBuf), AT(deregMr),     AT(isend),         AT(irecv),
                       AT(iflush),      AT(test),        AT(closeSend),     AT(closeRecv),
                       AT(closeListen), AT(getDeviceMr), AT(irecvConsumed), AT(makeVDevice),
                       AT(finalize),    AT(setNetAttr)}));
#undef AT

#define AT(field) offsetof(ncclNet_v12_t, field)
static_assert(isTable(sizeof(ncclNet_v12_t),
                      {AT(name),        AT(init),        AT(devices),       AT(getProperties),
                       AT(listen),      AT(connect),     AT(accept),        AT(regMr),
                       AT(regMrDmaBuf), AT(deregMr),     AT(isend),         AT(irecv),
                       AT(iflush),      AT(test),        AT(closeSend),     AT(closeRecv),
                       AT(closeListen), AT(getDeviceMr), AT(irecvConsumed), AT(makeVDevice),
                       AT(finalize),    AT(setNetAttr)}));
#undef AT

}  // namespace
