#!/usr/bin/env python3
"""Writes the traces of those frameworks that do not run here, from what their sources say."""

import pathlib

from from_ddp import ddp_syncbn
from from_deepspeed import zero1, zero2, zero3
from from_megatron import megatron_distopt, tp_dp, tp_only
from from_others import fsdp_rs_only, horovod, jax_scan


def traces():
    yield from (ddp_syncbn(), zero1(), zero2(), zero2(reduce_scatter=True), zero3(),
                megatron_distopt(), tp_dp(), jax_scan(), horovod(), tp_only(), fsdp_rs_only())


if __name__ == "__main__":
    for trace in traces():
        trace.write(pathlib.Path(__file__).parent)
