#!/usr/bin/env python3
"""Reads deltas and commits, and writes them in their canonical form. Nothing of CipherStore takes part: everything here
follows Docs/Formats/Changeset.md.

Usage: Keys/generators/read_changeset.py delta|commit < FILE
"""

import struct
import sys

DELETE, INSERT, UPDATE = 0x09, 0x12, 0x17
RANK = {DELETE: 0, UPDATE: 1, INSERT: 2}
NAMES = {DELETE: "delete", INSERT: "insert", UPDATE: "update"}


class Undefined:
    def __repr__(self):
        return "-"


UNDEFINED = Undefined()


class Reader:
    """Takes bytes from the front and raises ValueError where there are none."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError(f"truncated at {self.at}")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self) -> int:
        start, value = self.at, 0
        while True:
            byte = self.take(1)[0]
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
        if self.data[start:self.at] != varint(value):
            raise ValueError(f"not the shortest form at {start}")
        return value

    def value(self):
        kind = self.take(1)[0]
        if kind == 0:
            return UNDEFINED
        if kind == 5:
            return None
        if kind == 1:
            return self.number(">q")
        if kind == 2:
            return self.number(">d")
        if kind not in (3, 4):
            raise ValueError(f"no storage class at {self.at - 1}")
        content = self.take(self.varint())
        return Text(content) if kind == 3 else content


class Text(bytes):
    """The bytes of a text: SQLite stores texts that are not UTF-8, too."""


def varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


def cell(value) -> bytes:
    if value is UNDEFINED:
        return b"\x00"
    if value is None:
        return b"\x05"
    if isinstance(value, int):
        return b"\x01" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\x02" + struct.pack(">d", value)
    if isinstance(value, str):
        value = Text(value.encode())
    return (b"\x03" if isinstance(value, Text) else b"\x04") + varint(len(value)) + value


def record(values) -> bytes:
    return b"".join(map(cell, values))


def key(ordinals, change) -> bytes:
    operation, _, old, new = change
    row = new if operation == INSERT else old
    return b"".join(cell(value) for value, ordinal in zip(row, ordinals) if ordinal)


def read_session(data: bytes) -> list:
    """[(table, ordinals, [(operation, indirect, old, new)])]"""
    reader, tables = Reader(data), []
    while reader.at < len(data):
        byte = reader.take(1)[0]
        if byte == 0x54:
            ordinals = tuple(reader.take(reader.varint()))
            end = data.index(0, reader.at)
            tables.append((reader.take(end - reader.at).decode(), ordinals, []))
            reader.take(1)
            continue
        indirect = reader.take(1)[0]
        count = len(tables[-1][1])
        old = [reader.value() for _ in range(count)] if byte in (UPDATE, DELETE) else None
        new = [reader.value() for _ in range(count)] if byte in (UPDATE, INSERT) else None
        if byte not in RANK:
            raise ValueError(f"no operation at {reader.at}")
        tables[-1][2].append((byte, indirect, old, new))
    return tables


def write_session(tables) -> bytes:
    """The canonical bytes of the tables and changes, which come in any order."""
    data = b""
    for name, ordinals, changes in sorted(tables, key=lambda table: table[0].encode()):
        data += b"T" + varint(len(ordinals)) + bytes(ordinals) + name.encode() + b"\0"
        for change in sorted(changes, key=lambda change: (RANK[change[0]], key(ordinals, change))):
            operation, indirect, old, new = change
            data += bytes([operation, indirect]) + record(old or []) + record(new or [])
    return data


def read_delta(data: bytes) -> list:
    """[(table, columns, ordinals, changes)]"""
    reader = Reader(data)
    if reader.take(1) != b"\x01":
        raise ValueError("another version")
    columns = [[reader.take(reader.varint()).decode() for _ in range(reader.varint())] for _ in range(reader.varint())]
    tables = read_session(data[reader.at:])
    if [len(names) for names in columns] != [len(ordinals) for _, ordinals, _ in tables]:
        raise ValueError("names and tables differ")
    return [(name, names, ordinals, changes) for names, (name, ordinals, changes) in zip(columns, tables)]


def write_delta(tables) -> bytes:
    tables = sorted(tables, key=lambda table: table[0].encode())
    data = b"\x01" + varint(len(tables))
    for _, columns, _, _ in tables:
        data += varint(len(columns)) + b"".join(varint(len(n.encode())) + n.encode() for n in columns)
    return data + write_session([(name, ordinals, changes) for name, _, ordinals, changes in tables])


def read_commit(data: bytes) -> dict:
    reader = Reader(data)
    if reader.take(1) != b"\x01":
        raise ValueError("another version")
    commit = {"kind": reader.number("B"), "parents": [reader.take(32) for _ in range(reader.number("B"))]}
    commit["generation"], commit["author"] = reader.number(">Q"), reader.take(16)
    commit["authorSequence"], commit["time"] = reader.number(">Q"), reader.number(">Q")
    commit["schema"] = reader.take(16)
    commit["meta"] = reader.take(reader.number(">I")).decode()
    commit["digests"] = [(reader.take(reader.number(">I")).decode(), reader.take(16))
                         for _ in range(reader.number(">I"))]
    commit["deltas"] = [delta for delta in (reader.take(reader.number(">I")) for _ in range(2)) if delta]
    if reader.at != len(data):
        raise ValueError(f"bytes follow the end at {reader.at}")
    return commit


def write_commit(commit: dict) -> bytes:
    def field(content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + content

    data = bytes([1, commit["kind"], len(commit["parents"])]) + b"".join(commit["parents"])
    data += struct.pack(">Q", commit["generation"]) + commit["author"]
    data += struct.pack(">QQ", commit["authorSequence"], commit["time"]) + commit["schema"]
    data += field(commit["meta"].encode()) + struct.pack(">I", len(commit["digests"]))
    data += b"".join(field(table.encode()) + digest for table, digest in commit["digests"])
    return data + b"".join(field(delta) for delta in (commit["deltas"] + [b""])[:2])


def main() -> None:
    if sys.argv[1:] not in (["delta"], ["commit"]):
        sys.exit(__doc__)
    data = sys.stdin.buffer.read()
    if sys.argv[1] == "commit":
        commit = read_commit(data)
        for name, value in commit.items():
            if name != "deltas":
                print(f"{name}: {value}")
        deltas = commit["deltas"]
    else:
        deltas = [data]
    for delta in deltas:
        for name, columns, ordinals, changes in read_delta(delta):
            print(f"{name}({', '.join(columns)}) key {[o for o in ordinals]}")
            for operation, indirect, old, new in changes:
                print(f"  {NAMES[operation]}{' (indirect)' if indirect else ''}: {old} -> {new}")


if __name__ == "__main__":
    main()
