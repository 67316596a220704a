// The fused cells that LSTM and GRU layers call on a GPU. The workspaces are what each forward pass
// leaves for its own backward pass: nobody else reads them.
#include <ATen/ATen.h>

#include "composed.h"

namespace cinch::emulator_torch {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor withBias(const Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

Tensor orZeros(const OptionalTensor& tensor, const Tensor& like) {
  return tensor && tensor->defined() ? *tensor : at::zeros_like(like);
}

// The gates lie in the order input, forget, cell, output. The workspace keeps them activated.
std::tuple<Tensor, Tensor, Tensor> lstmCell(const Tensor& inputGates, const Tensor& hiddenGates,
                                            const Tensor& cell, const OptionalTensor& inputBias,
                                            const OptionalTensor& hiddenBias) {
  const auto gates =
      (withBias(inputGates, inputBias) + withBias(hiddenGates, hiddenBias)).chunk(4, 1);
  const Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid();
  const Tensor candidate = gates[2].tanh(), output = gates[3].sigmoid();
  const Tensor next = forget * cell + input * candidate;
  return {output * next.tanh(), next, at::cat({input, forget, candidate, output}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstmCellBackward(const OptionalTensor& hiddenGradient,
                                                    const OptionalTensor& cellGradient,
                                                    const Tensor& cell, const Tensor& next,
                                                    const Tensor& workspace, bool hasBias) {
  const auto gates = workspace.chunk(4, 1);
  const Tensor &input = gates[0], &forget = gates[1], &candidate = gates[2], &output = gates[3];
  const Tensor hidden = orZeros(hiddenGradient, next), activated = next.tanh();
  const Tensor total = orZeros(cellGradient, next) + hidden * output * (1 - activated.square());
  const Tensor gradient = at::cat(
      {total * candidate * input * (1 - input), total * cell * forget * (1 - forget),
       total * input * (1 - candidate.square()), hidden * activated * output * (1 - output)},
      1);
  return {gradient, total * forget, hasBias ? gradient.sum(0) : Tensor()};
}

// The gates lie in the order reset, update, new. The workspace keeps them activated, then the old
// state and the hidden part of the new gate.
std::tuple<Tensor, Tensor> gruCell(const Tensor& inputGates, const Tensor& hiddenGates,
                                   const Tensor& state, const OptionalTensor& inputBias,
                                   const OptionalTensor& hiddenBias) {
  const auto fromInput = withBias(inputGates, inputBias).chunk(3, 1);
  const auto fromHidden = withBias(hiddenGates, hiddenBias).chunk(3, 1);
  const Tensor reset = (fromInput[0] + fromHidden[0]).sigmoid();
  const Tensor update = (fromInput[1] + fromHidden[1]).sigmoid();
  const Tensor fresh = (fromInput[2] + reset * fromHidden[2]).tanh();
  return {fresh + update * (state - fresh),
          at::cat({reset, update, fresh, state, fromHidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gruCellBackward(const Tensor& gradient,
                                                                   const Tensor& workspace,
                                                                   bool hasBias) {
  const auto kept = workspace.chunk(5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &state = kept[3];
  const Tensor& hiddenNew = kept[4];
  const Tensor toFresh = gradient * (1 - update) * (1 - fresh.square());
  const Tensor toUpdate = gradient * (state - fresh) * update * (1 - update);
  const Tensor toReset = toFresh * hiddenNew * reset * (1 - reset);
  const Tensor toInput = at::cat({toReset, toUpdate, toFresh}, 1);
  const Tensor toHidden = at::cat({toReset, toUpdate, toFresh * reset}, 1);
  return {toInput, toHidden, gradient * update, hasBias ? toInput.sum(0) : Tensor(),
          hasBias ? toHidden.sum(0) : Tensor()};
}

}  // namespace

void addRecurrentCells(torch::Library& library) {
  library.impl("_thnn_fused_lstm_cell", &lstmCell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", &lstmCellBackward);
  library.impl("_thnn_fused_gru_cell", &gruCell);
  library.impl("_thnn_fused_gru_cell_backward", &gruCellBackward);
}

}  // namespace cinch::emulator_torch
