"""Does in one process what JAX's CUDA plugin does on a machine with a GPU: loads NCCL by its full
path, then XLA, whose own stubs find NCCL by dlopen and dlsym. Prints as one JSON object in the last
line which file each name's pointer leads to, and what two of the stubs answer.

jax_probe.py NCCL XLA_PLUGIN STUBS NAME...     STUBS: JSON, addresses of XLA's stubs by name
"""

import ctypes
import json
import sys


class SymbolInfo(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def found_at(address):
    info = SymbolInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(SymbolInfo)]
    if dladdr(address, ctypes.byref(info)) == 0:
        sys.exit(f"nothing is loaded at {address:x}")
    return info


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def main(nccl_path, plugin_path, stubs, *names):
    nccl = ctypes.CDLL(nccl_path)
    files = {name: found_at(address_of(nccl[name])).file.decode() for name in names}
    plugin = ctypes.CDLL(plugin_path)
    base = found_at(address_of(plugin.GetPjrtApi)).base
    stub_at = {name: base + address for name, address in json.loads(stubs).items()}
    version = ctypes.c_int()
    get_version = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(stub_at["ncclGetVersion"])
    group_start = ctypes.CFUNCTYPE(ctypes.c_int)(stub_at["ncclGroupStart"])
    results = [get_version(ctypes.addressof(version)), group_start()]
    print()
    print(json.dumps({"files": files, "results": results, "version": version.value}))


if __name__ == "__main__":
    main(*sys.argv[1:])
