// Version 9: NCCL 2.24 and later.
#include "net_plugin/abi/adapter.h"
#include "net_plugin/abi/tables.h"

using namespace cinch::net::abi;

const ncclNet_v9_t ncclNetPlugin_v9 = {
    .name = kPluginName,
    .init = initPlugin,
    .devices = countDevices,
    .getProperties = getProperties<ncclNetProperties_v9_t>,
    .listen = listenOn,
    .connect = connectFrom,
    .accept = acceptFrom,
    .regMr = registerMemory,
    .regMrDmaBuf = registerDmabuf,
    .deregMr = deregisterMemory,
    .isend = sendV9,
    .irecv = receiveV9,
    .iflush = flushReceived,
    .test = testRequest,
    .closeSend = closeConnection,
    .closeRecv = closeConnection,
    .closeListen = closeListener,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
};
