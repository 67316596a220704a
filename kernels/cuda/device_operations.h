// The part of the device table that is not a codec: memory, streams, events and capture state, as
// thin calls into this library's own static CUDA runtime. Contracts: kernels/device_table.h.
//
// That runtime shares the device's primary context with whichever runtime the program uses, so the
// program's streams, events and pointers are valid here; its "last error" is private, so nothing
// here can read or clear the program's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::cuda {

// Fails with the runtime's error where there is no driver, no device, or an older driver than this
// library needs. Makes no context.
int initialise();
const char* errorName(int error);

int getDevice(int* device);
int setDevice(int device);
int pciBusId(char* text, int size);
int deviceName(char* text, int size);
int nvlinks(int* nActive);

int allocate(void** memory_dev, size_t nBytes);
int release(void* memory_dev);
int memoryInfo(size_t* nFree, size_t* nTotal);
int allocateReturnable(void** memory_dev, size_t nBytes);
int giveBack(void* memory_dev, void* stream);
int allocateHost(void** memory, size_t nBytes);
int releaseHost(void* memory);
int copyAsync(void* to, const void* from, size_t nBytes, void* stream);
int clearAsync(void* memory_dev, size_t nBytes, void* stream);
int clearNow(void* memory_dev, size_t nBytes);
int copyNow(void* to, const void* from, size_t nBytes);

// An invalidated capture counts as one of its own: nothing may be enqueued on such a stream either.
int captureId(void* stream, uint64_t* id);
int streamSynchronize(void* stream);
int streamCreate(void** stream);
int streamDestroy(void* stream);
int exchangeCaptureMode(int* mode);

int eventCreate(void** event);
int timedEventCreate(void** event);
int eventDestroy(void* event);
int eventQuery(void* event);
int eventRecord(void* event, void* stream);
int eventElapsed(float* milliseconds, void* start, void* end);
int streamWaitEvent(void* stream, void* event);
int eventRecordInGraph(void* event, void* stream);
int streamWaitEventInGraph(void* stream, void* event);

}  // namespace cinch::cuda
