// CPU tensors over the memory of CUDA tensors, for the length of one operator.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace cinch::emulator_torch {

// Emulated device memory is host memory, so a CPU kernel can work on a CUDA tensor's own bytes. One
// object serves one call of an operator: arguments go through toHost() before the kernel runs,
// writeBack() runs after it, and results go through toDevice(). Not thread-safe.
class HostViews {
 public:
  // Results are made on `device`.
  explicit HostViews(c10::Device device) : device_(device) {}

  // The CPU tensor over the same bytes, with the same shape and strides; the same one each time a
  // tensor is given. Tensors that are not on a GPU come back as they are. A sparse COO tensor
  // becomes one whose indices and values are such views.
  at::Tensor toHost(const at::Tensor& tensor);

  // Gives the CUDA tensors what the kernel did to the shape or the storage of their views: out=
  // forms resize, set_ and the sparse in-place forms put other memory in place.
  void writeBack();

  // A result of the kernel as a CUDA tensor. An argument that the kernel returned is the argument
  // again; anything else is copied into memory of the device.
  at::Tensor toDevice(const at::Tensor& result);

 private:
  at::Tensor denseView(const at::Tensor& tensor);
  at::Tensor sparseView(const at::Tensor& tensor);
  at::Tensor copyToDevice(const at::Tensor& result);

  struct View {
    at::Tensor device, host;
  };

  const c10::Device device_;
  std::vector<View> views_;
};

}  // namespace cinch::emulator_torch
