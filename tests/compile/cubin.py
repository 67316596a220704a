"""Reads the machine code of kernels out of a cubin, an ELF file, without a disassembler.

Since sm_70 an instruction takes 16 bytes. Bits 0 to 11 are the opcode, 12 to 15 the guard: three
bits name a predicate, 7 being true, and the last negates it."""

import struct

INSTRUCTION_BYTES = 16

BRANCH, EXIT, RETURN, CALL, BREAK = 0x947, 0x94d, 0x950, 0x944, 0x942
INDIRECT_BRANCHES = (0x949, 0x94a, 0x94b, 0x94c)
COLLECTIVE = 0x348       # the way of shuffles in warps that are not together
COUNTER_TRIGGER = 0x801  # markCold() of kernels/cuda/agent/instructions.cuh
LOCAL_ACCESSES = (0x387, 0x983)
GLOBAL_ACCESSES = (0x381, 0x981, 0x386, 0x986)
ALWAYS = 7

# Of the section .nv.info: entries with contents; registers of a kernel, bytes of a function's stack.
SIZED = 4
REGISTERS, STACK = 0x2f, 0x11


class Instruction:
    """One instruction; `address` counts from the kernel's first."""

    def __init__(self, address, low, high, arch):
        self.address = address
        self.opcode = low & 0xfff
        self.is_guarded = (low >> 12 & 7) != ALWAYS
        self.is_wide = self.opcode in GLOBAL_ACCESSES and (high >> 9 & 7) == 6  # 16 bytes
        self.target = None
        if self.opcode == BRANCH:
            self.target = address + INSTRUCTION_BYTES + branch_offset(low | high << 64, arch)
            # Besides the guard a branch has a predicate of its own, or tests for divergence.
            self.is_guarded |= (high >> 23 & 15) != ALWAYS or (low >> 32 & 3) == 2


def branch_offset(word, arch):
    """Bytes from the next instruction: 48 bits from bit 34 on, signed; from sm_90 on in units of 1024
    bytes, with words of 4 in bits 16 to 23."""
    offset = word >> 34 & (1 << 48) - 1
    offset -= (offset >> 47) << 48
    return ((offset << 8) + (word >> 16 & 0xff)) * 4 if arch >= 90 else offset * 4


def sections(image):
    """Yields (name, contents) for every section of a cubin."""
    table, = struct.unpack_from("<Q", image, 0x28)
    entry_bytes, n_sections, names_index = struct.unpack_from("<HHH", image, 0x3a)
    headers = [struct.unpack_from("<IIQQQQ", image, table + i * entry_bytes)
               for i in range(n_sections)]
    names = headers[names_index][4]
    for name_offset, _, _, _, offset, size in headers:
        begin = names + name_offset
        yield image[begin:image.index(b"\0", begin)].decode(), image[offset:offset + size]


def kernels(image, arch):
    """Yields (mangled name, instructions) for every kernel of a cubin."""
    for name, code in sections(image):
        if name.startswith(".text."):
            words = struct.unpack(f"<{len(code) // 8}Q", code)
            yield name[len(".text."):], [
                Instruction(i * 8, words[i], words[i + 1], arch) for i in range(0, len(words), 2)]


def resources(image, attribute):
    """What ptxas says of each function. An entry is a byte of format, one of the attribute and two of
    the size, then contents where the format has any: here the function and a number."""
    contents = dict(sections(image))[".nv.info"]
    at = 0
    while at < len(contents):
        form, found, size = struct.unpack_from("<BBH", contents, at)
        at += 4
        if form == SIZED:
            if found == attribute:
                yield struct.unpack_from("<II", contents, at)[1]
            at += size
