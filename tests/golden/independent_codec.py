"""Checks golden vectors with a second codec, written from docs/wire-format.md alone.

Nothing is shared with the C++ sources: neither code nor a compiler's floating point.

    independent_codec.py tests/golden/v1
"""

import math
import pathlib
import struct
import sys

from independent_families import Uniform, codec_of
from independent_floats import BF16, FORMATS, FP32, add, bits_of, multiply, value_of

OCTET, TILE = 8, 1024
RESIDUAL_FP32, RESIDUAL_BF16, RESIDUAL_INT8 = 0, 1, 2
MIXED = 255  # in the header of a shard whose pieces have codecs of their own
ONE = struct.pack("<f", 1.0)
U32 = 0xFFFFFFFF


def butterflies(values):
    values = list(values)
    distance = 1
    while distance < len(values):
        for i in range(len(values)):
            if not i & distance:
                a, b = values[i], values[i + distance]
                values[i], values[i + distance] = add(a, b), add(a, -b)
        distance *= 2
    return values


def octet_signs(slot, ordinal, octet):
    key = slot * 0x9E3779B1 & U32 ^ ordinal * 0x85EBCA77 & U32
    mixed = octet * 0x9E3779B9 + key & U32
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & U32
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & U32
    return mixed >> 24


def philox(counter, seed):
    """Philox4x32 with 7 rounds."""
    c, key = list(counter), [seed & U32, seed >> 32]
    for _ in range(7):
        first, second = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [second >> 32 ^ c[1] ^ key[0], second & U32, first >> 32 ^ c[3] ^ key[1], first & U32]
        key = [key[0] + 0x9E3779B9 & U32, key[1] + 0xBB67AE85 & U32]
    return c


