// What libnccl-net-cinch.so exports: a table for each version, under the names that NCCL looks for.
// NCCL takes the newest that it knows.
#pragma once

#include "net_plugin/abi/net_v10.h"
#include "net_plugin/abi/net_v11.h"
#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/net_v8.h"
#include "net_plugin/abi/net_v9.h"

#define CINCH_NET_TABLE extern __attribute__((visibility("default"))) const

extern "C" {
CINCH_NET_TABLE ncclNet_v8_t ncclNetPlugin_v8;
CINCH_NET_TABLE ncclNet_v9_t ncclNetPlugin_v9;
CINCH_NET_TABLE ncclNet_v10_t ncclNetPlugin_v10;
CINCH_NET_TABLE ncclNet_v11_t ncclNetPlugin_v11;
CINCH_NET_TABLE ncclNet_v12_t ncclNetPlugin_v12;
}

#undef CINCH_NET_TABLE
