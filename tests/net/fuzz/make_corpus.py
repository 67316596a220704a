#!/usr/bin/env python3
"""Writes the corpus that the fuzzers start from, by docs/net-wire.md, and for verbs by the headers
net_plugin/ib/card.h and control.h, alone: corpus/<target>/<name>."""
import struct
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"

KEYED, MENDED_OR_CONNECTING, HONEST = 1, 2, 4  # bits of the first byte, see the targets
CONNECTING, LISTENING = b"\x11" * 16, b"\x22" * 16
ENOUGH = bytes(112)  # a Hello and a Confirm


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def sealed(data):
    return data + struct.pack("<I", crc32c(data))


def record(kind, flags=0, connection=7, message=0, length=0, offset=0, total=0, checksum=0):
    return sealed(struct.pack("<BBHIIIQQI", kind, flags, 0, connection, message, length, offset, total, checksum))


def hello(has_key, flow=0, flows=4, version=1, to=LISTENING):
    head = struct.pack("<8sHBBHBBQ", b"CinchNet", version, 1, has_key, 5, flow, flows, 3)
    return sealed(head + CONNECTING + to + b"\x33" * 16 + bytes(4))


def welcome(has_key):
    return struct.pack("<8sHBBHH", b"CinchNet", 1, 2, has_key, 6, 0) + LISTENING + b"\x44" * 16 + b"\x55" * 32


def records():
    mebi = 1 << 20
    return {
        "open": record(1, length=16),
        "opened": record(2),
        "grant": record(3, message=9, total=mebi),
        "grant_most": record(3, message=9, total=1 << 40),
        "chunk": record(4, message=9, length=4096, offset=8192, total=mebi),
        "chunk_checked": record(4, 1, message=9, length=4096, offset=8192, total=mebi, checksum=0xDEADBEEF),
        "chunk_last": record(4, message=9, length=128 << 10, offset=(1 << 40) - (128 << 10), total=1 << 40),
        "chunk_empty": record(4, message=9),
        "done": record(5, message=9),
        "again": record(6, message=9, length=4096, offset=8192, total=mebi),
        "refuse": record(7, message=9, total=mebi),
        "close": record(8),
        "close_receiver": record(8, 2),
        "ping": record(9, connection=0, message=9),
        "pong": record(10, connection=0, message=9),
    }


def handshakes():
    made = {}
    for keyed in (0, KEYED):
        name = "keyed" if keyed else "plain"
        made[f"honest_{name}"] = bytes([keyed | HONEST]) + bytes(192)
        made[f"flipped_{name}"] = bytes([keyed | HONEST | MENDED_OR_CONNECTING]) + bytes(14) + b"\x01" + bytes(177)
        made[f"hello_{name}"] = bytes([keyed]) + hello(keyed) + welcome(keyed) + bytes(32)
        made[f"version_{name}"] = bytes([keyed]) + hello(keyed, version=2) + welcome(keyed)
        made[f"other_{name}"] = bytes([keyed]) + hello(keyed, to=CONNECTING)
        made[f"flows_{name}"] = bytes([keyed | MENDED_OR_CONNECTING]) + hello(keyed, flow=16, flows=17)
    return made


def in_pieces(data, size):
    cuts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(bytes([len(piece) - 1]) + piece for piece in cuts)


def openings():
    made = {}
    for keyed in (0, KEYED):
        name = "keyed" if keyed else "plain"
        for side, role in (("listening", 0), ("connecting", MENDED_OR_CONNECTING)):
            # The peer can answer only once it has heard: its words come in pieces.
            made[f"honest_{side}_{name}"] = bytes([keyed | role | HONEST]) + in_pieces(ENOUGH, 80)
        made[f"bytes_{name}"] = bytes([keyed | HONEST]) + in_pieces(ENOUGH, 7)
        made[f"hello_{name}"] = bytes([keyed]) + in_pieces(hello(keyed) + b"records", 128)
        made[f"welcome_{name}"] = bytes([keyed | MENDED_OR_CONNECTING]) + in_pieces(welcome(keyed), 33)
    made["http"] = bytes([0]) + in_pieces(b"GET / HTTP/1.1\r\n\r\n", 18)
    return made


def card(ports, queues):
    """So many ports with so many queues each."""
    head = struct.pack("<4sHBBQ", b"CnIB", 2, ports, ports * queues, 0x7F0000001000)
    port = struct.pack("<16sHBBI8x", bytes(10) + b"\xff\xff\x0a\x00\x00\x01", 0, 2, 5, 0x1234)
    # Every other queue knows ECE.
    ece = [(0, 0), (0x15B3, 0x10000002)]
    ends = (struct.pack("<IIB7xII", 17 + i, 0xABCDEF, i // queues, *ece[i % 2]) for i in range(ports * queues))
    return head + port * ports + b"".join(ends)


def verbs():
    places = 256
    standing = bytes([2, 0]) + struct.pack("<Q", 5) + bytes(places) + bytes(places // 8)
    return {
        "card_one": b"\x00" + card(1, 1),
        "card_most": b"\x00" + card(2, 8),
        "lost": b"\x01" + bytes([1, 0]) + b"rxe_a0:1: the port is down",
        "standing": b"\x01" + standing,
        "confirmed": b"\x01" + bytes([3, 0]) + bytes([1] * places),
    }


def main():
    corpora = {"record": records(), "handshake": handshakes(), "opening": openings(), "verbs": verbs()}
    for target, inputs in corpora.items():
        (FOLDER / target).mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (FOLDER / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
