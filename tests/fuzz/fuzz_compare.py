"""Compares the runs of one program."""

from fuzz_run import MIN_BYTES, WARMUP

BYTES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
         "fp16": 2, "fp32": 4, "fp64": 8, "bf16": 2}
SUM, AVG, USER = 0, 4, 5
SAME_EVERYWHERE = ("AllReduce", "AllGather", "Broadcast", "Bcast")


def may_be_compressed(output, config):
    """Whether anything allows a call to differ from plain NCCL's."""
    size = output.count * BYTES[output.type]
    if output.kind == "ReduceScatter":
        size *= output.members
    return (config.bits > 0 and output.kind in ("AllReduce", "ReduceScatter") and output.members > 1
            and output.type in ("fp32", "fp16", "bf16") and output.op in (SUM, AVG, USER)
            and size >= MIN_BYTES and output.seen >= WARMUP)


def name(key, output):
    rank, uid, turn, _ = key
    return (f"#{uid}{f' round {turn}' if turn else ''} {output.kind} c{output.comm} {output.type} "
            f"x {output.count} on rank {rank}")


def differences(plain, other, config):
    """How `other` differs from the plain run where it must not."""
    if other.codes != plain.codes:
        yield f"{config}: error codes differ: {sorted(set(plain.codes) ^ set(other.codes))[:8]}"
    if other.outputs.keys() != plain.outputs.keys():
        yield f"{config}: {len(plain.outputs)} results became {len(other.outputs)}"


def exact_difference(key, plain, other):
    parts = [part for part in ("data", "rest", "untouched") if getattr(plain, part) != getattr(other, part)]
    return f"{name(key, other)} differs from plain NCCL in {', '.join(parts)}" if parts else None


def check_output(key, plain, on, config):
    if on.rest != plain.rest:
        yield f"{name(key, on)}: memory around the result changed"
    if not may_be_compressed(on, config):
        wrong = exact_difference(key, plain, on)
        if wrong:
            yield wrong
    elif on.data != plain.data:
        if on.worst > 1:
            yield f"{name(key, on)}: error is {on.worst:.3g} x the codec's bound"
        if on.mean_square > 1:
            yield f"{name(key, on)}: mean square error is {on.mean_square:.3g} x what the codec explains"


def check_alike(outputs):
    """Collectives that give all ranks the same must give them the same bits."""
    by_call = {}
    for key, output in outputs.items():
        if output.kind in SAME_EVERYWHERE and not output.untouched:
            first = by_call.setdefault(key[1:], (key, output))
            if output.data != first[1].data:
                yield f"{name(key, output)} differs from rank {first[0][0]}'s"


def check_plain(plain):
    """The emulator, and this test itself: results must be right without Cinch."""
    for key, output in plain.outputs.items():
        if output.worst > 1 or output.mean_square > 1:
            yield f"plain: {name(key, output)}: error is {output.worst:.3g} x the rounding's bound"


def check_ends(config, result):
    for line in result.ends:
        yield f"{config}: {line}"


def compare_modes(plain, off, on, config):
    wrong = list(check_ends("plain", plain)) + list(check_ends("off", off)) + list(check_ends(config.name, on))
    wrong += check_plain(plain)
    if wrong:
        return wrong
    wrong += differences(plain, off, "off")
    wrong += differences(plain, on, config.name)
    for key, output in plain.outputs.items():
        if key in off.outputs and exact_difference(key, output, off.outputs[key]):
            wrong.append("off: " + exact_difference(key, output, off.outputs[key]))
        if key in on.outputs:
            wrong += [f"{config.name}: {line}" for line in check_output(key, output, on.outputs[key], config)]
    for mode, result in (("plain", plain), ("off", off), (config.name, on)):
        wrong += [f"{mode}: {line}" for line in check_alike(result.outputs)]
    return wrong


def compressed_calls(plain, on):
    return sum(1 for key, output in plain.outputs.items()
               if key in on.outputs and on.outputs[key].data != output.data)
