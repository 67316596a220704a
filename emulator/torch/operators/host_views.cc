#include "host_views.h"

#include <ATen/SparseTensorImpl.h>

#include <cstring>

namespace cinch::emulator_torch {
namespace {

bool isOnGpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cuda();
}

void copyBytes(const at::Tensor& to, const at::Tensor& from) {
  if (from.numel() == 0) return;
  std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
}

// With the strides of the original where these leave no holes, so that layouts such as
// channels_last survive.
at::Tensor withoutHoles(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

void writeBackDense(const at::Tensor& device, const at::Tensor& host) {
  auto* const impl = device.unsafeGetTensorImpl();
  const bool moved = host.storage().data() != device.storage().data();
  if (moved) {
    // The kernel made room for itself. resize_ makes the same room in device memory.
    const at::Tensor dense = withoutHoles(host);
    device.resize_(dense.sizes());
    impl->set_sizes_and_strides(dense.sizes(), dense.strides());
    copyBytes(device, dense);
  } else if (host.sizes() != device.sizes() || host.strides() != device.strides()) {
    impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
}

}  // namespace

at::Tensor HostViews::toHost(const at::Tensor& tensor) {
  if (!isOnGpu(tensor)) return tensor;
  for (const View& view : views_)
    if (view.device.is_same(tensor)) return view.host;
  views_.push_back({tensor, tensor.is_sparse() ? sparseView(tensor) : denseView(tensor)});
  return views_.back().host;
}

at::Tensor HostViews::denseView(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage(),
                              "the emulator has no operators for tensors of layout ",
                              tensor.layout(), " on a GPU");
  const c10::Storage& storage = tensor.storage();
  void* const data = storage.mutable_data();
  TORCH_CHECK(data != nullptr || tensor.numel() == 0, "a tensor of ", tensor.numel(),
              " values on a GPU is used after its memory was released");
  // The CPU allocator is named so that the kernel can resize the view; it then moves to memory of
  // its own, which writeBack() notices.
  c10::DataPtr pointer(
      data, data, [](void*) {}, c10::Device(c10::kCPU));
  c10::Storage shared(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(pointer),
                      c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      std::move(shared), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* const impl = host.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (tensor.is_conj()) host._set_conj(true);
  if (tensor.is_neg()) host._set_neg(true);
  return host;
}

at::Tensor HostViews::sparseView(const at::Tensor& tensor) {
  const at::Tensor indices = denseView(tensor._indices()), values = denseView(tensor._values());
  return at::_sparse_coo_tensor_unsafe(indices, values, tensor.sizes(), std::nullopt, std::nullopt,
                                       std::nullopt, std::nullopt, tensor.is_coalesced());
}

void HostViews::writeBack() {
  for (const View& view : views_) {
    if (!view.device.is_sparse()) {
      writeBackDense(view.device, view.host);
      continue;
    }
    const bool same = view.host._values().data_ptr() == view.device._values().data_ptr() &&
                      view.host._nnz() == view.device._nnz() &&
                      view.host.is_coalesced() == view.device.is_coalesced();
    if (same) continue;
    auto* const impl = static_cast<at::SparseTensorImpl*>(view.device.unsafeGetTensorImpl());
    impl->resize_(view.host.sparse_dim(), view.host.dense_dim(), view.host.sizes());
    impl->set_indices_and_values_unsafe(copyToDevice(view.host._indices()),
                                        copyToDevice(view.host._values()));
    impl->set_coalesced(view.host.is_coalesced());
  }
}

at::Tensor HostViews::toDevice(const at::Tensor& result) {
  if (!result.defined() || !result.is_cpu()) return result;
  for (const View& view : views_)
    if (view.host.is_same(result)) return view.device;
  return copyToDevice(result);
}

at::Tensor HostViews::copyToDevice(const at::Tensor& result) {
  if (result.is_sparse()) {
    return at::_sparse_coo_tensor_unsafe(
        copyToDevice(result._indices()), copyToDevice(result._values()), result.sizes(),
        std::nullopt, std::nullopt, std::nullopt, std::nullopt, result.is_coalesced());
  }
  const at::Tensor dense = withoutHoles(result.resolve_conj().resolve_neg());
  at::Tensor copy =
      at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(device_));
  copyBytes(copy, dense);
  if (result.unsafeGetTensorImpl()->is_wrapped_number())
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

}  // namespace cinch::emulator_torch
