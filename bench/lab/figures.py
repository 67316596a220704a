"""The figures of a training job, from the logs that its ranks wrote. Pure functions."""

import json
from statistics import median

# Steps at the start that are not steady: connections open, calls are seen for the first times.
WARMUP_STEPS = 20

_TILE_VALUES = 1024
_TILE_BLOCKS = 8
_BLOCK_PAIR_BYTES = 4


class LogError(Exception):
    """A log is missing lines that a finished job has."""


def parse_log(lines):
    """The log of one rank, as {"steps": [...], "evaluations": [...], "final": {...}}."""
    log = {"steps": [], "evaluations": [], "final": None}
    for line in lines:
        record = json.loads(line)
        if "final" in record:
            log["final"] = record
        elif "eval_step" in record:
            log["evaluations"].append(record)
        else:
            log["steps"].append(record)
    return log


def check_complete(logs, steps):
    for rank, log in enumerate(logs):
        if len(log["steps"]) != steps or log["final"] is None:
            raise LogError(f"the log of rank {rank} has {len(log['steps'])} of {steps} steps")


def steady_from(steps):
    """The first step that counts as steady."""
    return min(WARMUP_STEPS, steps // 2)


def communication_seconds(logs):
    """Of each step: from the last rank's entry to the last rank's completion."""
    return [
        max(record["t_done"] for record in records) - max(record["t_enter"] for record in records)
        for records in zip(*(log["steps"] for log in logs))
    ]


def _sent_per_step(log):
    sent = [record["tx_bytes"] for record in log["steps"]]
    return [after - before for before, after in zip(sent, sent[1:])]


def wire_bytes(logs, shared_interface):
    """(median of the steady steps, mean of all but the first), in bytes that one rank sent.

    A rank's counter is read at the end of a step, so the first difference is the second step's.
    """
    share = len(logs) if shared_interface else 1
    first = max(0, steady_from(len(logs[0]["steps"])) - 1)
    per_rank = [_sent_per_step(log) for log in logs]
    steady = [sent / share for steps in per_rank for sent in steps[first:]]
    everything = [sent / share for steps in per_rank for sent in steps]
    return median(steady), sum(everything) / len(everything)


def summarise(logs, steps, shared_interface):
    """The row of the table."""
    check_complete(logs, steps)
    first = steady_from(steps)
    steady_wire, mean_wire = wire_bytes(logs, shared_interface)
    return {
        "step_ms": 1e3
        * median(record["t_step"] for log in logs for record in log["steps"][first:]),
        "comm_ms": 1e3 * median(communication_seconds(logs)[first:]),
        "wire_bytes": steady_wire,
        "wire_bytes_whole_run": mean_wire,
        "loss": logs[0]["final"]["held_out"],
        "loss_first": logs[0]["final"]["held_out_first"],
        "hashes": [log["final"]["hash"] for log in logs],
        "parameters": logs[0]["final"]["parameters"],
    }


def loss_over_time(log):
    """(seconds of training, held-out loss) pairs."""
    return [(record["train_s"], record["held_out"]) for record in log["evaluations"]]


def payload_bytes(count, bits):
    """What `count` values take: 16 and 32 bits as they are, fewer as tiles of wire format 1."""
    if bits >= 16:
        return count * bits // 8
    tile_bytes = _TILE_BLOCKS * _BLOCK_PAIR_BYTES + _TILE_VALUES * bits // 8
    return -(-count // _TILE_VALUES) * tile_bytes


def bound_ms(count, bits, ranks, bits_per_second):
    """No allreduce is faster: every rank sends 2(P-1)/P of the payload through its link."""
    return 1e3 * 8 * 2 * (ranks - 1) / ranks * payload_bytes(count, bits) / bits_per_second
