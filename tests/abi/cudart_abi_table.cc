// One set of headers as a table; CINCH_ABI_TABLE names the function that gives it.

#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <iterator>
#include <typeinfo>

#include "tests/abi/cudart_abi.h"

namespace {

// clang-format off
#define VALUE(name) {#name, static_cast<long>(name), ""},
#define SIZE(type) {"sizeof " #type, sizeof(type), ""},
#define FIELD(type, field) {#type "." #field, offsetof(type, field), ""},
#define FUNCTION(function) {#function, 0, typeid(decltype(&function)).name()},
#define CINCH_CUDA_ERROR(name, value, text) VALUE(name)
const CudartAbi::Row kRows[] = {
#include "emulator/include/cuda_errors.def"
    VALUE(cudaMemcpyHostToHost) VALUE(cudaMemcpyHostToDevice) VALUE(cudaMemcpyDeviceToHost)
    VALUE(cudaMemcpyDeviceToDevice) VALUE(cudaMemcpyDefault) VALUE(cudaMemoryTypeUnregistered)
    VALUE(cudaMemoryTypeHost) VALUE(cudaMemoryTypeDevice) VALUE(cudaMemoryTypeManaged)
    VALUE(cudaStreamCaptureStatusNone) VALUE(cudaStreamCaptureStatusActive)
    VALUE(cudaStreamCaptureStatusInvalidated) VALUE(cudaStreamCaptureModeGlobal)
    VALUE(cudaStreamCaptureModeThreadLocal) VALUE(cudaStreamCaptureModeRelaxed)
    VALUE(cudaDevAttrMaxThreadsPerBlock) VALUE(cudaDevAttrMaxBlockDimX)
    VALUE(cudaDevAttrMaxBlockDimY) VALUE(cudaDevAttrMaxBlockDimZ) VALUE(cudaDevAttrMaxGridDimX)
    VALUE(cudaDevAttrMaxGridDimY) VALUE(cudaDevAttrMaxGridDimZ)
    VALUE(cudaDevAttrMaxSharedMemoryPerBlock) VALUE(cudaDevAttrWarpSize)
    VALUE(cudaDevAttrMaxRegistersPerBlock) VALUE(cudaDevAttrMultiProcessorCount)
    VALUE(cudaDevAttrIntegrated) VALUE(cudaDevAttrCanMapHostMemory)
    VALUE(cudaDevAttrConcurrentKernels) VALUE(cudaDevAttrPciBusId) VALUE(cudaDevAttrPciDeviceId)
    VALUE(cudaDevAttrMaxThreadsPerMultiProcessor) VALUE(cudaDevAttrAsyncEngineCount)
    VALUE(cudaDevAttrUnifiedAddressing) VALUE(cudaDevAttrPciDomainId)
    VALUE(cudaDevAttrComputeCapabilityMajor) VALUE(cudaDevAttrComputeCapabilityMinor)
    VALUE(cudaDevAttrStreamPrioritiesSupported) VALUE(cudaDevAttrPageableMemoryAccess)
    VALUE(cudaDevAttrMaxSharedMemoryPerBlockOptin) VALUE(cudaDevAttrMemoryPoolsSupported)
    VALUE(cudaGraphNodeTypeMemcpy) VALUE(cudaGraphNodeTypeMemset) VALUE(cudaGraphNodeTypeHost)
    VALUE(cudaGraphNodeTypeGraph) VALUE(cudaGraphNodeTypeWaitEvent)
    VALUE(cudaGraphNodeTypeEventRecord) VALUE(cudaGraphInstantiateFlagAutoFreeOnLaunch)
    VALUE(cudaGraphInstantiateFlagUpload) VALUE(cudaGraphInstantiateFlagDeviceLaunch)
    VALUE(cudaGraphInstantiateFlagUseNodePriority) VALUE(cudaGraphExecUpdateSuccess)
    VALUE(cudaGraphExecUpdateError) VALUE(cudaGraphExecUpdateErrorTopologyChanged)
    VALUE(cudaGraphExecUpdateErrorNodeTypeChanged) VALUE(cudaUserObjectNoDestructorSync)
    VALUE(cudaGraphUserObjectMove)
    VALUE(cudaErrorApiFailureBase) VALUE(cudaHostAllocDefault) VALUE(cudaHostAllocPortable)
    VALUE(cudaHostAllocMapped) VALUE(cudaHostAllocWriteCombined) VALUE(cudaStreamDefault)
    VALUE(cudaStreamNonBlocking) VALUE(cudaEventDefault) VALUE(cudaEventBlockingSync)
    VALUE(cudaEventDisableTiming) VALUE(cudaEventInterprocess) VALUE(cudaEventRecordDefault)
    VALUE(cudaEventRecordExternal) VALUE(cudaEventWaitDefault) VALUE(cudaEventWaitExternal)
    VALUE(cudaGraphMemAttrUsedMemCurrent) VALUE(cudaGraphMemAttrUsedMemHigh)
    VALUE(cudaGraphMemAttrReservedMemCurrent) VALUE(cudaGraphMemAttrReservedMemHigh)
    VALUE(cudaMemPoolReuseFollowEventDependencies) VALUE(cudaMemPoolReuseAllowOpportunistic)
    VALUE(cudaMemPoolReuseAllowInternalDependencies) VALUE(cudaMemPoolAttrReleaseThreshold)
    VALUE(cudaMemPoolAttrReservedMemCurrent) VALUE(cudaMemPoolAttrReservedMemHigh)
    VALUE(cudaMemPoolAttrUsedMemCurrent) VALUE(cudaMemPoolAttrUsedMemHigh)
    VALUE(cudaMemLocationTypeInvalid) VALUE(cudaMemLocationTypeDevice)
    VALUE(cudaMemAccessFlagsProtNone) VALUE(cudaMemAccessFlagsProtRead)
    VALUE(cudaMemAccessFlagsProtReadWrite) VALUE(cudaFuncAttributeMaxDynamicSharedMemorySize)
    VALUE(cudaFuncAttributePreferredSharedMemoryCarveout)
    VALUE(cudaFuncAttributeClusterDimMustBeSet) VALUE(cudaFuncAttributeRequiredClusterWidth)
    VALUE(cudaFuncAttributeRequiredClusterHeight) VALUE(cudaFuncAttributeRequiredClusterDepth)
    VALUE(cudaFuncAttributeNonPortableClusterSizeAllowed)
    VALUE(cudaFuncAttributeClusterSchedulingPolicyPreference) VALUE(cudaFuncAttributeMax)
    VALUE(cudaDriverEntryPointSuccess) VALUE(cudaDriverEntryPointSymbolNotFound)
    VALUE(cudaDriverEntryPointVersionNotSufficent) VALUE(cudaJitMaxRegisters)
    VALUE(cudaLibraryHostUniversalFunctionAndDataTable) VALUE(cudaHostRegisterDefault)
    VALUE(cudaHostRegisterPortable) VALUE(cudaHostRegisterMapped) VALUE(cudaHostRegisterIoMemory)
    VALUE(cudaHostRegisterReadOnly) VALUE(cudaMemAttachGlobal) VALUE(cudaMemAttachHost)
    VALUE(cudaCpuDeviceId) VALUE(cudaInvalidDeviceId) VALUE(cudaOccupancyDefault)
    VALUE(cudaOccupancyDisableCachingOverride) VALUE(cudaIpcMemLazyEnablePeerAccess)
    VALUE(CUDA_IPC_HANDLE_SIZE) SIZE(cudaMemLocation) FIELD(cudaMemLocation, type)
    FIELD(cudaMemLocation, id) SIZE(cudaMemAccessDesc) FIELD(cudaMemAccessDesc, location)
    FIELD(cudaMemAccessDesc, flags) SIZE(cudaFuncAttributes)
    FIELD(cudaFuncAttributes, sharedSizeBytes) FIELD(cudaFuncAttributes, constSizeBytes)
    FIELD(cudaFuncAttributes, localSizeBytes) FIELD(cudaFuncAttributes, maxThreadsPerBlock)
    FIELD(cudaFuncAttributes, numRegs) FIELD(cudaFuncAttributes, ptxVersion)
    FIELD(cudaFuncAttributes, binaryVersion) FIELD(cudaFuncAttributes, cacheModeCA)
    FIELD(cudaFuncAttributes, maxDynamicSharedSizeBytes)
    FIELD(cudaFuncAttributes, preferredShmemCarveout) FIELD(cudaFuncAttributes, clusterDimMustBeSet)
    FIELD(cudaFuncAttributes, requiredClusterWidth) FIELD(cudaFuncAttributes, requiredClusterHeight)
    FIELD(cudaFuncAttributes, requiredClusterDepth)
    FIELD(cudaFuncAttributes, clusterSchedulingPolicyPreference)
    FIELD(cudaFuncAttributes, nonPortableClusterSizeAllowed) SIZE(cudaIpcMemHandle_t)
    SIZE(cudaIpcEventHandle_t) SIZE(cudaGraphConditionalHandle)
    {"cudaStreamLegacy", reinterpret_cast<long>(cudaStreamLegacy), ""},
    {"cudaStreamPerThread", reinterpret_cast<long>(cudaStreamPerThread), ""},
    SIZE(cudaGraphEdgeData) FIELD(cudaGraphEdgeData, from_port) FIELD(cudaGraphEdgeData, to_port)
    FIELD(cudaGraphEdgeData, type) FIELD(cudaGraphEdgeData, reserved)
    SIZE(cudaGraphExecUpdateResultInfo) FIELD(cudaGraphExecUpdateResultInfo, result)
    FIELD(cudaGraphExecUpdateResultInfo, errorNode)
    FIELD(cudaGraphExecUpdateResultInfo, errorFromNode)
    SIZE(cudaError_t) SIZE(dim3) SIZE(uint3) SIZE(cudaPointerAttributes) SIZE(cudaDeviceProp)
    FIELD(cudaPointerAttributes, type) FIELD(cudaPointerAttributes, device)
    FIELD(cudaPointerAttributes, devicePointer) FIELD(cudaPointerAttributes, hostPointer)
    FIELD(cudaPointerAttributes, reserved) FIELD(cudaDeviceProp, name) FIELD(cudaDeviceProp, uuid)
    FIELD(cudaDeviceProp, luid) FIELD(cudaDeviceProp, luidDeviceNodeMask)
    FIELD(cudaDeviceProp, totalGlobalMem) FIELD(cudaDeviceProp, sharedMemPerBlock)
    FIELD(cudaDeviceProp, regsPerBlock) FIELD(cudaDeviceProp, warpSize)
    FIELD(cudaDeviceProp, memPitch) FIELD(cudaDeviceProp, maxThreadsPerBlock)
    FIELD(cudaDeviceProp, maxThreadsDim) FIELD(cudaDeviceProp, maxGridSize)
    FIELD(cudaDeviceProp, totalConstMem) FIELD(cudaDeviceProp, major) FIELD(cudaDeviceProp, minor)
    FIELD(cudaDeviceProp, textureAlignment) FIELD(cudaDeviceProp, texturePitchAlignment)
    FIELD(cudaDeviceProp, multiProcessorCount) FIELD(cudaDeviceProp, integrated)
    FIELD(cudaDeviceProp, canMapHostMemory) FIELD(cudaDeviceProp, maxTexture1D)
    FIELD(cudaDeviceProp, maxTexture1DMipmap) FIELD(cudaDeviceProp, maxTexture2D)
    FIELD(cudaDeviceProp, maxTexture2DMipmap) FIELD(cudaDeviceProp, maxTexture2DLinear)
    FIELD(cudaDeviceProp, maxTexture2DGather) FIELD(cudaDeviceProp, maxTexture3D)
    FIELD(cudaDeviceProp, maxTexture3DAlt) FIELD(cudaDeviceProp, maxTextureCubemap)
    FIELD(cudaDeviceProp, maxTexture1DLayered) FIELD(cudaDeviceProp, maxTexture2DLayered)
    FIELD(cudaDeviceProp, maxTextureCubemapLayered) FIELD(cudaDeviceProp, maxSurface1D)
    FIELD(cudaDeviceProp, maxSurface2D) FIELD(cudaDeviceProp, maxSurface3D)
    FIELD(cudaDeviceProp, maxSurface1DLayered) FIELD(cudaDeviceProp, maxSurface2DLayered)
    FIELD(cudaDeviceProp, maxSurfaceCubemap) FIELD(cudaDeviceProp, maxSurfaceCubemapLayered)
    FIELD(cudaDeviceProp, surfaceAlignment) FIELD(cudaDeviceProp, concurrentKernels)
    FIELD(cudaDeviceProp, ECCEnabled) FIELD(cudaDeviceProp, pciBusID)
    FIELD(cudaDeviceProp, pciDeviceID) FIELD(cudaDeviceProp, pciDomainID)
    FIELD(cudaDeviceProp, tccDriver) FIELD(cudaDeviceProp, asyncEngineCount)
    FIELD(cudaDeviceProp, unifiedAddressing) FIELD(cudaDeviceProp, memoryBusWidth)
    FIELD(cudaDeviceProp, l2CacheSize) FIELD(cudaDeviceProp, persistingL2CacheMaxSize)
    FIELD(cudaDeviceProp, maxThreadsPerMultiProcessor)
    FIELD(cudaDeviceProp, streamPrioritiesSupported) FIELD(cudaDeviceProp, globalL1CacheSupported)
    FIELD(cudaDeviceProp, localL1CacheSupported) FIELD(cudaDeviceProp, sharedMemPerMultiprocessor)
    FIELD(cudaDeviceProp, regsPerMultiprocessor) FIELD(cudaDeviceProp, managedMemory)
    FIELD(cudaDeviceProp, isMultiGpuBoard) FIELD(cudaDeviceProp, multiGpuBoardGroupID)
    FIELD(cudaDeviceProp, hostNativeAtomicSupported) FIELD(cudaDeviceProp, pageableMemoryAccess)
    FIELD(cudaDeviceProp, concurrentManagedAccess) FIELD(cudaDeviceProp, computePreemptionSupported)
    FIELD(cudaDeviceProp, canUseHostPointerForRegisteredMem)
    FIELD(cudaDeviceProp, cooperativeLaunch) FIELD(cudaDeviceProp, sharedMemPerBlockOptin)
    FIELD(cudaDeviceProp, pageableMemoryAccessUsesHostPageTables)
    FIELD(cudaDeviceProp, directManagedMemAccessFromHost)
    FIELD(cudaDeviceProp, maxBlocksPerMultiProcessor)
    FIELD(cudaDeviceProp, accessPolicyMaxWindowSize)
    FIELD(cudaDeviceProp, reservedSharedMemPerBlock) FIELD(cudaDeviceProp, hostRegisterSupported)
    FIELD(cudaDeviceProp, sparseCudaArraySupported)
    FIELD(cudaDeviceProp, hostRegisterReadOnlySupported)
    FIELD(cudaDeviceProp, timelineSemaphoreInteropSupported)
    FIELD(cudaDeviceProp, memoryPoolsSupported) FIELD(cudaDeviceProp, gpuDirectRDMASupported)
    FIELD(cudaDeviceProp, gpuDirectRDMAFlushWritesOptions)
    FIELD(cudaDeviceProp, gpuDirectRDMAWritesOrdering)
    FIELD(cudaDeviceProp, memoryPoolSupportedHandleTypes)
    FIELD(cudaDeviceProp, deferredMappingCudaArraySupported)
    FIELD(cudaDeviceProp, ipcEventSupported) FIELD(cudaDeviceProp, clusterLaunch)
    FIELD(cudaDeviceProp, unifiedFunctionPointers) FIELD(cudaDeviceProp, deviceNumaConfig)
    FIELD(cudaDeviceProp, deviceNumaId) FIELD(cudaDeviceProp, mpsEnabled)
    FIELD(cudaDeviceProp, hostNumaId) FIELD(cudaDeviceProp, gpuPciDeviceID)
    FIELD(cudaDeviceProp, gpuPciSubsystemID) FIELD(cudaDeviceProp, hostNumaMultinodeIpcSupported)
    FIELD(cudaDeviceProp, reserved)
    FUNCTION(cudaGetLastError) FUNCTION(cudaPeekAtLastError) FUNCTION(cudaGetErrorName)
    FUNCTION(cudaGetErrorString) FUNCTION(cudaRuntimeGetVersion) FUNCTION(cudaDriverGetVersion)
    FUNCTION(cudaGetDeviceCount) FUNCTION(cudaGetDevice) FUNCTION(cudaSetDevice)
    FUNCTION(cudaGetDeviceProperties) FUNCTION(cudaDeviceGetAttribute)
    FUNCTION(cudaDeviceGetPCIBusId) FUNCTION(cudaDeviceGetStreamPriorityRange)
    FUNCTION(cudaDeviceSynchronize) FUNCTION(cudaDeviceReset) FUNCTION(cudaMalloc)
    FUNCTION(cudaFree) FUNCTION(cudaMallocHost) FUNCTION(cudaHostAlloc) FUNCTION(cudaFreeHost)
    FUNCTION(cudaHostGetDevicePointer) FUNCTION(cudaMallocAsync) FUNCTION(cudaFreeAsync)
    FUNCTION(cudaMemcpy) FUNCTION(cudaMemcpyAsync) FUNCTION(cudaMemset) FUNCTION(cudaMemsetAsync)
    FUNCTION(cudaMemGetInfo) FUNCTION(cudaPointerGetAttributes) FUNCTION(cudaStreamCreate)
    FUNCTION(cudaStreamCreateWithFlags) FUNCTION(cudaStreamCreateWithPriority)
    FUNCTION(cudaStreamDestroy) FUNCTION(cudaStreamGetFlags) FUNCTION(cudaStreamGetPriority)
    FUNCTION(cudaStreamSynchronize) FUNCTION(cudaStreamQuery) FUNCTION(cudaStreamWaitEvent)
    FUNCTION(cudaLaunchHostFunc) FUNCTION(cudaStreamAddCallback) FUNCTION(cudaStreamBeginCapture)
    FUNCTION(cudaStreamEndCapture) FUNCTION(cudaStreamIsCapturing)
    FUNCTION(cudaStreamGetCaptureInfo) FUNCTION(cudaThreadExchangeStreamCaptureMode)
    FUNCTION(cudaGraphInstantiate) FUNCTION(cudaGraphInstantiateWithFlags)
    FUNCTION(cudaGraphExecUpdate) FUNCTION(cudaGraphUpload) FUNCTION(cudaGraphLaunch)
    FUNCTION(cudaGraphExecDestroy) FUNCTION(cudaGraphDestroy) FUNCTION(cudaGraphGetNodes)
    FUNCTION(cudaGraphNodeGetType) FUNCTION(cudaGraphRetainUserObject)
    FUNCTION(cudaGraphReleaseUserObject) FUNCTION(cudaUserObjectCreate)
    FUNCTION(cudaUserObjectRetain) FUNCTION(cudaUserObjectRelease)
    FUNCTION(cudaEventCreate) FUNCTION(cudaEventCreateWithFlags) FUNCTION(cudaEventDestroy)
    FUNCTION(cudaEventRecord) FUNCTION(cudaEventRecordWithFlags) FUNCTION(cudaEventSynchronize)
    FUNCTION(cudaEventQuery) FUNCTION(cudaEventElapsedTime) FUNCTION(cudaLaunchKernel)
    FUNCTION(cudaLaunchKernelExC)
    FUNCTION(cudaDeviceCanAccessPeer) FUNCTION(cudaDeviceEnablePeerAccess)
    FUNCTION(cudaDeviceGetDefaultMemPool) FUNCTION(cudaDeviceGetGraphMemAttribute)
    FUNCTION(cudaDeviceSetGraphMemAttribute) FUNCTION(cudaFuncGetAttributes)
    FUNCTION(cudaFuncSetAttribute) FUNCTION(cudaGetDriverEntryPointByVersion)
    FUNCTION(cudaGetSymbolAddress) FUNCTION(cudaGraphAddNode)
    FUNCTION(cudaGraphConditionalHandleCreate) FUNCTION(cudaGraphNodeGetDependencies)
    FUNCTION(cudaHostRegister) FUNCTION(cudaHostUnregister) FUNCTION(cudaIpcCloseMemHandle)
    FUNCTION(cudaIpcGetEventHandle) FUNCTION(cudaIpcGetMemHandle) FUNCTION(cudaIpcOpenEventHandle)
    FUNCTION(cudaIpcOpenMemHandle) FUNCTION(cudaKernelSetAttributeForDevice)
    FUNCTION(cudaLaunchCooperativeKernel) FUNCTION(cudaLibraryGetGlobal)
    FUNCTION(cudaLibraryGetKernel) FUNCTION(cudaLibraryGetKernelCount)
    FUNCTION(cudaLibraryGetManaged) FUNCTION(cudaLibraryGetUnifiedFunction)
    FUNCTION(cudaLibraryLoadData) FUNCTION(cudaLibraryLoadFromFile) FUNCTION(cudaLibraryUnload)
    FUNCTION(cudaMallocManaged) FUNCTION(cudaMemPoolGetAttribute) FUNCTION(cudaMemPoolSetAccess)
    FUNCTION(cudaMemPoolSetAttribute) FUNCTION(cudaMemPoolTrimTo) FUNCTION(cudaMemcpy2DAsync)
    FUNCTION(cudaMemcpyPeerAsync) FUNCTION(cudaMemcpyToSymbol)
    FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
    FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) FUNCTION(cudaProfilerStart)
    FUNCTION(cudaProfilerStop) FUNCTION(cudaStreamBeginCaptureToGraph)
    FUNCTION(cudaStreamUpdateCaptureDependencies) FUNCTION(cudaStreamGetDevice)
    // The driver: of these functions, the names that the library exports.
    VALUE(CUDA_SUCCESS) VALUE(CUDA_ERROR_INVALID_VALUE) VALUE(CUDA_ERROR_OUT_OF_MEMORY)
    VALUE(CUDA_ERROR_NOT_INITIALIZED) VALUE(CUDA_ERROR_NO_DEVICE) VALUE(CUDA_ERROR_INVALID_DEVICE)
    VALUE(CUDA_ERROR_INVALID_CONTEXT) VALUE(CUDA_ERROR_INVALID_HANDLE) VALUE(CUDA_ERROR_NOT_FOUND)
    VALUE(CUDA_ERROR_NOT_PERMITTED) VALUE(CUDA_ERROR_NOT_SUPPORTED) VALUE(CUDA_ERROR_UNKNOWN)
    VALUE(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    VALUE(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    VALUE(CU_DEVICE_ATTRIBUTE_MAX) VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    VALUE(CU_MEMORYTYPE_HOST)
    VALUE(CU_MEMORYTYPE_DEVICE) VALUE(CU_POINTER_ATTRIBUTE_CONTEXT)
    VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) VALUE(CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    VALUE(CU_POINTER_ATTRIBUTE_HOST_POINTER) VALUE(CU_POINTER_ATTRIBUTE_BUFFER_ID)
    VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED) VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    VALUE(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
    VALUE(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    VALUE(CU_POINTER_ATTRIBUTE_MAPPED) SIZE(CUdevice) SIZE(CUdeviceptr) SIZE(CUcontext)
    FUNCTION(cuInit) FUNCTION(cuDriverGetVersion) FUNCTION(cuGetErrorString) FUNCTION(cuDeviceGet)
    FUNCTION(cuDeviceGetCount) FUNCTION(cuDeviceGetAttribute) FUNCTION(cuDevicePrimaryCtxGetState)
    FUNCTION(cuDevicePrimaryCtxRetain) FUNCTION(cuCtxGetCurrent) FUNCTION(cuCtxSetCurrent)
    FUNCTION(cuCtxPushCurrent_v2) FUNCTION(cuCtxPopCurrent_v2) FUNCTION(cuPointerGetAttribute)
    FUNCTION(cuMemGetAddressRange_v2)
};
#undef CINCH_CUDA_ERROR
#undef FUNCTION
#undef FIELD
#undef SIZE
#undef VALUE
// clang-format on

void addOne(void* value) {
  ++*static_cast<int*>(value);
}

// The struct that the library fills in must be as large as the one that these headers declare.
std::string describeDevice() {
  struct {
    cudaDeviceProp properties;
    unsigned char guard[64];
  } device;
  std::memset(&device, 0x5a, sizeof device);
  if (cudaGetDeviceProperties(&device.properties, 0) != cudaSuccess) return "no properties";
  for (const unsigned char byte : device.guard)
    if (byte != 0x5a) return "cudaDeviceProp is larger in the library";
  if (device.properties.hostNumaMultinodeIpcSupported != 0 || device.properties.reserved[55] != 0)
    return "cudaDeviceProp is smaller in the library";
  return std::strstr(device.properties.name, "emulator") == nullptr ? "another device" : "";
}

std::string useStream() {
  int value = 41, back = 0;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  const bool done = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                    cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess &&
                    cudaMalloc(&memory, sizeof value) == cudaSuccess &&
                    cudaLaunchHostFunc(stream, addOne, &value) == cudaSuccess &&
                    cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream) ==
                        cudaSuccess &&
                    cudaEventRecord(event, stream) == cudaSuccess &&
                    cudaEventSynchronize(event) == cudaSuccess &&
                    cudaMemcpy(&back, memory, sizeof back, cudaMemcpyDeviceToHost) == cudaSuccess &&
                    cudaFree(memory) == cudaSuccess && cudaEventDestroy(event) == cudaSuccess &&
                    cudaStreamDestroy(stream) == cudaSuccess;
  return done && back == 42 ? "" : cudaGetErrorName(cudaGetLastError());
}

// A graph of one host function, launched twice.
std::string replayGraph() {
  int value = 40;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const bool done =
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess &&
      cudaLaunchHostFunc(stream, addOne, &value) == cudaSuccess &&
      cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
      cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess &&
      cudaGraphLaunch(executable, stream) == cudaSuccess &&
      cudaGraphLaunch(executable, stream) == cudaSuccess &&
      cudaStreamSynchronize(stream) == cudaSuccess &&
      cudaGraphExecDestroy(executable) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess &&
      cudaStreamDestroy(stream) == cudaSuccess;
  return done && value == 42 ? "" : cudaGetErrorName(cudaGetLastError());
}

std::string launchKernel() {
  const cudaError_t error = cudaLaunchKernel(nullptr, dim3(1, 2, 3), dim3(4), nullptr, 0, nullptr);
  return error == cudaErrorNotSupported ? "" : cudaGetErrorName(error);
}

std::string run() {
  for (const auto part : {describeDevice, useStream, replayGraph, launchKernel})
    if (const std::string failure = part(); !failure.empty()) return failure;
  return "";
}

}  // namespace

const CudartAbi& CINCH_ABI_TABLE() {
  static const CudartAbi abi{kRows, std::size(kRows), CUDART_VERSION, run};
  return abi;
}
