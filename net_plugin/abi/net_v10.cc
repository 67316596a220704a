// Version 10: NCCL 2.26 and later. connect() is told the communicator's configuration.
#include "net_plugin/abi/adapter.h"
#include "net_plugin/abi/tables.h"

using namespace cinch::net::abi;

const ncclNet_v10_t ncclNetPlugin_v10 = {
    .name = kPluginName,
    .init = initPluginV10,
    .devices = countDevices,
    .getProperties = getProperties<ncclNetProperties_v10_t>,
    .listen = listenOn,
    .connect = connectFromV10,
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
};