def pack_plane(codes, n_codes, width):
    packed = sum(code << i * width for i, code in enumerate(codes))
    return packed.to_bytes(n_codes * width // 8, "little")


def unpack_plane(data, n_codes, width):
    packed = int.from_bytes(data, "little")
    return [packed >> i * width & (1 << width) - 1 for i in range(n_codes)]


class Tiles:
    """Where a codec puts the blocks of a shard, and their bytes."""

    def __init__(self, codec):
        self.codec = codec
        self.low = {3: 2, 5: 4, 6: 4, 32: 16}.get(codec.bits, codec.bits)
        self.blocks = TILE // codec.block
        self.codes_at = -(-self.blocks * codec.meta_bytes // 16) * 16
        self.n_bytes = self.codes_at + TILE * codec.bits // 8

    def count(self, n_values):
        return -(-n_values // TILE)

    def places(self, block):
        """The bytes of the metadata and of the codes of a block, from the first tile."""
        tile, index = divmod(block, self.blocks)
        meta = tile * self.n_bytes + index * self.codec.meta_bytes
        size = self.codec.block * self.codec.bits // 8
        codes = tile * self.n_bytes + self.codes_at + index * size
        return slice(meta, meta + self.codec.meta_bytes), slice(codes, codes + size)

    def pack(self, codes):
        mask = (1 << self.low) - 1
        return (pack_plane([code & mask for code in codes], self.codec.block, self.low) +
                pack_plane([code >> self.low for code in codes], self.codec.block,
                           self.codec.bits - self.low))

    def unpack(self, data):
        split = self.codec.block * self.low // 8
        low = unpack_plane(data[:split], self.codec.block, self.low)
        high = unpack_plane(data[split:], self.codec.block, self.codec.bits - self.low)
        return [a | b << self.low for a, b in zip(low, high)]


class Call:
    """What signs and dithers depend on besides the place of a value."""

    def __init__(self, slot, ordinal, stochastic=False, seed=0, stage=0):
        self.slot, self.ordinal = slot, ordinal
        self.stochastic, self.seed, self.stage = stochastic, seed, stage

    def signs(self, first, n_values):
        return [octet_signs(self.slot, self.ordinal, i // OCTET) >> i % OCTET & 1
                for i in range(first, first + n_values)]

    def dither(self, shard, first, n_values):
        dither = []
        for octet in range(first // OCTET, -(-(first + n_values) // OCTET)):
            words = philox([octet, shard * 2 + self.stage, self.ordinal, self.slot], self.seed)
            dither += [((word >> half & 0xFFFF) - 32767.5) / 65536
                       for word in words for half in (0, 16)]
        return dither[:n_values]


def change_signs(values, signs):
    return [-value if sign else value for value, sign in zip(values, signs)]


def encode_values(codec, values, call, shard=0, start=0):
    """The tiles of a run of values of a shard; `start` is the place of the first, at a tile."""
    tiles = Tiles(codec)
    data = bytearray(tiles.count(len(values)) * tiles.n_bytes)
    for first in range(0, len(values), codec.block):
        block = values[first:first + codec.block]
        dither = None
        if call.stochastic and codec.dithers:
            dither = call.dither(shard, start + first, len(block))
        if codec.rotated:
            block = block + [0.0] * (codec.block - len(block))
            block = change_signs(block, call.signs(start + first, codec.block))
            block = butterflies([multiply(value, 2.0**-7) for value in block])
        meta_at, codes_at = tiles.places(first // codec.block)
        data[meta_at], codes = codec.encode(block, dither)
        data[codes_at] = tiles.pack(codes)
    return bytes(data)


def decode_values(codec, data, n_values, call, start=0):
    tiles = Tiles(codec)
    values = []
    for first in range(0, n_values, codec.block):
        meta_at, codes_at = tiles.places(first // codec.block)
        block = codec.decode(data[meta_at], tiles.unpack(data[codes_at]))
        if codec.rotated:
            block = change_signs(butterflies(block), call.signs(start + first, codec.block))
        values += block[:n_values - first]
    return values


class Residuals:
    """How residuals are stored."""

    INT8 = Uniform(8, 128)

    def __init__(self, kind):
        self.kind = kind

    def load(self, data, n_values):
        if self.kind == RESIDUAL_INT8:
            return decode_values(self.INT8, data, n_values, Call(0, 0))
        kind = BF16 if self.kind == RESIDUAL_BF16 else FP32
        return [value_of(kind, bits) for bits in struct.unpack(f"<{n_values}{FORMATS[kind]}", data)]

    def store(self, values):
        if self.kind == RESIDUAL_INT8:
            return encode_values(self.INT8, values, Call(0, 0))
        kind = BF16 if self.kind == RESIDUAL_BF16 else FP32
        return struct.pack(f"<{len(values)}{FORMATS[kind]}",
                           *[bits_of(kind, value) for value in values])

    def n_bytes(self, n_values):
        if self.kind == RESIDUAL_INT8:
            tiles = Tiles(self.INT8)
            return tiles.count(n_values) * tiles.n_bytes
        return n_values * (2 if self.kind == RESIDUAL_BF16 else 4)


class Layout:
    """How a bucket is cut into shards; each is a list of (codec, first tile, tiles)."""

    def __init__(self, count, shards, fixed=None):
        self.count, self.shards, self.fixed = count, shards, fixed

    @staticmethod
    def of_one_codec(codec, count, n_shards, fixed):
        if fixed:
            tiles = -(-fixed // TILE)
            return Layout(count, [[(codec, 0, tiles)]] * n_shards, fixed)
        base, extra = divmod(-(-count // TILE), n_shards)
        return Layout(count, [[(codec, 0, base + (i < extra))] for i in range(n_shards)])

    @staticmethod
    def of_segments(segments, count, n_shards):
        """Cut where the encoded bytes are nearest above an even share."""
        queue = [(codec_of(ident), n_tiles) for n_tiles, ident in segments]
        total = sum(Tiles(codec).n_bytes * n_tiles for codec, n_tiles in queue)
        tiles = [codec for codec, n_tiles in queue for _ in range(n_tiles)]
        shards, at, n_bytes = [], 0, 0
        for shard in range(n_shards):
            share = total // n_shards * (shard + 1) + total % n_shards * (shard + 1) // n_shards
            pieces, first = [], at
            while at < len(tiles) and n_bytes < share:
                pieces.append((tiles[at], at - first, 1))
                n_bytes += Tiles(tiles[at]).n_bytes
                at += 1
            shards.append(pieces)
        return Layout(count, shards)

    def span(self, index):
        """First and end value of a shard."""
        if self.fixed:
            return index * self.fixed, (index + 1) * self.fixed
        tiles = [sum(n_tiles for _, _, n_tiles in shard) for shard in self.shards]
        ends = (sum(tiles[:index]) * TILE, sum(tiles[:index + 1]) * TILE)
        return [min(end, self.count) for end in ends]

    def stride(self):
        return 16 + max(sum(n_tiles * Tiles(codec).n_bytes for codec, _, n_tiles in shard)
                        for shard in self.shards)

    def pieces(self, index):
        """Codec, first value and end value of each piece of a shard."""
        first, end = self.span(index)
        return [(codec, tile * TILE, min((tile + n_tiles) * TILE, end - first))
                for codec, tile, n_tiles in self.shards[index]]


class Golden:
    """One file of vectors."""

    def __init__(self, path):
        self.sections = self.read_sections(path.read_bytes())
        (count, self.ranks, ident, self.kind, self.plan, self.slot, self.ordinal, self.own,
         self.gain, self.factor, self.fixed) = struct.unpack("<Q7IffI", self["parameters"])
        self.decay, residual_kind, self.stochastic, _, self.seed = struct.unpack(
            "<f3IQ", self.sections.get("rule", struct.pack("<f3IQ", 1.0, RESIDUAL_FP32, 0, 0, 0)))
        self.residuals = Residuals(residual_kind)
        if "segments" in self.sections:
            self.ident = MIXED
            self.layout = Layout.of_segments(struct.iter_unpack("<QQ", self["segments"]), count,
                                             self.ranks)
        else:
            self.ident = ident
            self.layout = Layout.of_one_codec(codec_of(ident), count, self.ranks, self.fixed)
        self.stride = self.layout.stride()
        self.input_factor = struct.unpack("<f", self.sections.get("inputFactor", ONE))[0]

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

    def call(self, stage=0):
        return Call(self.slot, self.ordinal, self.stochastic, self.seed, stage)

    def own_values(self):
        """The bucket of the rank that encodes, times its factor."""
        stored = struct.unpack(f"<{self.layout.count}{FORMATS[self.kind]}", self["input"])
        return [multiply(value_of(self.kind, bits), self.input_factor) for bits in stored]

    def to_elements(self, values):
        return struct.pack(f"<{len(values)}{FORMATS[self.kind]}",
                           *[bits_of(self.kind, value) for value in values])

    def shard_values(self, values, index):
        first, end = self.layout.span(index)
        return values[first:end]

    def shard_bytes(self, name, index):
        return self[name][index * self.stride:(index + 1) * self.stride]

    def shard_residual(self, index):
        """A shard's part of a whole bucket's residuals; None: there is no feedback."""
        if "residual" not in self.sections:
            return None
        sizes = [end - first for first, end in map(self.layout.span, range(index + 1))]
        begin = sum(map(self.residuals.n_bytes, sizes[:-1]))
        data = self["residual"][begin:begin + self.residuals.n_bytes(sizes[-1])]
        return self.residuals.load(data, sizes[-1])

    def encode_shard(self, values, residual, shard, stage):
        """The bytes of a shard, and the next residual."""
        coded = values
        if residual is not None:
            coded = [add(x, multiply(self.gain, e)) for x, e in zip(values, residual)]
        data = struct.pack("<HBBIII", 0xC19C, 1, self.ident, self.plan, self.slot, self.ordinal)
        for codec, first, end in self.layout.pieces(shard):
            data += encode_values(codec, coded[first:end], self.call(stage), shard, first)
        data = data.ljust(self.stride, b"\0")
        if residual is None:
            return data, b""
        left = [add(multiply(self.decay, e), add(x, -d))
                for x, e, d in zip(values, residual, self.decode_shard(data, shard))]
        return data, self.residuals.store([e if math.isfinite(e) else 0.0 for e in left])

    def decode_shard(self, data, shard):
        values, at = [], 16
        for codec, first, end in self.layout.pieces(shard):
            values += decode_values(codec, data[at:], end - first, self.call(), first)
            at += Tiles(codec).count(end - first) * Tiles(codec).n_bytes
        return values

    def check_encode(self):
        encoded, left = b"", b""
        for rank in range(self.ranks):
            values = self.shard_values(self.own_values(), rank)
            data, e = self.encode_shard(values, self.shard_residual(rank), rank, stage=0)
            encoded, left = encoded + data, left + e
        assert encoded == self["encoded"]
        assert left == self.sections.get("nextResidual", b"")

    def check_decode(self):
        values = []
        for rank in range(self.ranks):
            values += self.decode_shard(self.shard_bytes("encoded", rank), rank)
        assert self.to_elements(values) == self["decoded"]

    def part_of(self, rank):
        if rank != self.own:
            return self.decode_shard(self.shard_bytes("peers", rank), self.own)
        values, residual = self.shard_values(self.own_values(), rank), self.shard_residual(rank)
        return values if residual is None else list(map(add, values, residual))

    def check_reduce(self):
        total = self.part_of(0)
        for rank in range(1, self.ranks):
            total = list(map(add, total, self.part_of(rank)))
        total = [multiply(value, self.factor) for value in total]
        residual = None
        if "ownerResidual" in self.sections:
            residual = self.residuals.load(self["ownerResidual"], len(total))
        reduced, left = self.encode_shard(total, residual, self.own, stage=1)
        assert reduced == self["reduced"]
        assert left == self.sections.get("nextOwnerResidual", b"")
        if self.fixed:
            assert self.to_elements(total) == self["values"]

    def check_pair(self):
        peer = self.decode_shard(self.shard_bytes("peers", 0), self.own)
        own = self.decode_shard(self.shard_bytes("encoded", self.own), self.own)
        total = [multiply(add(a, b), self.factor) for a, b in zip(peer, own)]
        assert self.to_elements(total) == self["pairValues"]


def main(folder):
    paths = sorted(pathlib.Path(folder).glob("*.bin"))
    assert paths, f"no golden vectors in {folder}"
    for path in paths:
        golden = Golden(path)
        golden.check_encode()
        golden.check_decode()
        golden.check_reduce()
        if "pairValues" in golden.sections:
            golden.check_pair()
        print(f"{path.name} agrees")


if __name__ == "__main__":
    main(sys.argv[1])
