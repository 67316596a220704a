"""What a kernel executes for each tile: the longest way through its main loop that stays out of code
that seldom runs. That is an upper bound of the instructions that a warp issues for a tile.

Seldom runs what cannot be reached but through markCold(), through the slow path of a division (of
numbers near the ends of the exponents), or through a shuffle of a warp whose lanes are not together.
Functions that are called count with what they execute. A loop inside of the main loop counts as often
as it runs where that is a constant in its code, and once where it is not (over the peers of a
reduce)."""

import collections
import functools

import cubin

COLD = (cubin.COUNTER_TRIGGER, cubin.COLLECTIVE)
ENDS = (cubin.EXIT, cubin.RETURN, cubin.BREAK)
SLOW_PATH = "slowpath"  # in the names of such functions
MOST_TRIPS = 64  # of a loop over what a lane holds


class Block:
    """Instructions that are executed together."""

    def __init__(self, instructions, functions):
        self.start = instructions[0].address
        self.instructions = instructions
        self.length = len(instructions)
        self.n_wide = sum(each.is_wide for each in instructions)
        self.successors = successors(instructions[-1])
        call = instructions[-1] if instructions[-1].opcode == cubin.CALL else None
        self.called = call.target if call else None
        is_slow = call is not None and SLOW_PATH in functions.get(call.target, "")
        self.is_cold = any(each.opcode in COLD and not each.is_guarded for each in instructions) or (
            is_slow and not call.is_guarded)


def successors(last):
    """Where execution goes after the last instruction of a block."""
    following = [last.address + cubin.INSTRUCTION_BYTES]
    if last.opcode == cubin.BRANCH:
        return [last.target] + following * last.is_guarded
    return following if last.opcode not in ENDS or last.is_guarded else []


def blocks_of(instructions, functions):
    """The blocks of a kernel by their addresses."""
    if any(each.opcode in cubin.INDIRECT_BRANCHES for each in instructions):
        raise ValueError("an indirect branch")
    ends = (cubin.BRANCH, cubin.CALL) + ENDS
    leaders = {instructions[0].address, *functions}
    leaders |= {each.target for each in instructions if each.target is not None}
    leaders |= {each.address + cubin.INSTRUCTION_BYTES for each in instructions if each.opcode in ends}
    starts = [i for i, each in enumerate(instructions) if each.address in leaders]
    return {instructions[a].address: Block(instructions[a:b], functions)
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


def trips(blocks, header, loops_of_kernel):
    """How often a loop runs that counts from 0, by a constant step, until a register is a constant, as its branch back asks
    at its end; 1 where that cannot be seen."""
    body = loops_of_kernel[header]
    inner = set().union(*(other for start, other in loops_of_kernel.items() if start != header and other < body))
    own = [each for address in sorted(body - inner) for each in blocks[address].instructions]
    backs = [blocks[address].instructions[-1] for address in body if header in blocks[address].successors]
    if len(backs) != 1 or not backs[0].is_guarded:
        return 1
    compares = [each for each in own if each.opcode in cubin.COMPARES and each.predicate == backs[0].guard
                and each.address < backs[0].address]
    if not compares:
        return 1
    last = compares[-1]
    addition = cubin.ADDITIONS[cubin.COMPARES.index(last.opcode)]
    steps = [each for each in own if each.result == last.operand and each.opcode in sum(cubin.ADDITIONS, ())
             and each.operand == each.result]
    if len(steps) != 1 or steps[0].opcode not in addition or not 0 < steps[0].constant <= last.constant:
        return 1
    n, rest = divmod(last.constant, steps[0].constant)
    return n if rest == 0 and n <= MOST_TRIPS else 1


class Ways:
    """The longest ways through the loops and functions of a kernel: (instructions, 16-byte accesses)."""

    def __init__(self, instructions, functions):
        self.blocks = blocks_of(instructions, functions)
        self.loops = loops(self.blocks)

    @functools.cache
    def around(self, header):
        """Once from a loop's first block back to it."""
        return self._longest(header, self.loops[header], lambda successor: successor == header)

    @functools.cache
    def through(self, function):
        """From a function's first instruction to a return."""
        return self._longest(function, set(self.blocks), None)

    def _of_block(self, address, outer):
        """With what it calls, and with all further rounds of a loop that it begins."""
        block = self.blocks[address]
        length, n_wide = block.length, block.n_wide
        if block.called is not None:
            called = self.through(block.called)
            length, n_wide = length + called[0], n_wide + called[1]
        if address != outer and address in self.loops:
            more = trips(self.blocks, address, self.loops) - 1
            once = self.around(address) if more else (0, 0)
            length, n_wide = length + more * once[0], n_wide + more * once[1]
        return length, n_wide

    def _longest(self, start, body, is_end):
        """Of the ways forward from `start` in `body`: to a successor that is the end, or to a return."""
        best = {start: self._of_block(start, start)}
        longest = (0, 0)
        for address in sorted(body):
            if address not in best:
                continue
            block = self.blocks[address]
            if is_end is None and block.instructions[-1].opcode == cubin.RETURN:
                longest = max(longest, best[address])
            for successor in block.successors:
                if is_end and is_end(successor):
                    longest = max(longest, best[address])
                elif successor in body and successor > address and not self.blocks[successor].is_cold:
                    length, n_wide = self._of_block(successor, start)
                    way = (best[address][0] + length, best[address][1] + n_wide)
                    best[successor] = max(best.get(successor, way), way)
        return longest


def hot_path(instructions, functions):
    """(instructions, 16-byte accesses) of the way through the main loop: the one with the most
    accesses."""
    ways = Ways(instructions, functions)
    found = [ways.around(header) for header in ways.loops if not ways.blocks[header].is_cold]
    return max(found, key=lambda way: (way[1], way[0]), default=(0, 0))
