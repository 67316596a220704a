// Operators whose result has another type than their operands: softmax from half to fp32, products
// of half matrices summed up in fp32. A GPU fuses the conversion, PyTorch's CPU kernels refuse it;
// here it is done first.
#include <ATen/ATen.h>

#include "composed.h"
#include "host_views.h"
#include "run_on_host.h"

namespace cinch::emulator_torch {
namespace {

using at::ScalarType;
using at::Tensor;

template <class Function>
Tensor onHost(const char* name, const Tensor& input, Function&& function) {
  waitForStream(name, input.device());
  HostViews views(input.device());
  return views.toDevice(function(views));
}

Tensor softmax(const Tensor& input, int64_t dimension, bool halfToFloat) {
  return onHost("aten::_softmax", input, [&](HostViews& views) {
    const Tensor host = views.toHost(input);
    return at::_softmax(halfToFloat ? host.to(at::kFloat) : host, dimension, false);
  });
}

Tensor logSoftmax(const Tensor& input, int64_t dimension, bool halfToFloat) {
  return onHost("aten::_log_softmax", input, [&](HostViews& views) {
    const Tensor host = views.toHost(input);
    return at::_log_softmax(halfToFloat ? host.to(at::kFloat) : host, dimension, false);
  });
}

Tensor softmaxBackward(const Tensor& gradient, const Tensor& output, int64_t dimension,
                       ScalarType type) {
  return onHost("aten::_softmax_backward_data", gradient, [&](HostViews& views) {
    const Tensor host = views.toHost(gradient);
    return at::_softmax_backward_data(host, views.toHost(output), dimension, host.scalar_type())
        .to(type);
  });
}

Tensor logSoftmaxBackward(const Tensor& gradient, const Tensor& output, int64_t dimension,
                          ScalarType type) {
  return onHost("aten::_log_softmax_backward_data", gradient, [&](HostViews& views) {
    const Tensor host = views.toHost(gradient);
    return at::_log_softmax_backward_data(host, views.toHost(output), dimension, host.scalar_type())
        .to(type);
  });
}

Tensor mm(const Tensor& left, const Tensor& right, ScalarType type) {
  return at::mm(left.to(type), right.to(type));
}

Tensor bmm(const Tensor& left, const Tensor& right, ScalarType type) {
  return at::bmm(left.to(type), right.to(type));
}

Tensor addmm(const Tensor& added, const Tensor& left, const Tensor& right, ScalarType type,
             const at::Scalar& beta, const at::Scalar& alpha) {
  return at::addmm(added.to(type), left.to(type), right.to(type), beta, alpha);
}

Tensor baddbmm(const Tensor& added, const Tensor& left, const Tensor& right, ScalarType type,
               const at::Scalar& beta, const at::Scalar& alpha) {
  return at::baddbmm(added.to(type), left.to(type), right.to(type), beta, alpha);
}

}  // namespace

void addMixedTypes(torch::Library& library) {
  library.impl("_softmax", &softmax);
  library.impl("_log_softmax", &logSoftmax);
  library.impl("_softmax_backward_data", &softmaxBackward);
  library.impl("_log_softmax_backward_data", &logSoftmaxBackward);
  library.impl("mm.dtype", &mm);
  library.impl("bmm.dtype", &bmm);
  library.impl("addmm.dtype", &addmm);
  library.impl("baddbmm.dtype", &baddbmm);
}

}  // namespace cinch::emulator_torch
