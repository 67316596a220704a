"""The codecs, block by block, written from docs/wire-format.md alone.

Each has
    bits, block    of a code; values of a block
    meta_bytes     of a block
    rotated, dithers
    encode(values, dither)     the metadata as bytes, and the codes; dither: one per value, or None
    decode(meta, codes)        the values
"""

import math
import struct

from independent_floats import (BF16, E2M1, E4M3, FP16, FP32, add, bf16_not_above, bf16_not_below,
                                bits_of, divide, fp32, multiply, value_of)

SMALLEST_SCALE = 2.0**-120
RANGE_LIMIT = 2.0**126
NAN_SCALE = struct.pack("<H", 0x7FC0)


def all_finite(values):
    return all(map(math.isfinite, values))


def clamp(value, low, high):
    return min(max(value, low), high)


def inverse_of(scale):
    return divide(1.0, scale) if scale >= SMALLEST_SCALE else 0.0


def or_zero(scale):
    """What is stored for a scale that may be too small."""
    return scale if scale >= SMALLEST_SCALE else 0.0


def largest_magnitude(values):
    return min(max(map(abs, values), default=0.0), RANGE_LIMIT)


def tree_sum(values, n_total):
    """Sum of magnitudes: octets at distance 4, 2, 1, then over the octets."""
    sizes = [abs(value) for value in values] + [0.0] * (n_total - len(values))

    def fold(parts):
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [add(a, b) for a, b in zip(parts[:half], parts[half:])]
        return parts[0]

    return fold([fold(sizes[first:first + 8]) for first in range(0, n_total, 8)])


def load_bf16(meta):
    return value_of(BF16, struct.unpack("<H", meta)[0])


def store_bf16(value):
    return struct.pack("<H", bits_of(BF16, value))


class Codec:
    rotated = dithers = False

    def __init__(self, bits, meta_bytes, block):
        self.bits, self.meta_bytes, self.block = bits, meta_bytes, block

    def rounded(self, positions, dither):
        """Codes of positions: the nearest from 0 to 2^b - 1."""
        if dither:
            positions = [add(position, d) for position, d in zip(positions, dither)]
        return [round(clamp(position, 0.0, 2.0**self.bits - 1)) for position in positions]


class Uniform(Codec):
    dithers = True

    def __init__(self, bits, block):
        super().__init__(bits, 4, block)

    def pair(self, values, outwards):
        low = clamp(min(values), -RANGE_LIMIT, RANGE_LIMIT) + 0.0  # -0 becomes +0
        high = clamp(max(values), -RANGE_LIMIT, RANGE_LIMIT)
        per_code = divide(1.0, 2.0**self.bits - 1)
        if outwards:
            minimum = bf16_not_above(low)
            step = bf16_not_below(multiply(add(high, -value_of(BF16, minimum)), per_code))
        else:
            width, lowest = add(high, -low), low
            if self.bits == 2:
                lowest = add(low, multiply(width, fp32(0.075)))
                per_code = multiply(fp32(0.85), per_code)
            minimum = bits_of(BF16, lowest)
            step = bits_of(BF16, multiply(width, per_code))
        return (step if value_of(BF16, step) >= SMALLEST_SCALE else 0), minimum

    def encode(self, values, dither):
        if not all_finite(values):
            return NAN_SCALE + b"\0\0", [0] * len(values)
        meta = struct.pack("<HH", *self.pair(values, dither is not None))
        step, minimum = load_bf16(meta[:2]), load_bf16(meta[2:])
        inverse = inverse_of(step)
        positions = [multiply(add(p, -minimum), inverse) for p in values]
        return meta, self.rounded(positions, dither)

    def decode(self, meta, codes):
        step, minimum = load_bf16(meta[:2]), load_bf16(meta[2:])
        if not all_finite([step, minimum]):
            return [math.nan] * len(codes)
        return [add(minimum, multiply(float(code), step)) for code in codes]


class Clipped(Codec):
    def __init__(self, bits, block):
        super().__init__(bits, 2, block)
        self.top = 2.0**bits - 1
        self.share = divide(fp32({2: 0.54, 3: 0.74, 4: 0.88}.get(bits, 1.0)), self.top)
        self.dithers = bits >= 5

    def encode(self, values, dither):
        if not all_finite(values):
            return NAN_SCALE, [0] * len(values)
        exact = or_zero(multiply(largest_magnitude(values), self.share))
        meta = store_bf16(exact)
        if dither:
            meta = struct.pack("<H", bf16_not_below(exact))
        half = load_bf16(meta)
        inverse = divide(1.0, 2 * half) if half >= SMALLEST_SCALE else 0.0
        return meta, self.rounded([add(multiply(p, inverse), self.top / 2) for p in values], dither)

    def decode(self, meta, codes):
        half = load_bf16(meta)
        if not math.isfinite(half):
            return [math.nan] * len(codes)
        return [multiply(2 * code - self.top, half) for code in codes]


