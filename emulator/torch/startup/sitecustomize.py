"""Python imports this module by itself when it starts: emulator/torch/run puts its folder on PYTHONPATH.

It prepares PyTorch for the emulator as soon as the program imports it, in every process that runs on
the emulated CUDA runtime, and then runs the sitecustomize that it hides, if there is one.
"""
import importlib.machinery
import importlib.util
import os
import sys


class AfterImport:
    """Calls a function with a module as soon as that has been imported, once."""

    def __init__(self, functions):
        self.functions = functions

    def find_spec(self, name, path=None, target=None):
        function = self.functions.pop(name, None)
        if function is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            function(module)

        spec.loader.exec_module = exec_module
        return spec


def prepare_torch(torch):
    import ctypes
    ctypes.CDLL(os.environ["CINCH_TORCH_OPERATORS"]).cinchInstallOperators()
    leave_out_gpu_libraries(torch)
    profile_without_cupti(torch)


def leave_out_gpu_libraries(torch):
    """What is left to choose from is what PyTorch's CPU kernels can do: its own attention and its own
    convolutions, not a GPU library's. A program that chooses otherwise gets these all the same: they compute
    the same function."""
    for name, is_there in (("cudnn_enabled", False), ("sdp_use_flash", False), ("sdp_use_mem_efficient", False),
                           ("sdp_use_cudnn", False), ("sdp_use_math", True)):
        getattr(torch._C, f"_set_{name}")(is_there)
        setattr(torch._C, f"_set_{name}", lambda enabled: None)
    enabled = torch.backends.ContextProp(torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled)
    type(torch.backends.cudnn).enabled = enabled


def profile_without_cupti(torch):
    """CUPTI, which records what a GPU does, reaches into NVIDIA's driver and crashes without it. PyTorch
    can do without: it then takes times of CUDA work from events."""
    supported = torch._C._autograd._supported_activities
    cuda = torch._C._profiler.ProfilerActivity.CUDA

    def without_cuda():
        return supported() - {cuda}

    torch._C._autograd._supported_activities = without_cuda
    torch.autograd._supported_activities = without_cuda
    torch.autograd.profiler._supported_activities = without_cuda


def refuse_triton(jit):
    """A Triton kernel is compiled for a GPU: whoever launches one is told so by name."""

    def run(self, *args, **kwargs):
        name = getattr(self.fn, "__name__", self.fn)
        raise RuntimeError(
            f"the Triton kernel {name} cannot run on the emulator: Triton compiles for a GPU, and there is "
            "none. Run this part of the program in PyTorch's own operators.")

    jit.JITFunction.run = run


def refuse_compilation(compile_fx):
    """Inductor compiles for CUDA by Triton. It still compiles for the CPU."""
    compile_for = compile_fx.compile_fx

    def compile_fx_on_host(model, example_inputs, *args, **kwargs):
        if any(getattr(getattr(value, "device", None), "type", "") == "cuda" for value in example_inputs):
            raise RuntimeError(
                "torch.compile cannot compile for CUDA on the emulator: its default backend, inductor, "
                "writes Triton kernels, which need a GPU. backend='aot_eager' runs here, as does the program "
                "without torch.compile.")
        return compile_for(model, example_inputs, *args, **kwargs)

    compile_fx.compile_fx = compile_fx_on_host


def refuse_jiterator(jiterator):
    """Its functions are C++ source that a GPU's compiler gets."""

    def call(self, *args, **kwargs):
        raise RuntimeError("torch.cuda.jiterator compiles for a GPU, and the emulator has none: write the "
                           f"operator in PyTorch instead:\n{self.code_string}")

    jiterator._JittedFunction.__call__ = call


def run_hidden_sitecustomize():
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "CINCH_TORCH_OPERATORS" in os.environ:
    sys.meta_path.insert(0, AfterImport({
        "torch": prepare_torch,
        "torch.cuda.jiterator": refuse_jiterator,
        "triton.runtime.jit": refuse_triton,
        "torch._inductor.compile_fx": refuse_compilation,
    }))
run_hidden_sitecustomize()
