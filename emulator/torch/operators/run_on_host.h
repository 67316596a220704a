// Runs a CUDA operator by PyTorch's CPU kernel for it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace cinch::emulator_torch {

// A boxed kernel for the keys CUDA and SparseCUDA. It waits until the current stream has done all
// that was enqueued before, runs the CPU kernel on the caller's thread, and returns when the result
// is there: later work on the stream finds it, as on a GPU. Errors name the operator: one that has
// no CPU kernel, or one that is called while the stream is captured into a graph.
void runOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Waits for the current stream of `device`; an error that names `op` while it is captured.
void waitForStream(const char* op, c10::Device device);

}  // namespace cinch::emulator_torch
