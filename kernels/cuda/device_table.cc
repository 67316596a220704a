// The one symbol that libcinch-codec-cuda.so exports.
#include "kernels/device_table.h"

#include "kernels/cuda/device_operations.h"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/launch.h"
#include "kernels/cuda/profiler_range.h"

extern "C" [[gnu::visibility("default")]] const cinch::DeviceTable cinchDeviceTable_v1 = {
    .version = cinch::kDeviceTableVersion,
    .size = sizeof(cinch::DeviceTable),
    .name = "cuda " CINCH_CUDA_VERSION,
    .chunkValues = 8 << 20,
    .initialise = cinch::cuda::initialise,
    .errorName = cinch::cuda::errorName,
    .getDevice = cinch::cuda::getDevice,
    .setDevice = cinch::cuda::setDevice,
    .pciBusId = cinch::cuda::pciBusId,
    .deviceName = cinch::cuda::deviceName,
    .loadKernels = cinch::cuda::loadKernels,
    .nvlinks = cinch::cuda::nvlinks,
    .allocate = cinch::cuda::allocate,
    .release = cinch::cuda::release,
    .allocateHost = cinch::cuda::allocateHost,
    .releaseHost = cinch::cuda::releaseHost,
    .copyAsync = cinch::cuda::copyAsync,
    .clearAsync = cinch::cuda::clearAsync,
    .clearNow = cinch::cuda::clearNow,
    .copyNow = cinch::cuda::copyNow,
    .captureId = cinch::cuda::captureId,
    .streamSynchronize = cinch::cuda::streamSynchronize,
    .streamCreate = cinch::cuda::streamCreate,
    .streamDestroy = cinch::cuda::streamDestroy,
    .exchangeCaptureMode = cinch::cuda::exchangeCaptureMode,
    .eventCreate = cinch::cuda::eventCreate,
    .timedEventCreate = cinch::cuda::timedEventCreate,
    .eventDestroy = cinch::cuda::eventDestroy,
    .eventQuery = cinch::cuda::eventQuery,
    .eventRecord = cinch::cuda::eventRecord,
    .eventElapsed = cinch::cuda::eventElapsed,
    .streamWaitEvent = cinch::cuda::streamWaitEvent,
    .eventRecordInGraph = cinch::cuda::eventRecordInGraph,
    .streamWaitEventInGraph = cinch::cuda::streamWaitEventInGraph,
    .rangePush = cinch::cuda::rangePush,
    .rangePop = cinch::cuda::rangePop,
    .encode = cinch::cuda::launchEncode,
    .reduce = cinch::cuda::launchReduce,
    .decode = cinch::cuda::launchDecode,
    .probe = cinch::cuda::launchProbe,
    .tally = cinch::cuda::launchTally,
    .sum = cinch::cuda::launchSum,
};
