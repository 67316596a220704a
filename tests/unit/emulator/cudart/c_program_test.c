/* A plain C program on the emulator: the headers are C, and the library needs no C++ of its user.
 */
#include <cuda_runtime.h>
#include <stdio.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

static void addOne(void* value) {
  ++*(int*)value;
}

int main(void) {
  cudaStream_t stream;
  cudaEvent_t event;
  struct cudaDeviceProp properties;
  int* device;
  int value = 41;
  CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  CHECK(cudaEventCreate(&event) == cudaSuccess);
  CHECK(cudaMalloc((void**)&device, sizeof value) == cudaSuccess);
  CHECK(cudaLaunchHostFunc(stream, addOne, &value) == cudaSuccess);
  CHECK(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, stream) ==
        cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  value = 0;
  CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(value == 42);
  CHECK(cudaFree(device) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  printf("%s: ok\n", properties.name);
  return 0;
}
