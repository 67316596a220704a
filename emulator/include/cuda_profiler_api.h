/* The start and end of what a profiler should look at; of no effect here. */
#ifndef CINCH_EMULATOR_CUDA_PROFILER_API_H_
#define CINCH_EMULATOR_CUDA_PROFILER_API_H_

#include "driver_types.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
#pragma GCC visibility pop

#endif /* CINCH_EMULATOR_CUDA_PROFILER_API_H_ */
