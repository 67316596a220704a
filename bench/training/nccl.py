"""The few calls of NCCL and of the CUDA runtime that a training job makes, through ctypes."""

import ctypes
import os
import time

import numpy as np

_TYPES = {np.dtype(np.int64): 4, np.dtype(np.float32): 7}  # ncclDataType_t
_NAMED_TYPES = {"fp32": 7, "bf16": 9}  # likewise
_SUM, _AVERAGE = 0, 4  # ncclRedOp_t
_DEFAULT = 4  # cudaMemcpyKind
_JOIN_SECONDS = 60
_POLL_SECONDS = 0.02


class NcclError(Exception):
    """A call failed; the text names it."""


class _UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


class _Library:
    """Functions that return 0 where they succeed; others raise NcclError."""

    def __init__(self, name):
        self._library = ctypes.CDLL(name)

    def __getattr__(self, name):
        function = getattr(self._library, name)

        def call(*arguments):
            status = function(*arguments)
            if status != 0:
                raise NcclError(f"{name} returned {status}")

        setattr(self, name, call)
        return call


class Communicator:
    """This rank's communicator with one stream; collectives are waited for."""

    def __init__(self, rank, ranks, id_file):
        self.cuda = self._cuda = _Library("libcudart.so.13")
        self._nccl = _Library("libnccl.so.2")
        self.rank, self.ranks = rank, ranks
        self._stream, self._comm = ctypes.c_void_p(), ctypes.c_void_p()
        self._cuda.cudaStreamCreate(ctypes.byref(self._stream))
        self._nccl.ncclCommInitRank(ctypes.byref(self._comm), ranks, self._unique_id(id_file), rank)

    def close(self):
        self._nccl.ncclCommDestroy(self._comm)

    def allocate(self, n_bytes):
        """Device memory, until free()."""
        memory = ctypes.c_void_p()
        self._cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(n_bytes))
        return memory

    def free(self, memory):
        self._cuda.cudaFree(memory)

    def average(self, memory, values):
        """Replaces contiguous fp32 values by their average over the ranks, through this memory."""
        self.copy(memory, values.ctypes, values.nbytes)
        self._nccl.ncclAllReduce(
            memory, memory, *_elements(values), _AVERAGE, self._comm, self._stream
        )
        self.copy(values.ctypes, memory, values.nbytes)

    def sum(self, send, received, count, kind):
        """Of device memory that holds `count` values of the type "fp32" or "bf16"."""
        self._nccl.ncclAllReduce(
            send, received, ctypes.c_size_t(count), _NAMED_TYPES[kind], _SUM, self._comm, self._stream
        )
        self._cuda.cudaStreamSynchronize(self._stream)

    @property
    def stream(self):
        """On which collectives are; those of all_reduce() are not waited for."""
        return self._stream

    def all_reduce(self, memory, count):
        """Of fp32 values, in place."""
        self._nccl.ncclAllReduce(
            memory, memory, ctypes.c_size_t(count), _NAMED_TYPES["fp32"], _SUM, self._comm, self._stream
        )

    def broadcast(self, values):
        """Replaces them by those of rank 0."""
        memory = self.allocate(values.nbytes)
        self.copy(memory, values.ctypes, values.nbytes)
        self._nccl.ncclBroadcast(memory, memory, *_elements(values), 0, self._comm, self._stream)
        self.copy(values.ctypes, memory, values.nbytes)
        self._cuda.cudaFree(memory)

    def all_gather(self, values):
        """Of all ranks, one after another."""
        gathered = np.empty(self.ranks * values.size, values.dtype)
        memory = self.allocate(gathered.nbytes)
        mine = ctypes.c_void_p(memory.value + self.rank * values.nbytes)
        self.copy(mine, values.ctypes, values.nbytes)
        self._nccl.ncclAllGather(mine, memory, *_elements(values), self._comm, self._stream)
        self.copy(gathered.ctypes, memory, gathered.nbytes)
        self._cuda.cudaFree(memory)
        return gathered

    def copy(self, to, from_, n_bytes):
        """Between device memory and an array's `ctypes`."""
        self._cuda.cudaMemcpyAsync(
            _pointer(to), _pointer(from_), ctypes.c_size_t(n_bytes), _DEFAULT, self._stream
        )
        self._cuda.cudaStreamSynchronize(self._stream)

    def _unique_id(self, path):
        """Rank 0 makes it; the file appears in one piece."""
        if self.rank == 0:
            made = _UniqueId()
            self._nccl.ncclGetUniqueId(ctypes.byref(made))
            with open(path + ".new", "wb") as file:
                file.write(bytes(made))
            os.rename(path + ".new", path)
        deadline = time.monotonic() + _JOIN_SECONDS
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                raise NcclError(f"rank 0 did not write {path}")
            time.sleep(_POLL_SECONDS)
        with open(path, "rb") as file:
            return _UniqueId.from_buffer_copy(file.read())


def _elements(values):
    return ctypes.c_size_t(values.size), _TYPES[values.dtype]


def _pointer(address):
    """Of device memory, or of an array's `ctypes`."""
    return address if isinstance(address, ctypes.c_void_p) else ctypes.c_void_p(address.data)
