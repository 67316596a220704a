"""A trace of collective calls: written, folded and read. The format is in README.md."""

import itertools
import struct

KINDS = ("AllReduce", "AllGather", "ReduceScatter", "Reduce", "Broadcast", "AllToAll", "Gather",
         "Scatter")
OPS = ("None", "Sum", "Avg", "PreMulSum", "Other")
TYPES = ("int32", "int64", "uint8", "fp32", "fp16", "bf16", "fp64")
COLUMNS = "step,comm,kind,op,type,count,buffer,thread,truth"
VALUE_COLUMNS = "row,input,output"
WEIGHTS, ACTIVATIONS, OTHER = "w", "a", "m"
LONGEST_BLOCK = 12  # steps that may repeat together


class Numbers:
    """0, 1, 2, ... for things in the order in which they are first asked for."""

    def __init__(self):
        self.known = {}

    def __getitem__(self, thing):
        return self.known.setdefault(thing, len(self.known))


class Trace:
    """The calls of one rank, in order. What comes before the first step belongs to step 0."""

    def __init__(self, name, framework, origin, ranks):
        """ranks: of each communicator."""
        self.name = name
        self.header = {"framework": framework, "origin": origin,
                       "ranks": " ".join(map(str, ranks))}
        self.steps = [[]]
        self.values = []  # (row, values of the input, values of the output)
        self.buffers = Numbers()
        self.gradients = Numbers()

    def train(self, number):
        """The steps, to be gone through."""
        for step in range(number):
            if step > 0:
                self.steps.append([])
            yield step

    def go_to(self, step):
        """What follows belongs to that step, or to a later one that the trace has come to."""
        self.steps += [[] for _ in range(len(self.steps), step + 1)]

    def gradient(self, kind, op, type_, count, buffer, content, comm=0, thread="unknown"):
        """content: what names the parameters in the buffer and their order."""
        # A reduction of another sort of the same parameters has another residual.
        truth = f"g{self.gradients[comm, kind, type_, count, content]}"
        self.call(kind, op, type_, count, buffer, truth, comm, thread)

    def call(self, kind, op, type_, count, buffer, truth, comm=0, thread="unknown"):
        """buffer: anything hashable that stands for an address. thread: what it is called."""
        assert kind in KINDS and op in OPS and type_ in TYPES, (kind, op, type_)
        row = (comm, kind, op, type_, count, self.buffers[buffer], thread.replace(",", " "), truth)
        self.steps[-1].append(row)

    def sample(self, before, after):
        """Values of the last call's input and result, as bfloat16 in four hexadecimal digits."""
        row = sum(map(len, self.steps)) - 1
        self.values.append((row, "".join(before), "".join(after)))

    def text(self):
        lines = [f"# {key}: {value}" for key, value in self.header.items()]
        return "\n".join([*lines, COLUMNS, *folded(self.steps)]) + "\n"

    def write(self, folder, values_bytes=0):
        """values_bytes: how large the file of values may be; the last calls' are left out."""
        (folder / f"{self.name}.csv").write_text(self.text())
        lines, left = [VALUE_COLUMNS], values_bytes - len(VALUE_COLUMNS) - 1
        for value in self.values:
            lines.append(",".join(map(str, value)))
            left -= len(lines[-1]) + 1
            if left < 0:
                lines.pop()
                break
        if len(lines) > 1:
            (folder / f"{self.name}.values").write_text("\n".join(lines) + "\n")


def repetitions(steps, first, length):
    """How often the block of that length repeats from there on."""
    block = steps[first:first + length]
    starts = itertools.takewhile(lambda start: steps[start:start + length] == block,
                                 range(first, len(steps), length))
    return sum(1 for _ in starts)


def best_block(steps, first):
    """Length and repetitions of the block that saves most."""
    lengths = range(1, min(LONGEST_BLOCK, len(steps) - first) + 1)
    blocks = [(length, repetitions(steps, first, length)) for length in lengths]
    return max(blocks, key=lambda block: (block[0] * (block[1] - 1), -block[0]))


def folded(steps):
    """Lines, with steps that repeat written once."""
    first = 0
    while first < len(steps):
        length, times = best_block(steps, first)
        lines = [",".join(map(str, (step, *row)))
                 for step in range(first, first + length) for row in steps[step]]
        # A block without a call at its ends would not show how many steps it covers.
        if times > 1 and steps[first] and steps[first + length - 1]:
            yield from (f"@repeat {times}", *lines, "@end")
            first += length * times
        else:
            yield from lines[:len(steps[first])]
            first += 1


def unfolded(lines):
    """Rows as lists of fields, the step as a number."""
    block, times = None, 1
    for line in lines:
        if line.startswith("@repeat "):
            block, times = [], int(line.split()[1])
        elif line == "@end":
            span = block[-1][0] - block[0][0] + 1
            for turn in range(times):
                yield from ([row[0] + turn * span, *row[1:]] for row in block)
            block = None
        else:
            fields = line.split(",")
            row = [int(fields[0]), *fields[1:]]
            if block is None:
                yield row
            else:
                block.append(row)


def read(path):
    """Header and rows (lists of strings but for the step) of a file."""
    lines = path.read_text().splitlines()
    split = lines.index(COLUMNS)
    header = dict(line[2:].split(": ", 1) for line in lines[:split])
    return header, list(unfolded(lines[split + 1:]))


def read_values(path):
    """{number of the row: (input, output)}, each a list of numbers, of a file of values."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return {int(row): (bfloats(before), bfloats(after)) for row, before, after in rows}


def bfloats(text):
    return [struct.unpack(">f", bytes.fromhex(text[i:i + 4] + "0000"))[0] for i in range(0, len(text), 4)]
