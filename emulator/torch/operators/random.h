// Random numbers of CUDA generators, drawn by CPU kernels.
#pragma once

#include <ATen/core/Generator.h>

namespace cinch::emulator_torch {

// A CPU generator for one operator that draws from `given`, a CUDA generator, or from the default
// one of `device` where nothing is given. Its numbers follow from the seed and the offset of that
// generator, which moves on: torch.cuda.manual_seed, get_rng_state and fork_rng do what they do on
// a GPU. The numbers themselves are others than a GPU's.
at::Generator hostGenerator(const std::optional<at::Generator>& given, c10::Device device);

}  // namespace cinch::emulator_torch
