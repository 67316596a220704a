"""Checks golden vectors with a second codec, written from docs/wire-format.md alone.

Arithmetic is exact (fractions), then rounded as the document says, so nothing is shared with the
C++ sources: neither code nor a compiler's floating point.

    independent_codec.py tests/golden/v1
"""

import math
import pathlib
import struct
import sys
from fractions import Fraction

FP32, FP16, BF16 = 0, 1, 2
FORMATS = {FP32: "I", FP16: "H", BF16: "H"}
CANONICAL_NAN = {FP32: 0x7FC00000, FP16: 0x7E00, BF16: 0x7FC0}
MANTISSA_BITS = {FP32: 23, FP16: 10, BF16: 7}
LEAST_EXPONENT = {FP32: -126, FP16: -14, BF16: -126}
END_EXPONENT = {FP32: 128, FP16: 16, BF16: 128}
BLOCK, TILE_BLOCKS = 128, 8


def round_to(kind, exact):
    """The value of the type nearest to a fraction, ties to even, as a Python float."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    last_place = Fraction(2) ** (max(exponent, LEAST_EXPONENT[kind]) - MANTISSA_BITS[kind])
    rounded = round(size / last_place) * last_place  # Python rounds fractions half to even
    value = math.inf if rounded >= Fraction(2) ** END_EXPONENT[kind] else float(rounded)
    return math.copysign(value, -1 if exact < 0 else 1)


def combine(operation, a, b):
    """One fp32 operation: exact, then rounded. What is not finite follows IEEE, as floats do."""
    if math.isfinite(a) and math.isfinite(b):
        exact = operation(Fraction(a), Fraction(b))
        if exact != 0:
            return round_to(FP32, exact)
    return operation(a, b)


def add(a, b):
    return combine(lambda x, y: x + y, a, b)


def multiply(a, b):
    return combine(lambda x, y: x * y, a, b)


def bits_of(kind, value):
    if math.isnan(value):
        return CANONICAL_NAN[kind]
    if math.isfinite(value):
        value = math.copysign(round_to(kind, Fraction(value)), value)
    if kind == FP16:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits >> 16 if kind == BF16 else bits


def value_of(kind, bits):
    if kind == FP16:
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << 16 if kind == BF16 else bits))[0]


def decode_value(pair, code):
    step, minimum = (value_of(BF16, bits) for bits in pair)
    if not (math.isfinite(step) and math.isfinite(minimum)):
        return math.nan
    return add(minimum, multiply(float(code), step))


def make_pair(coded, top):
    limit = 2.0**126
    low = max(min(min(coded), limit), -limit) or 0.0  # -0 becomes +0
    high = max(min(max(coded), limit), -limit)
    step = bits_of(BF16, multiply(add(high, -low), round_to(FP32, Fraction(1, int(top)))))
    return (step if value_of(BF16, step) >= 2.0**-120 else 0, bits_of(BF16, low))


def encode_block(values, residual, gain, bits):
    """The pair, the codes and the next residual of a block."""
    coded = [add(x, multiply(gain, e)) for x, e in zip(values, residual)]
    if not all(map(math.isfinite, coded)):
        return (0x7FC0, 0), [0] * len(coded), [0.0] * len(coded)
    top = float(2**bits - 1)
    pair = make_pair(coded, top)
    step, minimum = (value_of(BF16, stored) for stored in pair)
    inverse = round_to(FP32, 1 / Fraction(step)) if step else 0.0
    positions = [multiply(add(p, -minimum), inverse) for p in coded]
    codes = [round(min(max(position, 0.0), top)) for position in positions]
    left = [add(e, add(x, -decode_value(pair, code)))
            for x, e, code in zip(values, residual, codes)]
    return pair, codes, [e if math.isfinite(e) else 0.0 for e in left]


class Golden:
    """One file of vectors."""

    def __init__(self, path):
        self.sections = self.read_sections(path.read_bytes())
        (self.count, self.ranks, self.bits, self.kind, self.plan, self.slot, self.ordinal, self.own,
         self.gain, self.factor, self.fixed) = struct.unpack("<Q7IffI", self["parameters"])
        self.tiles = -(-self.count // (BLOCK * TILE_BLOCKS))
        self.tile_bytes = 32 + TILE_BLOCKS * 16 * self.bits
        first, end = self.shard(0)
        self.stride = 16 + -(-(end - first) // (BLOCK * TILE_BLOCKS)) * self.tile_bytes
        self.input_factor = self.floats("inputFactor")[0] if "inputFactor" in self.sections else 1.0

    @staticmethod
    def read_sections(data):
        assert data[:8] == b"CINCHGLD"
        sections, at = {}, 8
        while at < len(data):
            name, n_bytes = struct.unpack_from("<24sQ", data, at)
            at += 32
            sections[name.rstrip(b"\0").decode()] = data[at:at + n_bytes]
            at += n_bytes
        return sections

    def __getitem__(self, name):
        return self.sections[name]

    def floats(self, name):
        return list(struct.unpack(f"<{len(self[name]) // 4}f", self[name]))

    def own_values(self):
        """The bucket of the rank that encodes, times its factor."""
        stored = struct.unpack(f"<{self.count}{FORMATS[self.kind]}", self["input"])
        return [multiply(value_of(self.kind, bits), self.input_factor) for bits in stored]

    def to_elements(self, values):
        return struct.pack(f"<{len(values)}{FORMATS[self.kind]}",
                           *[bits_of(self.kind, value) for value in values])

    def shard(self, index):
        """First and end value of a shard."""
        if self.fixed:
            return index * self.fixed, (index + 1) * self.fixed
        base, extra = divmod(self.tiles, self.ranks)
        ends = [(base * i + min(i, extra)) * BLOCK * TILE_BLOCKS for i in (index, index + 1)]
        return [min(end, self.count) for end in ends]

    def offsets(self, block):
        """Where the pair and the codes of a block are in a shard."""
        tile = 16 + block // TILE_BLOCKS * self.tile_bytes
        in_tile = block % TILE_BLOCKS
        return tile + 4 * in_tile, tile + 32 + 16 * self.bits * in_tile

    def encode_shard(self, values, residual):
        data = bytearray(self.stride)
        struct.pack_into("<HBBIII", data, 0, 0xC19C, 1, self.bits, self.plan, self.slot,
                         self.ordinal)
        left = []
        for first in range(0, len(values), BLOCK):
            end = first + BLOCK
            pair, codes, e = encode_block(values[first:end], residual[first:end], self.gain,
                                          self.bits)
            pair_at, codes_at = self.offsets(first // BLOCK)
            struct.pack_into("<HH", data, pair_at, *pair)
            packed = sum(code << i * self.bits for i, code in enumerate(codes))
            data[codes_at:codes_at + 16 * self.bits] = packed.to_bytes(16 * self.bits, "little")
            left += e
        return bytes(data), left

    def decode_shard(self, data, n_values):
        values = []
        for i in range(n_values):
            pair_at, codes_at = self.offsets(i // BLOCK)
            packed = int.from_bytes(data[codes_at:codes_at + 16 * self.bits], "little")
            code = packed >> i % BLOCK * self.bits & (1 << self.bits) - 1
            values.append(decode_value(struct.unpack_from("<HH", data, pair_at), code))
        return values

    def check_encode(self):
        values, residual = self.own_values(), self.floats("residual")
        encoded, left = b"", []
        for rank in range(self.ranks):
            first, end = self.shard(rank)
            data, e = self.encode_shard(values[first:end], residual[first:end])
            encoded, left = encoded + data, left + e
        assert encoded == self["encoded"]
        assert struct.pack(f"<{len(left)}f", *left) == self["nextResidual"]

    def check_decode(self):
        values = []
        for rank in range(self.ranks):
            first, end = self.shard(rank)
            data = self["encoded"][rank * self.stride:(rank + 1) * self.stride]
            values += self.decode_shard(data, end - first)
        assert self.to_elements(values) == self["decoded"]

    def part_of(self, rank):
        first, end = self.shard(self.own)
        if rank != self.own:
            data = self["peers"][rank * self.stride:(rank + 1) * self.stride]
            return self.decode_shard(data, end - first)
        return [add(x, e) for x, e in zip(self.own_values()[first:end],
                                          self.floats("residual")[first:end])]

    def check_reduce(self):
        total = self.part_of(0)
        for rank in range(1, self.ranks):
            total = [add(a, b) for a, b in zip(total, self.part_of(rank))]
        total = [multiply(value, self.factor) for value in total]
        reduced, left = self.encode_shard(total, self.floats("ownerResidual"))
        assert reduced == self["reduced"]
        assert struct.pack(f"<{len(left)}f", *left) == self["nextOwnerResidual"]
        if self.fixed:
            assert self.to_elements(total) == self["values"]


def main(folder):
    paths = sorted(pathlib.Path(folder).glob("*.bin"))
    assert paths, f"no golden vectors in {folder}"
    for path in paths:
        golden = Golden(path)
        golden.check_encode()
        golden.check_decode()
        golden.check_reduce()
        print(f"{path.name} agrees")


if __name__ == "__main__":
    main(sys.argv[1])
