/* What all versions of NCCL's tuner table share, as facts of its ABI (NCCL 2.21 to 2.30; read in
 * 2.30.7). Plain C: declared here so that Cinch builds where NCCL's sources are not.
 */
#ifndef CINCH_TUNER_PLUGIN_ABI_TUNER_COMMON_H_
#define CINCH_TUNER_PLUGIN_ABI_TUNER_COMMON_H_

#include <stddef.h>
#include <stdint.h>

#include "common/nccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a tuner is asked about; numbers beyond are never asked for. */
typedef enum {
  ncclFuncBroadcast = 0,
  ncclFuncReduce = 1,
  ncclFuncAllGather = 2,
  ncclFuncReduceScatter = 3,
  ncclFuncAllReduce = 4
} ncclFunc_t;

/* Where the bytes of a plugin's log lines go: NCCL's own log. */
typedef enum {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2,
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5
} ncclDebugLogLevel;
enum { NCCL_LOG_INIT = 0x1, NCCL_LOG_TUNING = 0x40 };
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char* file,
                                  int line, const char* format, ...);

/* An entry of the cost table that NCCL cannot or must not use. */
#define NCCL_ALGO_PROTO_IGNORE -1.0f

#ifdef __cplusplus
}
#endif

#endif
