#include "run_on_host.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string_view>

#include "host_views.h"
#include "random.h"

namespace cinch::emulator_torch {
namespace {

using c10::IValue;

const c10::impl::DeviceGuardImplInterface& gpus() {
  return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

const at::Tensor* firstOnGpu(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.is_cuda()) return &tensor;
  return nullptr;
}

// The device of the first CUDA tensor, else the one that a factory names, else the current one.
c10::Device deviceOf(c10::ArrayRef<IValue> arguments) {
  std::optional<c10::Device> named;
  for (const IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda())
      return value.toTensor().device();
    if (value.isTensorList()) {
      const auto tensors = value.toTensorVector();
      if (const at::Tensor* tensor = firstOnGpu(tensors)) return tensor->device();
    }
    if (value.isDevice() && value.toDevice().is_cuda() && !named) named = value.toDevice();
  }
  return named && named->has_index() ? *named : gpus().getDevice();
}

// Operators that take some arguments on the CPU: lengths, sizes and points to split at, and copies.
constexpr std::string_view kTakeBoth[] = {"aten::copy_",
                                          "aten::_copy_from",
                                          "aten::_copy_from_and_resize",
                                          "aten::set_",
                                          "aten::_ctc_loss",
                                          "aten::_ctc_loss_backward",
                                          "aten::ctc_loss",
                                          "aten::tensor_split",
                                          "aten::_pack_padded_sequence",
                                          "aten::_pack_padded_sequence_backward",
                                          "aten::_pad_packed_sequence",
                                          "aten::lstm",
                                          "aten::gru",
                                          "aten::rnn_tanh",
                                          "aten::rnn_relu"};

// As PyTorch's kernels for a GPU do: a CPU kernel would not mind, and a forgotten .to(device) would
// be seen on a GPU first. A tensor without dimensions goes for a number.
void checkDevice(const at::Tensor& tensor, c10::Device device, const c10::FunctionSchema& schema,
                 const std::string& argument) {
  if (!tensor.defined() || tensor.device() == device || (tensor.is_cpu() && tensor.dim() == 0))
    return;
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              device, " and ", tensor.device(), "! (when checking argument ", argument, " of ",
              schema.name(), ")");
}

void checkDevices(const c10::FunctionSchema& schema, const std::vector<IValue>& given,
                  c10::Device device) {
  if (std::find(std::begin(kTakeBoth), std::end(kTakeBoth), schema.name()) != std::end(kTakeBoth))
    return;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (given[i].isTensor()) checkDevice(given[i].toTensor(), device, schema, name);
    if (!given[i].isTensorList())
      continue;  // indices, which may be on the CPU, are a list of optional ones
    for (const at::Tensor& tensor : given[i].toTensorVector())
      checkDevice(tensor, device, schema, name);
  }
}

// `argument` for the CPU kernel.
IValue toHost(const IValue& argument, HostViews& views) {
  if (argument.isTensor()) return views.toHost(argument.toTensor());
  if (argument.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : argument.toTensorVector()) list.push_back(views.toHost(tensor));
    return list;
  }
  if (argument.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorList())
      list.push_back(tensor ? std::optional(views.toHost(*tensor)) : std::nullopt);
    return list;
  }
  if (argument.isDevice() && argument.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  return argument;
}

bool isGenerator(const c10::Argument& argument) {
  return argument.type()->str() == "Generator?" || argument.type()->str() == "Generator";
}

// A result of the CPU kernel for the caller. What is written to, in place or out=, is the argument
// that was given.
IValue toDevice(const IValue& result, const c10::Argument& declared,
                const c10::FunctionSchema& schema, c10::ArrayRef<IValue> given, HostViews& views) {
  if (const auto* alias = declared.alias_info(); alias && alias->isWrite()) {
    for (size_t i = 0; i < given.size(); ++i) {
      const auto* argument = schema.arguments()[i].alias_info();
      if (argument && *argument == *alias) return given[i];
    }
  }
  if (result.isTensor()) return views.toDevice(result.toTensor());
  if (result.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : result.toTensorVector()) list.push_back(views.toDevice(tensor));
    return list;
  }
  return result;
}

// `keys` may hold both keys where sparse and dense arguments meet: the sparse kernel was called
// then.
c10::DispatchKey hostKeyFor(c10::DispatchKeySet keys) {
  return keys.has(c10::DispatchKey::SparseCUDA) ? c10::DispatchKey::SparseCPU
                                                : c10::DispatchKey::CPU;
}

}  // namespace

void waitForStream(const char* op, c10::Device device) {
  const c10::Stream stream = gpus().getStream(device);
  auto status = cudaStreamCaptureStatusNone;
  const auto handle = static_cast<cudaStream_t>(gpus().getStreamNativeHandle(stream));
  const cudaError_t error = cudaStreamIsCapturing(handle, &status);
  TORCH_CHECK_NOT_IMPLEMENTED(
      error == cudaSuccess, "CUDA error: ", cudaGetErrorString(error), ". Seen before ", op,
      ": what came before it launched a CUDA kernel of its own, which the emulator cannot run.");
  TORCH_CHECK_NOT_IMPLEMENTED(status == cudaStreamCaptureStatusNone, op,
                              " cannot be captured into a CUDA graph on the emulator: PyTorch's "
                              "operators run on the host there, "
                              "and only what is enqueued on a stream can be captured. Run this "
                              "part of the program without graphs.");
  gpus().synchronizeStream(stream);
}

void runOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const c10::DispatchKey key = hostKeyFor(keys);
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(key), schema.name(),
                              " runs on a GPU alone: the emulator runs PyTorch's CPU kernels, and "
                              "PyTorch has none for it.");
  const size_t nArguments = schema.arguments().size(), nReturns = schema.returns().size();
  const std::vector<IValue> given(stack->end() - static_cast<std::ptrdiff_t>(nArguments),
                                  stack->end());
  const c10::Device device = deviceOf(given);
  checkDevices(schema, given, device);
  const c10::OptionalDeviceGuard guard(device);
  waitForStream(schema.name().c_str(), device);

  HostViews views(device);
  stack->resize(stack->size() - nArguments);
  for (size_t i = 0; i < nArguments; ++i) {
    if (isGenerator(schema.arguments()[i]) &&
        !(given[i].isGenerator() && given[i].toGenerator().device().is_cpu()))
      stack->emplace_back(hostGenerator(given[i].toOptional<at::Generator>(), device));
    else
      stack->push_back(toHost(given[i], views));
  }
  op.redispatchBoxed(c10::DispatchKeySet(key), stack);
  views.writeBack();
  for (size_t i = 0; i < nReturns; ++i) {
    IValue& result = (*stack)[stack->size() - nReturns + i];
    result = toDevice(result, schema.returns()[i], schema, given, views);
  }
}

}  // namespace cinch::emulator_torch
