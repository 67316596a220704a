"""The product's codecs and error feedback, for ranks that live in this process."""

import ctypes
import os
from dataclasses import dataclass

import numpy as np

ELEMENT_TYPES = ("fp32", "fp16", "bf16")
RESIDUAL_TYPES = ("fp32", "bf16", "int8")


@dataclass(frozen=True)
class Coding:
    """How a gradient is reduced. A gain of 0: without error feedback."""

    codec: str
    gain: float = 0.0
    decay: float = 1.0
    residual: str = "fp32"
    gradient: str = "fp32"
    scattered: bool = False  # and gathered as it is


class _Settings(ctypes.Structure):
    _fields_ = [
        ("codec", ctypes.c_char_p),
        ("count", ctypes.c_uint64),
        ("n_ranks", ctypes.c_uint32),
        ("element_type", ctypes.c_uint32),
        ("residual_type", ctypes.c_uint32),
        ("gain", ctypes.c_float),
        ("decay", ctypes.c_float),
        ("is_scattered", ctypes.c_uint32),
    ]


_FLOATS = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
_SIGNATURES = {
    "cinchFeedbackCreate": (ctypes.c_void_p, [ctypes.POINTER(_Settings)]),
    "cinchFeedbackDestroy": (None, [ctypes.c_void_p]),
    "cinchFeedbackReduce": (None, [ctypes.c_void_p, _FLOATS, _FLOATS]),
    "cinchFeedbackResidual": (ctypes.c_double, [ctypes.c_void_p]),
    "cinchFeedbackBytes": (ctypes.c_uint64, [ctypes.c_void_p]),
}


def load(build):
    """The library in a build folder."""
    library = ctypes.CDLL(os.path.join(build, "bench", "libcinch_feedback_codec.so"))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Reduction:
    """Averages gradients over ranks; keeps the residuals from step to step."""

    def __init__(self, library, coding, ranks, count):
        settings = _Settings(
            coding.codec.encode(),
            count,
            ranks,
            ELEMENT_TYPES.index(coding.gradient),
            RESIDUAL_TYPES.index(coding.residual),
            coding.gain,
            coding.decay,
            coding.scattered,
        )
        self._library, self._count = library, count
        self._handle = library.cinchFeedbackCreate(ctypes.byref(settings))
        if not self._handle:
            raise ValueError(f"there is no codec {coding.codec}")
        self._average = np.empty(count, np.float32)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.cinchFeedbackDestroy(self._handle)

    def average(self, gradients):
        """Of one row per rank; the result is valid until the next call."""
        self._library.cinchFeedbackReduce(self._handle, gradients, self._average)
        return self._average

    def residual_power(self):
        """|e|^2 of stage 1, the mean of the ranks."""
        return self._library.cinchFeedbackResidual(self._handle)

    def bits_per_value(self):
        """On the wire, headers and padding included."""
        return 8 * self._library.cinchFeedbackBytes(self._handle) / self._count
