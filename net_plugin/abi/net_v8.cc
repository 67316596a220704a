// Version 8: NCCL 2.20 and later. Sizes are int.
#include "net_plugin/abi/adapter.h"
#include "net_plugin/abi/tables.h"

using namespace cinch::net::abi;

const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = kPluginName,
    .init = initPlugin,
    .devices = countDevices,
    .getProperties = getProperties<ncclNetProperties_v8_t>,
    .listen = listenOn,
    .connect = connectFrom,
    .accept = acceptFrom,
    .regMr = registerMemory,
    .regMrDmaBuf = registerDmabuf,
    .deregMr = deregisterMemory,
    .isend = sendV8,
    .irecv = receiveV8,
    .iflush = flushReceived,
    .test = testRequest,
    .closeSend = closeConnection,
    .closeRecv = closeConnection,
    .closeListen = closeListener,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};
