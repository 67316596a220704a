// Puts CPU kernels in the place of PyTorch's CUDA kernels.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <set>
#include <string>

#include "composed.h"
#include "run_on_host.h"

namespace cinch::emulator_torch {
namespace {

// They make, describe or share memory and launch no kernel: PyTorch's own CUDA versions are right,
// caching allocator and all.
const std::set<std::string> kKeptForCuda = {
    "aten::_efficientzerotensor",
    "aten::_pin_memory",
    "aten::_reshape_alias",
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::is_pinned",
    "aten::is_set_to",
    "aten::record_stream",
    "aten::resize_",
    "aten::resize_as_",
    "aten::set_",
    "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset",
    "aten::set_.source_Tensor",
};

// The same for sparse tensors: these read or set the tensor's own two parts.
const std::set<std::string> kKeptForSparse = {
    "aten::_coalesced_",
    "aten::_dimI",
    "aten::_dimV",
    "aten::_indices",
    "aten::_nnz",
    "aten::_values",
    "aten::dense_dim",
    "aten::empty.memory_format",
    "aten::empty_like",
    "aten::indices",
    "aten::is_coalesced",
    "aten::_sparse_coo_tensor_with_dims",
    "aten::_sparse_coo_tensor_with_dims_and_tensors",
    "aten::sparse_dim",
    "aten::sparse_resize_",
    "aten::sparse_resize_and_clear_",
    "aten::values",
};

// They have no kernel for CUDA of their own and choose one by the device inside, so that they have
// to be taken here. (_batch_norm_impl_index looks like one more and must not be: autograd sees
// through it.)
const char* const kChosenInside[] = {"aten::copy_", "aten::convolution",
                                     "aten::convolution_backward"};

// Composed from others: the boxed kernel would find no CPU kernel for them, or one that refuses.
const std::set<std::string> kComposed = {
    "aten::_fused_dropout",
    "aten::_fused_rms_norm_backward",
    "aten::_log_softmax",
    "aten::_log_softmax_backward_data",
    "aten::_masked_scale",
    "aten::_softmax",
    "aten::_softmax_backward_data",
    "aten::_thnn_fused_gru_cell",
    "aten::_thnn_fused_gru_cell_backward",
    "aten::_thnn_fused_lstm_cell",
    "aten::_thnn_fused_lstm_cell_backward_impl",
    "aten::_use_cudnn_ctc_loss",
    "aten::_use_cudnn_ctc_loss.Tensor",
    "aten::_use_miopen_ctc_loss",
    "aten::_use_miopen_ctc_loss.Tensor",
    "aten::addmm.dtype",
    "aten::baddbmm.dtype",
    "aten::batch_norm_backward_elemt",
    "aten::batch_norm_backward_reduce",
    "aten::batch_norm_elemt",
    "aten::batch_norm_elemt.out",
    "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::batch_norm_stats",
    "aten::bmm.dtype",
    "aten::mm.dtype",
    "aten::native_dropout",
};

std::string fullName(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// A view shares memory and launches nothing.
bool isView(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return true;
  return false;
}

void runOnHostFor(torch::Library& library, const std::string& name) {
  library.impl(name.substr(sizeof "aten::" - 1).c_str(),
               torch::CppFunction::makeFromBoxedFunction<&runOnHost>());
}

// All of aten that has a kernel for `key`, but for views and what `isKept` names.
template <class IsKept>
int replaceKernels(torch::Library& library, c10::DispatchKey key, IsKept isKept) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int nReplaced = 0;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.getNamespace().value_or("") != "aten") continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(key)) continue;
    if (isKept(fullName(name)) || isView(op->schema())) continue;
    runOnHostFor(library, fullName(name));
    ++nReplaced;
  }
  return nReplaced;
}

// They live as long as the process: unloading would bring the CUDA kernels back.
torch::Library& libraryFor(c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
}

// There is no GPU library that has the loss: PyTorch's own kernels compute it.
void addCtcLoss(torch::Library& library) {
  using Tensor = const at::Tensor&;
  using Lengths = at::IntArrayRef;
  for (const char* name : {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"}) {
    library.impl(name, [](Tensor, Tensor, Lengths, Lengths, int64_t) { return false; });
    library.impl((std::string(name) + ".Tensor").c_str(),
                 [](Tensor, Tensor, Tensor, Tensor, int64_t) { return false; });
  }
}

int install() {
  torch::Library& cuda = libraryFor(c10::DispatchKey::CUDA);
  int nReplaced = replaceKernels(cuda, c10::DispatchKey::CUDA, [](const std::string& name) {
    return kKeptForCuda.contains(name) || kComposed.contains(name);
  });
  for (const char* name : kChosenInside) runOnHostFor(cuda, name);
  addNormalisation(cuda);
  addRecurrentCells(cuda);
  addDropout(cuda);
  addMixedTypes(cuda);
  addCtcLoss(cuda);
  nReplaced +=
      replaceKernels(libraryFor(c10::DispatchKey::SparseCUDA), c10::DispatchKey::SparseCUDA,
                     [](const std::string& name) { return kKeptForSparse.contains(name); });
  return nReplaced;
}

}  // namespace
}  // namespace cinch::emulator_torch

// Called once by the start-up module, right after PyTorch's own libraries are loaded. Returns how
// many kernels were replaced.
extern "C" [[gnu::visibility("default")]] int cinchInstallOperators() {
  return cinch::emulator_torch::install();
}