class Rotated(Codec):
    """After rotation; all of a block exists."""

    rotated = True
    TABLES = {2: (divide(1.0, 78.0), 0.0, 117.0, [39, 126]),
              3: (fp32(0.0252), fp32(1.895e-7), 192.0, [20, 60, 107, 172]),
              4: (fp32(0.0475), fp32(2.96e-7), 230.0, [10, 32, 53, 76, 101, 129, 164, 218])}

    def __init__(self, bits):
        super().__init__(bits, 2, 128)
        self.linear, self.cubic, self.limit, positive = self.TABLES[bits]
        self.levels = [-level for level in reversed(positive)] + positive

    def encode(self, values, _):
        total = tree_sum(values, self.block)
        if not math.isfinite(total):
            return NAN_SCALE, [0] * len(values)
        meta = store_bf16(or_zero(multiply(total, 2.0**-13)))
        inverse = inverse_of(load_bf16(meta))
        return meta, [self.code_of(multiply(p, inverse)) for p in values]

    def code_of(self, scaled):
        t = clamp(scaled, -self.limit, self.limit)
        slope = add(self.linear, -multiply(self.cubic, multiply(t, t)))
        return round(add(multiply(t, slope), 2.0 ** (self.bits - 1) - 0.5))

    def decode(self, meta, codes):
        step = load_bf16(meta)
        if not math.isfinite(step):
            return [math.nan] * len(codes)
        return [multiply(float(self.levels[code]), step) for code in codes]


class Sign(Codec):
    def __init__(self, block):
        super().__init__(1, 2, block)

    def encode(self, values, _):
        total = tree_sum(values, self.block)
        if not math.isfinite(total):
            return NAN_SCALE, [0] * len(values)
        return store_bf16(divide(total, len(values))), [int(p >= 0) for p in values]

    def decode(self, meta, codes):
        mean = load_bf16(meta)
        if not math.isfinite(mean):
            return [math.nan] * len(codes)
        return [mean if code else -mean for code in codes]


class Float8(Codec):
    def __init__(self, block):
        super().__init__(8, 2, block)

    def encode(self, values, _):
        if not all_finite(values):
            return NAN_SCALE, [0] * len(values)
        meta = store_bf16(or_zero(multiply(largest_magnitude(values), divide(1.0, 448.0))))
        inverse = inverse_of(load_bf16(meta))
        return meta, [E4M3.code_of(multiply(p, inverse)) for p in values]

    def decode(self, meta, codes):
        unit = load_bf16(meta)
        if not math.isfinite(unit):
            return [math.nan] * len(codes)
        return [multiply(E4M3.value_of(code), unit) for code in codes]


def groups_of(values, size, n_groups):
    return [values[group * size:(group + 1) * size] for group in range(n_groups)]


class Mxfp4(Codec):
    def __init__(self):
        super().__init__(4, 4, 128)

    def encode(self, values, _):
        meta, codes = b"", []
        for group in groups_of(values, 32, 4):
            if not all_finite(group):
                meta, codes = meta + b"\xff", codes + [0] * len(group)
                continue
            field = bits_of(FP32, max(map(abs, group), default=0.0)) >> 23
            stored = max(field - 2, 0)
            meta += bytes([stored])
            codes += [E2M1.code_of(multiply(p, 2.0 ** (127 - stored))) for p in group]
        return meta, codes

    def decode(self, meta, codes):
        values = []
        for stored, group in zip(meta, groups_of(codes, 32, 4)):
            unit = math.nan if stored == 0xFF else 2.0 ** (stored - 127)
            values += [multiply(E2M1.value_of(code), unit) for code in group]
        return values


class Nvfp4(Codec):
    def __init__(self):
        super().__init__(4, 12, 128)

    def encode(self, values, _):
        if not all_finite(values):
            return struct.pack("<I8x", 0x7FC00000), [0] * len(values)
        unit = or_zero(multiply(largest_magnitude(values), divide(1.0, 2688.0)))
        meta, codes = struct.pack("<f", unit), []
        for group in groups_of(values, 16, 8):
            relative = multiply(largest_magnitude(group), inverse_of(unit))
            factor = E4M3.code_of(multiply(relative, divide(1.0, 6.0)))
            inverse = inverse_of(multiply(E4M3.value_of(factor), unit))
            meta += bytes([factor])
            codes += [E2M1.code_of(multiply(p, inverse)) for p in group]
        return meta, codes

    def decode(self, meta, codes):
        values = []
        for factor, group in zip(meta[4:], groups_of(codes, 16, 8)):
            scale = multiply(E4M3.value_of(factor), struct.unpack("<f", meta[:4])[0])
            marked = not math.isfinite(scale)
            values += [math.nan if marked else multiply(E2M1.value_of(code), scale)
                       for code in group]
        return values


class Cast(Codec):
    def __init__(self, kind):
        super().__init__(32 if kind == FP32 else 16, 0, 128)
        self.kind = kind

    def encode(self, values, _):
        return b"", [bits_of(self.kind, p) for p in values]

    def decode(self, _, codes):
        return [value_of(self.kind, code) for code in codes]


def codec_of(ident):
    """The codec of an id on the wire."""
    block = {0: 128, 1: 64, 2: 256}[ident // 64]
    family, number = divmod(ident % 64, 16)
    if family < 3:
        return [Uniform, Clipped, lambda bits, _: Rotated(bits)][family](number, block)
    return {1: lambda: Sign(block), 4: Mxfp4, 5: Nvfp4, 8: lambda: Float8(block),
            13: lambda: Cast(FP32), 14: lambda: Cast(BF16), 15: lambda: Cast(FP16)}[number]()
