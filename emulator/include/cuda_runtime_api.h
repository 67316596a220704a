/* The part of the CUDA 13 runtime API that the emulator implements, for machines without a toolkit.
 * Values and layouts are those of the real headers (tests/abi compares them), so that a program may
 * be compiled with either and run on either library. Plain C and C++. What the emulator does where
 * it differs from a GPU is in emulator/cudart/README.md. */
#ifndef CINCH_EMULATOR_CUDA_RUNTIME_API_H_
#define CINCH_EMULATOR_CUDA_RUNTIME_API_H_

#include <stddef.h>

#include "driver_types.h"

#define CUDART_VERSION 13000
#define CUDARTAPI
#define CUDART_CB

#ifdef __cplusplus
#define CINCH_CUDART_DEFAULT(value) = value
#else
#define CINCH_CUDART_DEFAULT(value)
#endif

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* Errors and versions */
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned int version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult* status CINCH_CUDART_DEFAULT(0));

/* Devices */
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceCanAccessPeer(int* canAccess, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags);

/* Memory */
cudaError_t cudaMalloc(void** memory, size_t nBytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t nBytes);
cudaError_t cudaHostAlloc(void** memory, size_t nBytes, unsigned int flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaHostRegister(void* memory, size_t nBytes, unsigned int flags);
cudaError_t cudaHostUnregister(void* memory);
cudaError_t cudaMallocManaged(void** memory, size_t nBytes,
                              unsigned int flags CINCH_CUDART_DEFAULT(cudaMemAttachGlobal));
cudaError_t cudaHostGetDevicePointer(void** devicePointer, void* hostPointer, unsigned int flags);
cudaError_t cudaMallocAsync(void** memory, size_t nBytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaMemcpy(void* to, const void* from, size_t nBytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t nBytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream CINCH_CUDART_DEFAULT(0));
cudaError_t cudaMemcpy2DAsync(void* to, size_t toPitch, const void* from, size_t fromPitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream CINCH_CUDART_DEFAULT(0));
cudaError_t cudaMemcpyPeerAsync(void* to, int toDevice, const void* from, int fromDevice,
                                size_t nBytes, cudaStream_t stream CINCH_CUDART_DEFAULT(0));
cudaError_t cudaMemset(void* memory, int value, size_t nBytes);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t nBytes,
                            cudaStream_t stream CINCH_CUDART_DEFAULT(0));
cudaError_t cudaMemGetInfo(size_t* nFree, size_t* nTotal);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* pointer);

/* The pool of a device that cudaMallocAsync takes memory from */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void* value);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void* value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc* accesses,
                                 size_t nAccesses);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t nBytesToKeep);
cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void* value);
cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void* value);

/* Sharing memory and events with other processes: cudaErrorNotSupported */
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory);
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned int flags);
cudaError_t cudaIpcCloseMemHandle(void* memory);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle);

/* Streams */
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* userData);
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* userData, unsigned int flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status,
                                     unsigned long long* id CINCH_CUDART_DEFAULT(0),
                                     cudaGraph_t* graph CINCH_CUDART_DEFAULT(0),
                                     const cudaGraphNode_t** nodes CINCH_CUDART_DEFAULT(0),
                                     const cudaGraphEdgeData** edges CINCH_CUDART_DEFAULT(0),
                                     size_t* nNodes CINCH_CUDART_DEFAULT(0));
/* Not supported: a capture always makes a graph of its own, in the order of the calls. */
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* nodes,
                                          const cudaGraphEdgeData* edges, size_t nNodes,
                                          enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* edges, size_t nNodes,
                                                unsigned int flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode);

/* Graphs */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result);
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* nNodes);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType* type);
/* The next three are not supported: graphs come from captures alone. */
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData* edges, size_t nAfter,
                             struct cudaGraphNodeParams* parameters);
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned int value CINCH_CUDART_DEFAULT(0),
                                             unsigned int flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* edges, size_t* nNodes);
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count CINCH_CUDART_DEFAULT(1),
                                      unsigned int flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count CINCH_CUDART_DEFAULT(1));
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int flags);
cudaError_t cudaUserObjectRetain(cudaUserObject_t object,
                                 unsigned int count CINCH_CUDART_DEFAULT(1));
cudaError_t cudaUserObjectRelease(cudaUserObject_t object,
                                  unsigned int count CINCH_CUDART_DEFAULT(1));

/* Events */
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream CINCH_CUDART_DEFAULT(0));
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream CINCH_CUDART_DEFAULT(0),
                                     unsigned int flags CINCH_CUDART_DEFAULT(0));
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Kernels: there are none on a CPU, so every launch is cudaErrorNotSupported. What asks about a
 * kernel gets the figures of a small one. */
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t sharedBytes, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments);
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t sharedBytes, cudaStream_t stream);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function);
cudaError_t cudaFuncSetAttribute(const void* function, enum cudaFuncAttribute attribute, int value);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* nBlocks, const void* function,
                                                          int blockSize, size_t sharedBytes);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* nBlocks, const void* function, int blockSize, size_t sharedBytes, unsigned int flags);

/* Code that is loaded at run time, not supported, and variables of device code, which are no valid
 * symbols here. */
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                enum cudaJitOption* jitOptions, void** jitValues,
                                unsigned int nJitOptions, enum cudaLibraryOption* options,
                                void** values, unsigned int nOptions);
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName,
                                    enum cudaJitOption* jitOptions, void** jitValues,
                                    unsigned int nJitOptions, enum cudaLibraryOption* options,
                                    void** values, unsigned int nOptions);
cudaError_t cudaLibraryUnload(cudaLibrary_t library);
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name);
cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library);
cudaError_t cudaLibraryGetGlobal(void** memory, size_t* nBytes, cudaLibrary_t library,
                                 const char* name);
cudaError_t cudaLibraryGetManaged(void** memory, size_t* nBytes, cudaLibrary_t library,
                                  const char* name);
cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library,
                                          const char* symbol);
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute,
                                            int value, int device);
cudaError_t cudaGetSymbolAddress(void** memory, const void* symbol);
cudaError_t cudaMemcpyToSymbol(
    const void* symbol, const void* from, size_t nBytes, size_t offset CINCH_CUDART_DEFAULT(0),
    enum cudaMemcpyKind kind CINCH_CUDART_DEFAULT(cudaMemcpyHostToDevice));

#ifdef __cplusplus
} /* extern "C" */
#endif
#pragma GCC visibility pop

#endif /* CINCH_EMULATOR_CUDA_RUNTIME_API_H_ */
