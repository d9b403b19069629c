#!/usr/bin/env python3
"""Reads a backup repository in a folder without any code of CipherStore: lists its backups, and restores one.

Written from Docs/Formats/BackupRepository.md alone, with Python's own modules. It compares every hash on its way, and with the
data key also the authentication codes of the records.

Usage: read_backups.py FOLDER                      one JSON line for each backup
       read_backups.py FOLDER --restore ID OUT     writes the encrypted database OUT, and its sidecar OUT-sidecar
       read_backups.py ... --data-key-file F       F has the 32 bytes of the data key: codes are compared, too
       read_backups.py --example                   the example of the document

The exit code is 1 where something is refused.
"""

import argparse
import hashlib
import hmac
import json
import struct
import sys
from pathlib import Path

FORMAT = b"cipherstore backup repository 1\n"
ZEROS = 0xFFFFFFFF
HEADER = struct.Struct(">6sH16sQQQQIIIII32s32s32s32s64sI")
ENTRY = struct.Struct(">I16s32s")
RUN = struct.Struct(">IIII")


class Refused(Exception):
    pass


def require(condition, why):
    if not condition:
        raise Refused(why)


def digest(data):
    return hashlib.sha256(data).digest()


def code(data_key, store_id, body):
    """HMAC-SHA256 under a key of HKDF-SHA256 (RFC 5869) with one block of output."""
    pseudorandom = hmac.new(store_id, data_key, hashlib.sha256).digest()
    key = hmac.new(pseudorandom, b"cipherstore backup record v1\x01", hashlib.sha256).digest()
    return hmac.new(key, body, hashlib.sha256).digest()


class Record:
    def __init__(self, data, data_key=None):
        require(len(data) >= HEADER.size + 32, "a record ends too early")
        (magic, version, self.store_id, self.epoch, self.generation, self.sequence, self.created, self.page_bytes, self.pages,
         self.salt1, self.salt2, self.frame, self.parent, self.map, self.sidecar, self.key_log, library,
         count) = HEADER.unpack_from(data)
        require((magic, version) == (b"CSBKUP", 1), "a record begins with other bytes")
        require(len(data) == HEADER.size + 32 * count + 32, "a record has another length")
        self.packs = [data[HEADER.size + 32 * i:HEADER.size + 32 * (i + 1)] for i in range(count)]
        self.library = library.rstrip(b"\0").decode("ascii")
        self.id = digest(data)
        if data_key:
            require(hmac.compare_digest(code(data_key, self.store_id, data[:-32]), data[-32:]), "a record is not authentic")


class Repository:
    def __init__(self, folder):
        self.folder = Path(folder)
        require((self.folder / "f/format").read_bytes() == FORMAT, "this is no repository of version 1")

    def records(self, data_key=None):
        found = []
        for path in sorted((self.folder / "b").iterdir()):
            data = path.read_bytes()
            require(digest(data).hex() == path.name, f"{path.name} was changed")
            found.append(Record(data, data_key))
        return sorted(found, key=lambda record: (record.store_id, record.sequence, record.created, record.id))

    def blob(self, name):
        data = (self.folder / "o" / name.hex()).read_bytes()
        require(digest(data) == name, f"{name.hex()} was changed")
        return data

    def runs(self, record):
        data = self.blob(record.map)
        magic, version, zero, count = struct.unpack_from(">5sHBI", data)
        require((magic, version, zero) == (b"CSMAP", 1, 0), "a map begins with other bytes")
        require(len(data) == 12 + RUN.size * count, "a map has another length")
        following = 1
        for index in range(count):
            first, pages, pack, slot = RUN.unpack_from(data, 12 + RUN.size * index)
            require(first == following and pages > 0, "a map lacks a page")
            following = first + pages
            yield first, pages, pack, slot
        require(following == record.pages + 1, "a map has other pages than its record")

    def restore(self, record, out):
        packs = [Pack((self.folder / "p" / name.hex()).open("rb"), name, record.page_bytes) for name in record.packs]
        with open(out, "xb") as file:
            for first, pages, pack, slot in self.runs(record):
                for place in range(pages):
                    if pack == ZEROS:
                        file.write(bytes(record.page_bytes))
                    else:
                        file.write(packs[pack].page(slot + place, first + place))
        with open(out + "-sidecar", "xb") as file:
            file.write(self.blob(record.sidecar))


class Pack:
    def __init__(self, file, name, page_bytes):
        self.file = file
        start = file.read(16)
        magic, version, self.page_bytes, self.count = struct.unpack(">6sHII", start)
        require((magic, version, self.page_bytes) == (b"CSPACK", 1, page_bytes), "a pack begins with other bytes")
        self.table = start + file.read(ENTRY.size * self.count)
        require(digest(self.table) == name, f"{name.hex()} was changed")

    def page(self, slot, number):
        require(slot < self.count, "a pack has too few pages")
        found, _, expected = ENTRY.unpack_from(self.table, 16 + ENTRY.size * slot)
        self.file.seek(len(self.table) + slot * self.page_bytes)
        data = self.file.read(self.page_bytes)
        require(found == number and digest(data) == expected, f"page {number} was changed")
        return data


def example():
    """Two pages of 512 bytes, in one pack."""
    pages = [bytes((n * 7 + i) % 251 for i in range(512)) for n in (1, 2)]
    tag = 512 - 80 + 16
    table = b"CSPACK" + struct.pack(">HII", 1, 512, 2)
    table += b"".join(ENTRY.pack(n, page[tag:tag + 16], digest(page)) for n, page in enumerate(pages, 1))
    page_map = b"CSMAP" + struct.pack(">HBI", 1, 0, 1) + RUN.pack(1, 2, 0, 0)
    store_id = bytes(range(16))
    body = HEADER.pack(
        b"CSBKUP", 1, store_id, 1, 2, 3, 1795300000, 512, 2, 0x11111111, 0x22222222, 7, bytes(32), digest(page_map),
        digest(b"a sidecar"), bytes(32), b"4.6.1 community".ljust(64, b"\0"), 1) + digest(table)
    record = body + code(bytes(range(32)), store_id, body)
    for title, data in [("table", table), ("map", page_map), ("record", record), ("name of the record", digest(record))]:
        print(f"{title}:")
        for start in range(0, len(data), 32):
            print(data[start:start + 32].hex())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--restore", nargs=2, metavar=("ID", "OUT"))
    parser.add_argument("--data-key-file")
    parser.add_argument("--example", action="store_true")
    arguments = parser.parse_args()
    if arguments.example:
        return example()
    data_key = Path(arguments.data_key_file).read_bytes() if arguments.data_key_file else None
    repository = Repository(arguments.folder)
    records = repository.records(data_key)
    if not arguments.restore:
        for record in records:
            print(json.dumps({
                "backup": record.id.hex(), "store_id": record.store_id.hex(), "epoch": record.epoch,
                "sequence": record.sequence, "created": record.created, "page_bytes": record.page_bytes,
                "pages": record.pages, "parent": record.parent.hex(), "library": record.library}))
        return
    wanted = [record for record in records if record.id.hex().startswith(arguments.restore[0])]
    require(len(wanted) == 1, "no single backup has an identifier that begins so")
    repository.restore(wanted[0], arguments.restore[1])


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError) as error:
        sys.exit(f"read_backups.py: {error}")
