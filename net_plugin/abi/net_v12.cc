// Version 12: NCCL 2.30 and later.
#include "net_plugin/abi/adapter.h"
#include "net_plugin/abi/tables.h"

using namespace cinch::net::abi;

const ncclNet_v12_t ncclNetPlugin_v12 = {
    .name = kPluginName,
    .init = initCommunicatorV11,
    .devices = countDevices,
    .getProperties = getProperties<ncclNetProperties_v12_t>,
    .listen = listenOnV11,
    .connect = connectFromV11,
    .accept = acceptFrom,
    .regMr = registerMemory,
    .regMrDmaBuf = registerDmabuf,
    .deregMr = deregisterMemory,
    .isend = sendV10,
    .irecv = receiveV10,
    .iflush = flushReceived,
    .test = testRequest,
    .closeSend = closeConnection,
    .closeRecv = closeConnection,
    .closeListen = closeListener,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = finalizeCommunicatorV11,
    .setNetAttr = ignoreAttributesV11,
};
