/* What nccl.h needs of CUDA, so that it can be compiled where CUDA is not installed. */
#ifndef CINCH_TESTS_ABI_RELEASES_CUDA_RUNTIME_H_
#define CINCH_TESTS_ABI_RELEASES_CUDA_RUNTIME_H_

#define CUDART_VERSION 11000

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

#endif /* CINCH_TESTS_ABI_RELEASES_CUDA_RUNTIME_H_ */
