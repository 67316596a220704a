"""Floating point for the second codec: fp32 operations, each rounded on its own, and the formats.

Python's floats are doubles. A sum, difference, product or quotient of two fp32 numbers rounded to a
double and then to fp32 is what rounding it once gives, since a double has more than twice the bits.
Conversions to 16 bits are exact (fractions), then rounded as the document says.
"""

import bisect
import math
import struct
from fractions import Fraction

FP32, FP16, BF16 = 0, 1, 2
FORMATS = {FP32: "I", FP16: "H", BF16: "H"}
CANONICAL_NAN = {FP32: 0x7FC00000, FP16: 0x7E00, BF16: 0x7FC0}
MANTISSA_BITS = {FP16: 10, BF16: 7}
LEAST_EXPONENT = {FP16: -14, BF16: -126}
END_EXPONENT = {FP16: 16, BF16: 128}


def fp32(value):
    """The fp32 number nearest to a double, ties to even."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def add(a, b):
    return fp32(a + b)


def multiply(a, b):
    return fp32(a * b)


def divide(a, b):
    return fp32(a / b)


def round_to(kind, value):
    """The 16-bit number nearest to a finite fp32 number, ties to even, as a Python float."""
    if value == 0:
        return value
    exact = abs(Fraction(value))
    exponent = math.frexp(value)[1] - 1
    last_place = Fraction(2) ** (max(exponent, LEAST_EXPONENT[kind]) - MANTISSA_BITS[kind])
    rounded = round(exact / last_place) * last_place  # Python rounds fractions half to even
    size = math.inf if rounded >= Fraction(2) ** END_EXPONENT[kind] else float(rounded)
    return math.copysign(size, value)


def bits_of(kind, value):
    if math.isnan(value):
        return CANONICAL_NAN[kind]
    if math.isfinite(value) and kind != FP32:
        value = round_to(kind, value)
    if kind == FP16:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits >> 16 if kind == BF16 else bits


def value_of(kind, bits):
    if kind == FP16:
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << 16 if kind == BF16 else bits))[0]


def bf16_not_above(value):
    """The bits of the greatest bf16 number that is not above a finite value."""
    bits = bits_of(BF16, value)
    if value_of(BF16, bits) <= value:
        return bits
    return bits + 1 if bits & 0x8000 else bits - 1


def bf16_not_below(value):
    return bf16_not_above(-value) ^ 0x8000


class SmallFloat:
    """A float of at most 8 bits without infinities: a table of its positive numbers."""

    def __init__(self, mantissa_bits, bias, n_codes, sign):
        self.sign = sign
        self.numbers = []
        for code in range(n_codes):
            exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
            if exponent > 0:
                mantissa += 1 << mantissa_bits
            self.numbers.append(mantissa * 2.0 ** (max(exponent, 1) - bias - mantissa_bits))

    def code_of(self, value):
        """The nearest number's, ties to even; saturates."""
        size, sign = abs(value), self.sign if math.copysign(1, value) < 0 else 0
        above = bisect.bisect_left(self.numbers, size)
        if above == 0:
            return sign
        if above == len(self.numbers):
            return above - 1 | sign
        down, up = size - self.numbers[above - 1], self.numbers[above] - size
        nearest = above if up < down or (up == down and above % 2 == 0) else above - 1
        return nearest | sign

    def value_of(self, code):
        index = code & self.sign - 1
        size = self.numbers[index] if index < len(self.numbers) else math.nan
        return -size if code & self.sign else size


E4M3 = SmallFloat(mantissa_bits=3, bias=7, n_codes=0x7F, sign=0x80)
E2M1 = SmallFloat(mantissa_bits=1, bias=1, n_codes=8, sign=8)
