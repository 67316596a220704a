"""What a kernel executes for each tile: the longest way through its main loop that stays out of code
that seldom runs. That is an upper bound of the instructions that a warp issues for a tile.

Seldom runs what cannot be reached but through markCold(), through a call (the divisions of numbers
near the ends of the exponents), or through a shuffle of a warp whose lanes are not together. A loop
inside of the main loop (over the peers of a reduce) counts once."""

import collections

import cubin

COLD = (cubin.COUNTER_TRIGGER, cubin.CALL, cubin.COLLECTIVE)
ENDS = (cubin.EXIT, cubin.RETURN, cubin.BREAK)


class Block:
    """Instructions that are executed together."""

    def __init__(self, instructions):
        self.start = instructions[0].address
        self.length = len(instructions)
        self.n_wide = sum(each.is_wide for each in instructions)
        self.is_cold = any(each.opcode in COLD and not each.is_guarded for each in instructions)
        self.successors = successors(instructions[-1])


def successors(last):
    """Where execution goes after the last instruction of a block."""
    following = [last.address + cubin.INSTRUCTION_BYTES]
    if last.opcode == cubin.BRANCH:
        return [last.target] + following * last.is_guarded
    return following if last.opcode not in ENDS or last.is_guarded else []


def blocks_of(instructions):
    """The blocks of a kernel by their addresses."""
    if any(each.opcode in cubin.INDIRECT_BRANCHES for each in instructions):
        raise ValueError("an indirect branch")
    ends = (cubin.BRANCH, cubin.CALL) + ENDS
    leaders = {instructions[0].address}
    leaders |= {each.target for each in instructions if each.target is not None}
    leaders |= {each.address + cubin.INSTRUCTION_BYTES for each in instructions if each.opcode in ends}
    starts = [i for i, each in enumerate(instructions) if each.address in leaders]
    return {instructions[a].address: Block(instructions[a:b])
            for a, b in zip(starts, starts[1:] + [len(instructions)])}


def loops(blocks):
    """The body of every loop, by the address of its first block."""
    predecessors = collections.defaultdict(list)
    for block in blocks.values():
        for address in block.successors:
            predecessors[address].append(block.start)
    bodies = {}
    for block in blocks.values():
        for header in block.successors:
            if header <= block.start:
                body = bodies.setdefault(header, {header})
                pending = [block.start]
                while pending:
                    address = pending.pop()
                    if address not in body and address >= header:
                        body.add(address)
                        pending += predecessors[address]
    return bodies


def longest_way(blocks, header, body):
    """Most instructions from a loop's header back to it, and the 16-byte accesses among them."""
    best = {header: (blocks[header].length, blocks[header].n_wide)}
    longest = (0, 0)
    for address in sorted(body):
        if address not in best:
            continue
        for successor in blocks[address].successors:
            if successor == header:
                longest = max(longest, best[address])
            elif successor in body and successor > address and not blocks[successor].is_cold:
                length, n_wide = best[address]
                way = (length + blocks[successor].length, n_wide + blocks[successor].n_wide)
                best[successor] = max(best.get(successor, way), way)
    return longest


def hot_path(instructions):
    """(instructions, 16-byte accesses) of the way through the main loop: the one with the most
    accesses."""
    blocks = blocks_of(instructions)
    ways = [longest_way(blocks, header, body) for header, body in loops(blocks).items()
            if not blocks[header].is_cold]
    return max(ways, key=lambda way: (way[1], way[0]), default=(0, 0))
