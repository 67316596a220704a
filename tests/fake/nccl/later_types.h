// Types of NCCL's later releases that common/nccl_types.h does not need: the fake hands them on
// unread.
#pragma once

#include "common/nccl_types.h"

typedef struct ncclEncryptionConfig_v23200 ncclEncryptionConfig_t;
typedef struct ncclWaitSignalDesc ncclWaitSignalDesc_t;
struct ncclParamHandle;
typedef int ncclCommMemStat_t;
