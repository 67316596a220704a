"""Reads the machine code of kernels out of a cubin, an ELF file, without a disassembler.

Since sm_70 an instruction takes 16 bytes. Bits 0 to 11 are the opcode, 12 to 15 the guard: three
bits name a predicate, 7 being true, and the last negates it. Registers are in bits 16 to 23 (the
result) and 24 to 31 (the first operand), a constant in bits 32 to 63, the predicate that a
comparison sets in 81 to 83."""

import struct

INSTRUCTION_BYTES = 16

BRANCH, EXIT, RETURN, CALL, BREAK = 0x947, 0x94d, 0x950, 0x944, 0x942
INDIRECT_BRANCHES = (0x949, 0x94a, 0x94b, 0x94c)
COLLECTIVE = 0x348       # the way of shuffles in warps that are not together
COUNTER_TRIGGER = 0x801  # markCold() of kernels/cuda/agent/instructions.cuh
LOCAL_ACCESSES = (0x387, 0x983)
GLOBAL_ACCESSES = (0x381, 0x981, 0x386, 0x986)
ALWAYS = 7
# With a constant, and registers of a thread or of the warp.
COMPARES = (0x80c, 0x88c)  # ISETP, UISETP
ADDITIONS = ((0x810, 0x836), (0x890,))  # IADD3 and VIADD, UIADD3

# Of the section .nv.info: entries with contents; registers of a kernel, bytes of a function's stack.
SIZED = 4
REGISTERS, STACK = 0x2f, 0x11
# Of a symbol table: a function.
FUNCTION = 2
# Of the section .nv_fatbin: what each block of entries begins with, and an entry that is a cubin.
FATBIN_MAGIC = bytes.fromhex("50ed55ba")
FATBIN_CUBIN = 2
# Of an entry's header: where it has room for them, the bytes of the cubin before it was compressed, 0 where it was not.
FATBIN_UNPACKED_AT = 56


class Instruction:
    """One instruction; `address` counts from the kernel's first."""

    def __init__(self, address, low, high, arch):
        self.address = address
        self.opcode = low & 0xfff
        self.is_guarded = (low >> 12 & 7) != ALWAYS
        self.is_wide = self.opcode in GLOBAL_ACCESSES and (high >> 9 & 7) == 6  # 16 bytes
        self.result, self.operand = low >> 16 & 0xff, low >> 24 & 0xff
        self.constant = low >> 32
        self.guard = low >> 12 & 7
        self.predicate = high >> 17 & 7
        self.target = None
        if self.opcode in (BRANCH, CALL):
            self.target = address + INSTRUCTION_BYTES + branch_offset(low | high << 64, arch)
        if self.opcode == BRANCH:
            # Besides the guard a branch has a predicate of its own, or tests for divergence.
            self.is_guarded |= (high >> 23 & 15) != ALWAYS or (low >> 32 & 3) == 2


def branch_offset(word, arch):
    """Bytes from the next instruction: 48 bits from bit 34 on, signed; from sm_90 on in units of 1024
    bytes, with words of 4 in bits 16 to 23."""
    offset = word >> 34 & (1 << 48) - 1
    offset -= (offset >> 47) << 48
    return ((offset << 8) + (word >> 16 & 0xff)) * 4 if arch >= 90 else offset * 4


class Section:
    def __init__(self, name, contents, n_bytes, link):
        self.name = name
        self.contents = contents
        self.n_bytes = n_bytes  # in memory: a section of shared memory has no contents
        self.link = link        # of a symbol table: the section of its names


def sections(image):
    """All of a cubin, by their numbers."""
    table, = struct.unpack_from("<Q", image, 0x28)
    entry_bytes, n_sections, names_index = struct.unpack_from("<HHH", image, 0x3a)
    headers = [struct.unpack_from("<IIQQQQI", image, table + i * entry_bytes) for i in range(n_sections)]
    names = headers[names_index][4]
    return [Section(text_at(image, names + name), image[offset:offset + size], size, link)
            for name, _, _, _, offset, size, link in headers]


def text_at(data, begin):
    return data[begin:data.index(b"\0", begin)].decode()


def functions(image):
    """{number of a section: {address: name}} of all functions."""
    found = {}
    every = sections(image)
    for section in every:
        if section.name != ".symtab":
            continue
        for at in range(0, len(section.contents), 24):
            name, info, _, number, address, _ = struct.unpack_from("<IBBHQQ", section.contents, at)
            if info & 15 == FUNCTION:
                found.setdefault(number, {})[address] = text_at(every[section.link].contents, name)
    return found


def kernels(image, arch):
    """Yields (mangled name, instructions, {address: name} of the functions in it) for every kernel of a cubin."""
    named = functions(image)
    for number, section in enumerate(sections(image)):
        if section.name.startswith(".text."):
            words = struct.unpack(f"<{len(section.contents) // 8}Q", section.contents)
            yield section.name[len(".text."):], [
                Instruction(i * 8, words[i], words[i + 1], arch) for i in range(0, len(words), 2)], named.get(number, {})


def symbols(image):
    """The names of a symbol table, in order."""
    every = sections(image)
    table = next(section for section in every if section.name == ".symtab")
    return [text_at(every[table.link].contents, struct.unpack_from("<I", table.contents, at)[0])
            for at in range(0, len(table.contents), 24)]


def resources(image, attribute):
    """{function: number} that ptxas says of it. An entry is a byte of format, one of the attribute and two of the size,
    then contents where the format has any: here the function's place among the symbols, and the number."""
    contents = {section.name: section.contents for section in sections(image)}[".nv.info"]
    names, numbers, at = symbols(image), {}, 0
    while at < len(contents):
        form, found, size = struct.unpack_from("<BBH", contents, at)
        at += 4
        if form == SIZED:
            if found == attribute:
                symbol, number = struct.unpack_from("<II", contents, at)
                numbers[names[symbol]] = number
            at += size
    return numbers


def shared_bytes(image, kernel):
    """The shared memory that a kernel declares."""
    return sum(section.n_bytes for section in sections(image) if section.name == f".nv.shared.{kernel}")


def unpacked_bytes(library):
    """The bytes that a library or executable would have if none of its cubins were compressed."""
    contents = next(section for section in sections(library) if section.name == ".nv_fatbin").contents
    total, at = len(library), contents.find(FATBIN_MAGIC)
    while at >= 0:
        _, _, header_bytes, n_bytes = struct.unpack_from("<IHHQ", contents, at)
        at += header_bytes
        end = at + n_bytes
        while at < end:
            kind, _, header_bytes, n_bytes = struct.unpack_from("<HHIQ", contents, at)
            unpacked = 0
            if header_bytes >= FATBIN_UNPACKED_AT + 8:
                unpacked, = struct.unpack_from("<Q", contents, at + FATBIN_UNPACKED_AT)
            if kind == FATBIN_CUBIN and unpacked:
                total += unpacked - n_bytes
            at += header_bytes + n_bytes
        at = contents.find(FATBIN_MAGIC, end)
    return total
