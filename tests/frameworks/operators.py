"""PyTorch's own operator samples on the emulator: what `cuda` computes must be what `cpu` computes.

PyTorch ships samples for every operator (op_db). This module runs inside the emulator's environment:

    python operators.py [--every K] [--only PATTERN] [--json FILE]

and ends with status 1 if an operator differs that is not listed below, or one that is listed does not.
"""
import argparse
import fnmatch
import itertools
import json
import os
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

SAMPLES = 6

# Numbers are drawn by the CUDA generator, so that they are not the CPU's: the same seed must give the same
# numbers twice.
RANDOM = {"bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial",
          "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
          "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
          "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
          "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
          "nn.functional.scaled_dot_product_attention", "normal", "rand_like", "randint", "randint_like",
          "randn", "randn_like", "svd_lowrank", "pca_lowrank", "torch.ops.aten._safe_softmax.default",
          "uniform", "nn.functional.gumbel_softmax"}

# Memory that nobody has written: shape, type and strides must be the same.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# Why an entry cannot be equal. The test fails if one of them is.
DIFFERENT = {
    "jiterator_unary": "compiled for the device",
    "jiterator_binary": "compiled for the device",
    "jiterator_4inputs_with_extra_args": "compiled for the device",
    "jiterator_binary_return_by_ref": "compiled for the device",
    "jiterator_2inputs_2outputs": "compiled for the device",
    "sparse.mm.reduce": "for CPUs alone",
    "sparse.sampled_addmm": "sparse CSR tensors on a GPU are not emulated",
    "tensor_split": "wants indices in a tensor on the CPU, on a GPU, too",
    "torch.ops.aten._efficient_attention_forward": "for GPUs alone",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "for CPUs alone",
}


def entry_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def entries():
    return [op for op in op_db if torch.float32 in op.supported_dtypes("cuda")]


def on_gpu(value):
    """The value for the GPU: tensors as copies that lie in memory as the original does, gaps included."""
    if isinstance(value, torch.Tensor):
        return copy_on_gpu(value)
    return "cuda" if value == "cpu" or isinstance(value, torch.device) else value


def copy_on_gpu(tensor):
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        copy = tensor.detach().cuda()
    else:
        nbytes = tensor.untyped_storage().nbytes() // tensor.element_size()
        base = tensor.detach().as_strided((nbytes,), (1,), 0).cuda()
        copy = base.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return copy.requires_grad_(tensor.requires_grad)


def given(sample):
    return [sample.input, *sample.args], dict(sample.kwargs)


def call(op, arguments, keywords, device):
    torch.manual_seed(3)
    if any(isinstance(value, torch.Tensor) for value in tree_flatten((arguments, keywords))[0]):
        return op(*arguments, **keywords)
    try:  # a factory: nothing that it is given says where its result belongs
        return op(*arguments, **{"device": device, **keywords})
    except TypeError:
        return op(*arguments, **keywords)


def check_same(op, expected, found):
    """Raises where the two results differ."""
    expected, expected_shape = tree_flatten(expected)
    found, found_shape = tree_flatten(found)
    assert expected_shape == found_shape, "results of another structure"
    for cpu, gpu in zip(expected, found):
        if not isinstance(cpu, torch.Tensor):
            assert cpu == gpu or cpu != cpu or (str(cpu), str(gpu)) == ("cpu", "cuda:0"), f"{gpu} instead of {cpu}"
            continue
        assert gpu.device.type == "cuda", f"a result on {gpu.device}"
        if op.name in UNINITIALISED or op.name in RANDOM:
            assert (cpu.shape, cpu.dtype) == (gpu.shape, gpu.dtype), "another shape or type"
        else:
            torch.testing.assert_close(gpu.cpu(), cpu, equal_nan=True)


def gradients(result, arguments):
    """Of the sum of all that can be differentiated in the result, for each argument that wants one."""
    wanted = [value for value in tree_flatten(arguments)[0]
              if isinstance(value, torch.Tensor) and value.requires_grad]
    parts = [value.abs().sum() for value in tree_flatten(result)[0]
             if isinstance(value, torch.Tensor) and value.requires_grad]
    if not wanted or not parts:
        return []
    return torch.autograd.grad(sum(parts), wanted, allow_unused=True)


def check_entry(op):
    """Every sample, and its gradients where the operator has some."""
    backward = op.supports_autograd and op.name not in RANDOM
    samples = op.sample_inputs("cpu", torch.float32, requires_grad=backward)
    for sample in itertools.islice(samples, SAMPLES):
        arguments, keywords = given(sample)
        gpu_arguments, gpu_keywords = tree_map(on_gpu, (arguments, keywords))
        expected = call(op, arguments, keywords, "cpu")
        found = call(op, gpu_arguments, gpu_keywords, "cuda")
        check_same(op, expected, found)
        if backward:
            check_same(op, gradients(expected, (arguments, keywords)),
                       gradients(found, (gpu_arguments, gpu_keywords)))
        if op.name in RANDOM:
            again = call(op, gpu_arguments, gpu_keywords, "cuda")
            for first, second in zip(tree_flatten(found)[0], tree_flatten(again)[0]):
                torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)


def outcome(op):
    """An empty text if the entry is equal, else why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_entry(op)
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="K", help="every K-th entry only")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--json", metavar="FILE", help="writes {equal, of, different} there")
    options = parser.parse_args()
    chosen = [op for op in entries()[::options.every] if fnmatch.fnmatch(entry_name(op), options.only)]
    different = {}
    for op in chosen:
        if why := outcome(op):
            different[entry_name(op)] = why
    unexpected = {name: why for name, why in different.items() if name not in DIFFERENT}
    turned = [entry_name(op) for op in chosen if entry_name(op) in DIFFERENT and entry_name(op) not in different]
    for name, why in unexpected.items():
        print(f"{name}: {why}")
    for name in turned:
        print(f"{name}: is equal now: take it off the list in {os.path.basename(__file__)}")
    print(f"{len(chosen) - len(different)} of {len(chosen)} operators equal, {len(unexpected)} differ unexpectedly")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"equal": len(chosen) - len(different), "of": len(chosen), "different": different}, file)
    return 1 if unexpected or turned or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
