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


def kernels(path, arch):
    """Yields (mangled name, instructions) for every kernel of a cubin."""
    with open(path, "rb") as file:
        image = file.read()
    section_table, = struct.unpack_from("<Q", image, 0x28)
    entry_bytes, n_sections, names_index = struct.unpack_from("<HHH", image, 0x3a)
    sections = [struct.unpack_from("<IIQQQQ", image, section_table + i * entry_bytes)
                for i in range(n_sections)]
    names = sections[names_index][4]
    for name_offset, _, _, _, offset, size in sections:
        begin = names + name_offset
        name = image[begin:image.index(b"\0", begin)].decode()
        if name.startswith(".text."):
            words = struct.unpack_from(f"<{size // 8}Q", image, offset)
            yield name[len(".text."):], [
                Instruction(i * 8, words[i], words[i + 1], arch) for i in range(0, len(words), 2)]
