#!/usr/bin/env python3
"""Reads a folder remote without any code of CipherStore, and lists its commits.

Written from Docs/Formats/Commit.md, Segment.md, Snapshot.md and Members.md alone, with Python and PyPI's `cryptography`. It opens every object,
verifies the hash in its name, the signatures of members and authors, and that each commit is the one encoding of its content.
Who was a member when is decided by what each record knew; the rules for records that do not know each other are not applied.

Usage: read_commits.py FOLDER INVITATION --raw-key-file F     one JSON line for each member, epoch, snapshot and commit
                                 --rows                        also one line for each key: the rows that the commits and the
                                                               greatest snapshot give, and a row as a table without
                                                               constraints shows it
       read_commits.py --example                              the examples of the documents

The exit code is 1 where something is refused.
"""

import argparse
import hashlib
import hmac
import json
import struct
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE = bytes(12)
KINDS = {"c": 0, "s": 1, "p": 2, "m": 3}
READER, WRITER, ADMIN = range(3)


class Refused(Exception):
    pass


def check(condition: bool, reason: str) -> None:
    if not condition:
        raise Refused(reason)


def hkdf(key: bytes, salt: bytes, label: str) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt, label.encode()).derive(key)


def mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


class Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        check(0 <= count <= len(self.data) - self.at, f"truncated at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self) -> int:
        start, value = self.at, 0
        while True:
            byte = self.byte()
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                check(varint(value) == self.data[start : self.at] and value < 1 << 64, f"a number at {start} is malformed")
                return value

    def text(self) -> str:
        try:
            return self.take(self.varint()).decode()
        except UnicodeDecodeError:
            raise Refused("a text is not UTF-8") from None

    def list(self, read) -> list:
        return [read() for _ in range(self.varint())]

    def ended(self) -> bool:
        return self.at == len(self.data)


# Commits (Docs/Formats/Commit.md)

WIDTHS = [1, 2, 3, 4, 6, 8]


def cell(reader: Reader):
    """One value: None, an int, a float, a str (a text that is UTF-8), or {"text": hex} and {"blob": hex}."""
    kind = reader.varint()
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind]
    if 1 <= kind <= 6:
        value = int.from_bytes(reader.take(WIDTHS[kind - 1]), "big", signed=True)
        least = next(i for i, width in enumerate(WIDTHS, 1) if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1)
        check(kind == least and value not in (0, 1), "an integer is not in its shortest form")
        return value
    if kind == 7:
        value = reader.number(">d")
        check(value == value, "a real is not a number")
        return value if abs(value) != float("inf") else {"real": repr(value)}
    check(kind >= 12, f"{kind} is no serial type")
    content = reader.take((kind - 12) // 2)
    if kind % 2 == 0:
        return {"blob": content.hex()}
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"text": content.hex()}


class Tables:
    """What the writes of a commit refer to by numbers, in the order of its first use."""

    def __init__(self, author: bytes):
        self.author, self.names, self.columns, self.authors, self.dots, self.stamps, self.shapes = author, [], [], [], [], [], []

    @staticmethod
    def entry(reader: Reader, table: list, read):
        number = reader.varint()
        check(number <= len(table), f"a reference before {reader.at} has no target")
        if number == len(table):
            made = read()
            check(made not in table, f"an entry before {reader.at} stands twice")
            table.append(made)
        return table[number]

    def name(self, reader):
        return self.entry(reader, self.names, reader.text)

    def column(self, reader):
        return self.entry(reader, self.columns, lambda: (reader.text(), reader.varint()))

    def dot(self, reader):
        return self.entry(reader, self.dots, lambda: self.new_dot(reader))

    def new_dot(self, reader):
        head = reader.varint()
        if head >> 1 == 0:
            author = self.author
        else:
            check(head >> 1 <= len(self.authors) + 1, "an author has no target")
            if head >> 1 == len(self.authors) + 1:
                author = reader.take(16)
                check(author != self.author and author not in self.authors, "an author stands twice")
                self.authors.append(author)
            author = self.authors[(head >> 1) - 1]
        number = reader.varint()
        check(number > 0, "a number is zero")
        return (author, number, reader.take(16) if head & 1 else None)

    def stamp(self, reader):
        return self.entry(reader, self.stamps, lambda: (reader.varint(), reader.number(">Q"), self.dot(reader)))

    def shape(self, reader):
        kind, table, key_count = reader.byte(), self.name(reader), reader.byte()
        columns, counters = (reader.list(lambda: self.column(reader)) for _ in range(2))
        check(kind <= 2 and key_count >= 1, "a shape is not valid")
        for names in (columns, counters):
            order = [(name.encode(), reuse) for name, reuse in names]
            check(order == sorted(set(order)), "columns are not in order")
        return (["insert", "update", "delete"][kind], table, key_count, tuple(columns), tuple(counters))


def column_text(column: tuple) -> str:
    return column[0] + (f"#{column[1]}" if column[1] else "")


def dot_text(dot: tuple) -> str:
    return f"{dot[0].hex()}:{dot[1]}" + (f":{dot[2].hex()}" if dot[2] else "")


def stamp_json(stamp: tuple) -> dict:
    return {"era": stamp[0], "time": stamp[1], "dot": dot_text(stamp[2])}


def read_writes(reader: Reader, author: bytes) -> list:
    tables, writes, last = Tables(author), [], None
    while not reader.ended():
        tag = reader.varint()
        number = tag >> 1
        check(number <= len(tables.shapes) + 1 and (number or last), "a shape has no target")
        if number == len(tables.shapes) + 1:
            made = tables.shape(reader)
            check(made not in tables.shapes, "a shape stands twice")
            tables.shapes.append(made)
        shape = tables.shapes[number - 1] if number else last
        check(not number or shape != last, "a shape is repeated")
        last = shape
        kind, table, key_count, columns, counters = shape
        write = {"kind": kind, "table": table, "key": [cell(reader) for _ in range(key_count)]}
        if kind != "insert":
            write["incarnation"] = dot_text(tables.dot(reader))
        write["cells"] = {column_text(column): cell(reader) for column in columns}
        if counters:
            write["steps"] = {column_text(column): cell(reader) for column in counters}
        if tag & 1:
            extras = reader.byte()
            check(0 < extras < 16, "flags of a write are unknown")
            if extras & 1:
                write["era"] = reader.varint()
            if extras & 2:
                write["seen"] = [dot_text(dot) for dot in reader.list(lambda: tables.dot(reader))]
            if extras & 4:
                write["revives"] = [dot_text(dot) for dot in reader.list(lambda: tables.dot(reader))]
            if extras & 8:
                born = stamp_json(tables.stamp(reader))
                cells = reader.list(lambda: {"column": column_text(tables.column(reader)), "stamp": stamp_json(tables.stamp(reader)),
                                             "value": cell(reader)})
                sums = reader.list(lambda: {"column": column_text(tables.column(reader)), "origin": dot_text(tables.dot(reader)),
                                            "last": dot_text(tables.dot(reader)), "total": cell(reader)})
                write["copied"] = {"born": born, "cells": cells, "sums": sums}
        writes.append(write)
    return writes


def read_tips(reader: Reader) -> dict:
    entries = reader.list(lambda: (reader.take(16), reader.list(lambda: (reader.varint(), reader.take(16)))))
    check([a for a, _ in entries] == sorted({a for a, _ in entries}), "authors are not in order")
    check(all(tips and tips == sorted(set(tips)) for _, tips in entries), "tips are not in order")
    return {author.hex(): [f"{number}:{tag.hex()}" for number, tag in tips] for author, tips in entries}


def read_event(reader: Reader) -> dict:
    kind = reader.byte()
    column = lambda: column_text((reader.text(), reader.varint()))
    if kind == 0:
        return {"remove": reader.take(16).hex()}
    if kind == 1:
        return {"rename": {"table": reader.text(), "column": column(), "to": reader.text()}}
    if kind == 2:
        return {"vouch": True}
    if kind == 3:
        return {"policy": {"table": reader.text(), "counters": reader.list(column), "deletionsWin": bool(reader.byte())}}
    check(kind == 4, f"{kind} is no event")
    return {"dropped": {"table": reader.text(), "columns": reader.list(column), "isDropped": bool(reader.byte())}}


def read_commit(body: bytes, author: bytes, number: int) -> dict:
    reader = Reader(body)
    version, flags = reader.byte(), reader.byte()
    check(version == 1 and flags <= 1, f"version {version} is not known")
    time = reader.number(">Q")
    check(time < 1 << 63, "the time is too late")
    commit = {"author": author.hex(), "number": number, "time": time, "beginsBranch": flags == 1, "context": read_tips(reader),
              "meta": reader.text(), "events": reader.list(lambda: read_event(reader))}
    commit["writes"] = read_writes(reader, author)
    return commit


def commit_hash(repository: bytes, author: bytes, number: int, previous: bytes, body: bytes) -> bytes:
    start = b"cipherstore commit v1" + repository + author + struct.pack(">Q", number) + previous
    return hashlib.sha256(start + body).digest()


# Snapshots (Docs/Formats/Snapshot.md)

UNKNOWN = object()  # the value of a cell that the maker of a snapshot does not know


def known_cell(reader: Reader):
    if reader.data[reader.at : reader.at + 1] != b"\x0a":
        return cell(reader)
    reader.byte()
    return UNKNOWN


class SnapshotContent:
    """The items of a snapshot, in order."""

    def __init__(self, content: bytes):
        self.authors, self.commits, self.tables, self.columns, self.vectors = [], [], [], [], []
        self.time, self.state, self.keys, self.counters, self.removed = None, None, [], set(), {}
        reader = Reader(content)
        while not reader.ended():
            item = Reader(reader.take(reader.varint()))
            kind = item.byte()
            check(1 <= kind <= 10 and (self.time is None) == (kind == 1), f"{kind} is no item here")
            check((self.state is not None) == (kind == 8) or kind == 6, f"the item {kind} is out of order")
            kinds = ["head", "author", "commit", "table", "column", "vector", "read_state", "key", "policy", "dropped"]
            getattr(self, kinds[kind - 1])(item)
            check(item.ended(), f"bytes follow an item of kind {kind}")
        check(self.state is not None, "a snapshot has no state")

    def entry(self, reader, table):
        number = reader.varint()
        check(1 <= number <= len(table), "a number has no item")
        return table[number - 1]

    def rest(self, reader):
        return reader.take(len(reader.data) - reader.at).decode()

    def head(self, reader):
        check(reader.byte() == 1, "a snapshot has another version")
        self.time = reader.number(">Q")

    def author(self, reader):
        self.authors.append(reader.take(16))

    def commit(self, reader):
        author, number = self.entry(reader, self.authors), reader.varint()
        parent, begins = reader.varint(), reader.varint()
        check(number >= 1 and parent <= len(self.commits) and begins <= 1, "a commit is not valid")
        time, digest = reader.number(">Q"), reader.take(32)
        self.commits.append({"author": author, "number": number, "time": time, "hash": digest, "begins": begins == 1,
                             "parent": self.commits[parent - 1] if parent else None})

    def table(self, reader):
        name = self.rest(reader)
        check(not self.tables or self.tables[-1].encode() < name.encode(), "tables are not in order")
        self.tables.append(name)

    def column(self, reader):
        table, reuse = self.entry(reader, self.tables), reader.varint()
        self.columns.append((table, column_text((self.rest(reader), reuse))))

    def policy(self, reader):
        table, commit = self.entry(reader, self.tables), reader.varint()
        check(commit <= len(self.commits) and reader.byte() <= 1, "a policy is not valid")
        columns = reader.list(lambda: self.entry(reader, self.columns))
        check(all(column[0] == table for column in columns), "a counter is of another table")
        self.counters |= set(columns)

    def dropped(self, reader):
        table, column = self.entry(reader, self.tables), reader.varint()
        check(column == 0 or column <= len(self.columns) and self.columns[column - 1][0] == table, "a column is of another table")
        self.entry(reader, self.commits)
        check(reader.byte() <= 1, "what is said of a dropped table is not valid")

    def vector(self, reader):
        self.vectors.append(reader.list(lambda: self.dot(reader)))

    def dot(self, reader):
        commit = self.entry(reader, self.commits)
        return f"{commit['author'].hex()}:{commit['number']}:{commit['hash'][:16].hex()}"

    def read_state(self, reader):
        self.state = self.entry(reader, self.vectors)
        self.contexts = dict(reader.list(lambda: (self.dot(reader), self.entry(reader, self.vectors))))
        removed = reader.list(lambda: (self.entry(reader, self.authors), self.entry(reader, self.vectors)))
        self.removed = {author.hex(): vector for author, vector in removed}

    def stamp(self, reader):
        return {"era": reader.varint(), "dot": self.dot(reader)}

    def own_column(self, reader, table):
        column = self.entry(reader, self.columns)
        check(column[0] == table, "a column is one of another table")
        return column[1]

    @staticmethod
    def signed(reader):
        raw = reader.varint()
        return raw >> 1 if raw % 2 == 0 else -(raw >> 1) - 1

    def row(self, reader, table):
        born = self.stamp(reader)
        cells = reader.list(lambda: (self.own_column(reader, table), self.stamp(reader), known_cell(reader)))
        cells = [entry for entry in cells if entry[2] is not UNKNOWN]
        sums = reader.list(lambda: (self.own_column(reader, table), reader.list(
            lambda: (self.dot(reader), self.dot(reader), self.dot(reader), self.signed(reader)))))
        values = {column: value for column, _, value in cells}
        totals = {column: sum(entry[3] for entry in entries) for column, entries in sums}
        return {"born": born, "cells": values, "stamps": {column: stamp for column, stamp, _ in cells}, "counters": totals,
                "sums": dict(sums)}

    def tombstone(self, data, table):
        reader = Reader(data)
        first = reader.varint()
        if first:
            check(reader.ended() and first <= len(self.commits), "a deletion has no commit")
            return
        reader.list(lambda: self.dot(reader))
        reader.list(lambda: self.dot(reader))
        reader.list(lambda: (self.stamp(reader), reader.list(lambda: (self.own_column(reader, table), cell(reader))),
                             reader.list(lambda: (self.own_column(reader, table), self.signed(reader)))))
        flag = reader.byte()
        check(flag <= 1, "a flag of a tombstone is unknown")
        if flag:
            self.row(reader, table)
        check(reader.ended(), "bytes follow a tombstone")

    def key(self, reader):
        table = self.entry(reader, self.tables)
        key = reader.list(lambda: cell(reader))
        living = reader.list(lambda: {"incarnation": self.dot(reader)} | self.row(reader, table))
        dead = reader.list(lambda: (self.dot(reader), self.entry(reader, self.vectors), reader.take(reader.varint())))
        for _, _, detail in dead:
            self.tombstone(detail, table)
        self.keys.append({"table": table, "key": key, "living": living, "dead": [incarnation for incarnation, _, _ in dead]})


# Objects (Docs/Formats/Segment.md)

def padded(count: int) -> int:
    if count <= 1:
        return count
    exponent = count.bit_length() - 1
    mask = (1 << max(exponent - exponent.bit_length(), 0)) - 1
    return count + mask & ~mask


class ObjectKey:
    def __init__(self, secret: bytes, identifier: bytes, repository: bytes):
        self.identifier, self.repository = identifier, repository
        self.salts, self.keys, self.tags = (hkdf(secret, repository, f"cipherstore object {use} v1") for use in ("salt", "key", "tag"))

    def tag(self, purpose: str, content: bytes) -> str:
        return mac(self.tags, purpose.encode() + b"\0", content)[:8].hex()

    def seal(self, content: bytes, kind: int, edition: int = 0) -> bytes:
        header = b"CSO2" + bytes([1, kind, edition, 0]) + self.identifier + self.repository
        header += mac(self.salts, bytes([kind, edition]), content)
        plain = struct.pack(">I", len(content)) + content
        plain += bytes(padded(len(plain)) - len(plain))
        return header + AESGCM(mac(self.keys, header, b"\1")).encrypt(NONCE, plain, header)

    def open(self, data: bytes, kind: int) -> bytes:
        header = data[:72]
        check(header[24:40] == self.repository and header[8:24] == self.identifier, "it has another key")
        try:
            plain = AESGCM(mac(self.keys, header, b"\1")).decrypt(NONCE, data[72:], header)
        except InvalidTag:
            raise Refused("it is not authentic") from None
        content = plain[4 : 4 + struct.unpack(">I", plain[:4])[0]]
        check(self.seal(content, kind, header[6]) == data, "it is not the one encoding of its content")
        return content


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except InvalidSignature:
        return False


# Members (Docs/Formats/Members.md)

def read_member(reader: Reader) -> dict:
    return {"id": reader.take(16), "signing": reader.take(32), "agreement": reader.take(32), "name": reader.text()}


def read_record(data: bytes) -> dict:
    reader = Reader(data)
    check(reader.byte() == 1, "a record has another version")
    record = {"kind": reader.byte(), "repository": reader.take(16), "author": reader.take(16), "time": reader.number(">Q"),
              "known": reader.list(lambda: reader.take(32))}
    kind = record["kind"]
    if kind == 0:
        record |= {"member": read_member(reader), "nonce": reader.take(16), "role": ADMIN}
    elif kind == 1:
        record |= {"member": read_member(reader), "role": reader.byte()}
    elif kind == 2:
        record |= {"key": reader.take(32), "role": reader.byte(), "end": reader.number(">Q")}
    elif kind == 3:
        record |= {"invitation": reader.take(32), "member": read_member(reader)}
    elif kind == 4:
        record |= {"invitation": reader.take(32)}
    elif kind == 5:
        record |= {"removed": reader.take(16), "vector": read_tips(reader)}
    elif kind == 6:
        record |= {"ephemeral": reader.take(32), "boxes": reader.list(lambda: (reader.take(16), reader.take(48))),
                   "carried": reader.list(lambda: reader.take(32))}
        record["sealed"] = reader.take(32 * len(record["carried"]) + 16) if record["carried"] else b""
    else:
        raise Refused(f"{kind} is no kind of record")
    body, record["signatures"] = data[: reader.at], [reader.take(64) for _ in range(2 if kind == 3 else 1)]
    check(reader.ended(), "bytes follow a record")
    record["hash"] = hashlib.sha256(b"cipherstore member record v1" + body).digest()
    return record


class Members:
    """The records that count by what they knew."""

    def __init__(self, records: list, repository: bytes):
        self.repository, self.records, self.members, self.closures = repository, {}, {}, {}
        waiting = {record["hash"]: record for record in records}
        while ready := [r for r in waiting.values() if all(known in self.closures for known in r["known"])]:
            for record in sorted(ready, key=lambda r: r["hash"]):
                self.closures[record["hash"]] = {k for known in record["known"] for k in self.closures[known] | {known}}
                del waiting[record["hash"]]
                self.examine(record)
        self.missing = len(waiting)

    def known_member(self, identifier: bytes, record: dict):
        entry = self.members.get(identifier)
        return entry if entry and entry["record"] in self.closures[record["hash"]] else None

    def examine(self, record: dict) -> None:
        message = b"cipherstore member record v1" + record["hash"]
        if record["kind"] == 0:
            author, counts = record["member"], record["hash"][:16] == self.repository
        elif record["kind"] == 3:
            invited = self.records.get(record["invitation"])
            counts = bool(invited) and record["invitation"] in self.closures[record["hash"]] and record["time"] <= invited["end"] \
                and verify(invited["key"], record["signatures"][0], message)
            author, record["role"] = record["member"], invited and invited["role"]
        else:
            author = self.known_member(record["author"], record)
            counts = bool(author) and record["repository"] == self.repository
            counts = counts and (record["kind"] in (5, 6) or author["role"] == ADMIN)
        if not counts or not verify(author["signing"], record["signatures"][-1], message):
            return
        self.records[record["hash"]] = record
        if "member" in record:
            self.members.setdefault(record["member"]["id"], record["member"] | {"role": record["role"], "record": record["hash"]})

    def epochs(self) -> dict:
        return {h: r for h, r in self.records.items() if r["kind"] == 6}

    def secrets(self, have: dict) -> dict:
        """All secrets that follow from some, by the chains of the epochs."""
        found, before = dict(have), -1
        while len(found) > before:
            before = len(found)
            for identifier, epoch in self.epochs().items():
                if identifier in found and epoch["carried"]:
                    key = hkdf(found[identifier], self.repository, "cipherstore epoch chain v1")
                    plain = AESGCM(key).decrypt(NONCE, epoch["sealed"], b"".join(epoch["carried"]))
                    found |= {former: plain[32 * i : 32 * i + 32] for i, former in enumerate(epoch["carried"])}
        return found


def open_box(epoch: dict, member: bytes, agreement: bytes, repository: bytes) -> bytes:
    """The secret of an epoch, for a member with its private key."""
    pair = X25519PrivateKey.from_private_bytes(agreement)
    shared = pair.exchange(X25519PublicKey.from_public_bytes(epoch["ephemeral"]))
    key = hkdf(shared, epoch["ephemeral"] + pair.public_key().public_bytes_raw(), "cipherstore epoch box v1")
    return AESGCM(key).decrypt(NONCE, dict(epoch["boxes"])[member], repository + member)


def read_invitation(data: bytes, raw_key: bytes) -> dict:
    check(data[:5] == b"CSI2\1" and data[5] == 1 and data[18:20] == bytes(2), "no invitation with a raw key")
    repository, salt, nonce = data[20:36], data[36:52], data[52:64]
    key = hkdf(hkdf(raw_key, salt, "cipherstore slot wrapping v2"), salt, "cipherstore invitation v2")
    try:
        plain = AESGCM(key).decrypt(nonce, data[64:], data[:64])
    except InvalidTag:
        raise Refused("wrong key of the invitation") from None
    count = struct.unpack(">H", plain[96:98])[0]
    epochs = {plain[at : at + 32]: plain[at + 32 : at + 64] for at in range(98, 98 + 64 * count, 64)}
    return {"repository": repository, "record": plain[:32], "roster": plain[64:96], "epochs": epochs,
            "address": plain[98 + 64 * count :].decode()}


# A folder

class Remote:
    def __init__(self, folder: Path, invitation: dict):
        self.repository, self.problems = invitation["repository"], []
        root = folder / self.repository.hex()
        self.objects = {kind: {f.name: f.read_bytes() for f in sorted((root / kind).iterdir())} if (root / kind).is_dir() else {}
                        for kind in KINDS}
        self.roster = ObjectKey(invitation["roster"], bytes(16), self.repository)
        self.keys = {bytes(16): self.roster}
        records = [r for r in (self.attempt(f"m/{name}", lambda: read_record(self.content("m", name))) for name in self.objects["m"]) if r]
        self.members = Members(records, self.repository)
        for epoch, secret in self.members.secrets(invitation["epochs"]).items():
            self.keys[epoch[:16]] = ObjectKey(secret, epoch[:16], self.repository)

    def attempt(self, name: str, read):
        try:
            return read()
        except Refused as reason:
            self.problems.append(f"{name}: {reason}")

    def content(self, kind: str, name: str) -> bytes:
        data = self.objects[kind][name]
        check(hashlib.sha256(data).digest()[:16].hex() == name[-32:], "it is damaged")
        check(data[:5] == b"CSO2\1" and data[5] == KINDS[kind], "it is of another kind or version")
        key = self.keys.get(data[8:24])
        check(key is not None, "its epoch is not known")
        return key.open(data, KINDS[kind])

    def segments(self) -> list:
        """The contents with their names: the parts of a long commit are put together."""
        groups = {}
        for name in self.objects["c"]:
            author, first, last, tip, part, parts, _ = name.split("-")
            groups.setdefault((author, int(first), int(last), tip, int(parts)), {})[int(part)] = name
        whole = [(key, [names[part] for part in sorted(names)]) for key, names in sorted(groups.items()) if len(names) == key[4]]
        return [(key, names, self.attempt(names[0], lambda: b"".join(self.content("c", n) for n in names))) for key, names in whole]

    def commits(self) -> list:
        found = {}
        for key, names, content in self.segments():
            if content is not None:
                found |= {c["hash"]: c for c in self.attempt(names[0], lambda: self.read_segment(content, key)) or []}
        return sorted(found.values(), key=lambda c: (c["author"], c["number"], c["hash"]))

    def signer(self, identifier: bytes) -> bytes:
        member = self.members.members.get(identifier)
        check(member is not None and member["role"] >= WRITER, "its author may not write")
        return member["signing"]

    def read_segment(self, content: bytes, key: tuple) -> list:
        reader, commits = Reader(content), []
        check(reader.byte() == 1 and reader.take(16) == self.repository, "another version or repository")
        author, first, count, previous = reader.take(16), reader.number(">Q"), reader.number(">I"), reader.take(32)
        for number in range(first, first + count):
            body = reader.take(reader.varint())
            digest = commit_hash(self.repository, author, number, previous, body)
            commits.append(read_commit(body, author, number) | {"hash": digest.hex(), "previous": previous.hex(), "bytes": len(body)})
            previous = digest
        signature = reader.take(64)
        check(reader.ended() and commits, "a segment has no end")
        check(verify(self.signer(author), signature, b"cipherstore commit signature v1" + previous), "its signature is wrong")
        names = (self.roster.tag("author", author), first, first + count - 1, self.roster.tag("tip", previous))
        check(names == key[:4], "its name is that of another content")
        return commits

    def snapshots(self) -> list:
        def read(name):
            content = self.content("s", name)
            reader = Reader(content)
            version = reader.byte()
            check(version in (1, 2) and reader.take(16) == self.repository, "another version or repository")
            maker, time, vector = reader.take(16), reader.number(">Q"), read_tips(reader)
            parts = reader.list(lambda: reader.take(16).hex())
            body, signature = content[: reader.at], reader.take(64)
            check(reader.ended() and verify(self.signer(maker), signature, b"cipherstore snapshot v1" + body), "its signature is wrong")
            return {"snapshot": name, "maker": maker.hex(), "time": time, "vector": vector, "parts": parts,
                    "isWhole": all(part in self.objects["p"] for part in parts)}

        return [s for s in (self.attempt(f"s/{name}", lambda: read(name)) for name in self.objects["s"]) if s]

    def rows(self) -> list:
        """The joined rows of all commits, and of the greatest snapshot that is whole."""
        count = lambda snapshot: sum(int(tip.split(":")[0]) for tips in snapshot["vector"].values() for tip in tips)
        whole = sorted((s for s in self.snapshots() if s["isWhole"]), key=count)
        join = self.attempt("the join", lambda: Join(self.read_snapshot(whole[-1]) if whole else None, self.commits()))
        if join is None:
            return []
        for snapshot in whole:
            tips = [(author, int(tip.split(":")[0]), tip.split(":")[1]) for author, own in snapshot["vector"].items() for tip in own]
            if not all(join.covers(join.vector, tip) for tip in tips):
                self.problems.append(f"s/{snapshot['snapshot']}: it has commits that the greatest snapshot lacks")
        return join.keys()

    def read_snapshot(self, snapshot: dict) -> SnapshotContent | None:
        def read():
            by_digest = {name[-32:]: name for name in self.objects["p"]}
            content = SnapshotContent(b"".join(self.content("p", by_digest[part]) for part in snapshot["parts"]))
            tips = sorted(f"{author}:{tip}" for author, tips in snapshot["vector"].items() for tip in tips)
            check(sorted(content.state) == tips, "the vector is not that of the manifest")
            return content

        return self.attempt(f"s/{snapshot['snapshot']}", read)


# The join (Docs/Sync.md): rows by the commits that a remote has

Dot = tuple         # (author, number, tag): a commit, all in hexadecimal digits but the number


def read_dot(text: str) -> Dot:
    author, number, *tag = text.split(":")
    return (author, int(number), tag[0] if tag else None)


class Join:
    """The rows of the greatest snapshot and of the commits that follow, each joined after all that it knew."""

    def __init__(self, snapshot: SnapshotContent | None, commits: list):
        self.parents, self.times, self.branches, self.contexts = {}, {}, {}, {}
        self.vector, self.rows, self.dead, self.counters, self.removed = {}, {}, {}, set(), {}
        if snapshot:
            self.begin(snapshot)
        waiting = {(c["author"], c["number"], c["hash"][:32]): c for c in commits}
        waiting = {dot: c for dot, c in waiting.items() if not self.covers(self.vector, dot)}
        while ready := [dot for dot in waiting if self.is_ready(dot, waiting)]:
            dot = min(ready, key=lambda dot: (waiting[dot]["time"], dot))
            self.join(dot, waiting.pop(dot))
        self.missing = len(waiting)

    # Knowledge

    def ancestor(self, dot: Dot, number: int) -> Dot | None:
        while dot and dot[1] > number:
            dot = self.parents.get(dot)
        return dot if dot and dot[1] == number else None

    def covers(self, vector: dict, dot: Dot) -> bool:
        return any(self.ancestor(tip, dot[1]) == dot for tip in vector.get(dot[0], ()))

    def advance(self, vector: dict, dot: Dot) -> dict:
        tips = {tip for tip in vector.get(dot[0], ()) if self.ancestor(dot, tip[1]) != tip}
        return vector | {dot[0]: tips | {dot}}

    def resolve(self, text: str, context: dict) -> Dot:
        author, number, tag = read_dot(text)
        if tag:
            return (author, number, tag)
        found = {self.ancestor(tip, number) for tip in context.get(author, ())}
        check(len(found) == 1 and None not in found, "a commit names what its author cannot have known")
        return found.pop()

    def add(self, dot: Dot, parent: Dot | None, time: int, begins: bool) -> None:
        self.parents[dot], self.times[dot] = parent, time
        self.branches[dot] = dot if begins or parent is None else self.branches[parent]

    def is_ready(self, dot: Dot, waiting: dict) -> bool:
        commit = waiting[dot]
        parent = (dot[0], dot[1] - 1, commit["previous"][:32]) if dot[1] > 1 else None
        known = [(author, int(tip.split(":")[0]), tip.split(":")[1]) for author, tips in commit["context"].items() for tip in tips]
        known += [read_dot(seen) for write in commit["writes"] for seen in write.get("seen", ()) if read_dot(seen)[2]]
        if not all(self.covers(self.vector, other) for other in known + ([parent] if parent else [])):
            return False
        if dot[0] not in self.removed or self.covers(self.removed[dot[0]], dot):
            return True
        # A member vouches for what it had joined before it knew of the removal.
        return any((dot[1], dot[2]) <= (int(tip.split(":")[0]), tip.split(":")[1]) for other, c in waiting.items()
                   if other[0] not in self.removed for tip in c["context"].get(dot[0], ()))

    # Snapshots

    def begin(self, snapshot: SnapshotContent) -> None:
        name = lambda commit: (commit["author"].hex(), commit["number"], commit["hash"][:16].hex())
        for commit in snapshot.commits:
            self.add(name(commit), name(commit["parent"]) if commit["parent"] else None, commit["time"], commit["begins"])
        vector = lambda dots: {dot[0]: {d for d in map(read_dot, dots) if d[0] == dot[0]} for dot in map(read_dot, dots)}
        self.vector = vector(snapshot.state)
        self.removed = {author: vector(dots) for author, dots in snapshot.removed.items()}
        self.contexts = {read_dot(tip): vector(dots) for tip, dots in snapshot.contexts.items()}
        self.counters = set(snapshot.counters)
        for key in snapshot.keys:
            place = (key["table"], json.dumps(key["key"]))
            self.dead[place] = {read_dot(dot) for dot in key["dead"]}
            for living in key["living"]:
                stamp = lambda given: self.stamp(given["era"], read_dot(given["dot"]))
                self.rows.setdefault(place, {})[read_dot(living["incarnation"])] = {
                    "cells": {c: (stamp(living["stamps"][c]), value) for c, value in living["cells"].items()},
                    "sums": {c: {(read_dot(origin), read_dot(branch)): (read_dot(last)[1], total) for origin, branch, last, total in sums}
                             for c, sums in living["sums"].items()}}

    # Commits

    def stamp(self, era: int, dot: Dot) -> tuple:
        return (era, self.times[dot], dot)

    def join(self, dot: Dot, commit: dict) -> None:
        parent = (dot[0], dot[1] - 1, commit["previous"][:32]) if dot[1] > 1 else None
        self.add(dot, parent, commit["time"], commit["beginsBranch"])
        context = self.advance(self.contexts.get(parent, {}), parent) if parent else {}
        for author, tips in commit["context"].items():
            context = context | {author: {(author, int(tip.split(":")[0]), tip.split(":")[1]) for tip in tips}}
        self.contexts[dot] = context
        for write in commit["writes"]:
            self.apply(dot, write, context)
        self.vector = self.advance(self.vector, dot)
        for event in commit["events"]:
            if "remove" in event:
                self.removed[event["remove"]] = context
            if "policy" in event:
                self.counters |= {(event["policy"]["table"], column) for column in event["policy"]["counters"]}

    def apply(self, dot: Dot, write: dict, context: dict) -> None:
        place = (write["table"], json.dumps(write["key"]))
        rows, dead = self.rows.setdefault(place, {}), self.dead.setdefault(place, set())
        incarnation = dot if write["kind"] == "insert" else self.resolve(write["incarnation"], context)
        if write["kind"] == "delete":
            rows.pop(incarnation, None)
            dead.add(incarnation)
            return
        if incarnation in dead or write["kind"] == "update" and incarnation not in rows:
            return
        row = rows.setdefault(incarnation, {"cells": {}, "sums": {}})
        if "copied" in write:
            self.copy(write["copied"], row, context)
        stamp = self.stamp(write.get("era", 0), dot)
        for column, value in write["cells"].items():
            if column not in row["cells"] or row["cells"][column][0] < stamp:
                row["cells"][column] = (stamp, value)
        for column, step in write.get("steps", {}).items():
            sums, source = row["sums"].setdefault(column, {}), (incarnation, self.branches[dot])
            number, total = sums.get(source, (0, 0))
            if number < dot[1]:
                sums[source] = (dot[1], total + step)

    def copy(self, copied: dict, row: dict, context: dict) -> None:
        for cell in copied["cells"]:
            given = cell["stamp"]
            stamp = (given["era"], given["time"], self.resolve(given["dot"], context))
            row["cells"][cell["column"]] = (stamp, cell["value"])
        for entry in copied["sums"]:
            last = self.resolve(entry["last"], context)
            source = (self.resolve(entry["origin"], context), self.branches[last])
            row["sums"].setdefault(entry["column"], {})[source] = (last[1], entry["total"])

    # Rows

    def keys(self) -> list:
        found = []
        for place in sorted(set(self.rows) | set(self.dead)):
            rows, dead = self.rows.get(place, {}), self.dead.get(place, set())
            if not rows and not dead:
                continue
            living = [{"incarnation": ":".join(map(str, dot)), "cells": {c: value for c, (_, value) in sorted(row["cells"].items())},
                       "counters": {c: sum(total for _, total in sums.values()) for c, sums in row["sums"].items()}}
                      for dot, row in sorted(rows.items())]
            found.append({"table": place[0], "key": json.loads(place[1]), "living": living,
                          "dead": [":".join(map(str, dot)) for dot in sorted(dead)],
                          "shown": self.shown(place[0], list(rows.values())) if rows else None})
        return found

    def shown(self, table: str, rows: list) -> dict:
        """Of several insertions of one key, each cell has the greatest stamp. A counter adds its steps to its cell."""
        cells, sums = {}, {}
        for row in rows:
            for column, cell in row["cells"].items():
                cells[column] = max(cells.get(column, cell), cell, key=lambda cell: cell[0])
            for column, own in row["sums"].items():
                for source, counted in own.items():
                    kept = sums.setdefault(column, {})
                    kept[source] = max(kept.get(source, counted), counted)
        values = {column: value for column, (_, value) in cells.items()}
        for column in {name for own, name in self.counters if own == table}:
            if column in sums or column not in values:
                cell = values.get(column)
                count = round(cell) if isinstance(cell, (int, float)) else 0
                values[column] = count + sum(total for _, total in sums.get(column, {}).values())
        return dict(sorted(values.items()))


# Examples

def show(title: str, data: bytes, line: int = 32, group: int = 4) -> None:
    print(title)
    for at in range(0, len(data), line):
        print(f"{at:4}  " + data[at : at + line].hex(" ", -group))
    print()


def example_snapshot(author: bytes) -> bytes:
    time = lambda second: struct.pack(">Q", (1_800_000_000_000 + 1000 * second) << 16)
    items = [
        b"\1\1" + time(1),                                                 # head
        b"\2" + author,
        b"\3" + b"\1\1\0\0" + time(0) + bytes([0x81] * 32),               # commit 1
        b"\3" + b"\1\2\1\0" + time(1) + bytes([0x82] * 32),               # commit 2, after commit 1
        b"\4t",
        b"\5\1\0x",
        b"\6\1\2",                                                         # vector 1: commit 2
        b"\6\1\1",                                                         # vector 2: commit 1
        b"\7\1" + b"\1\2\2" + b"\0",                                     # the author of commit 2 had vector 2
        b"\x08\1" + b"\1\1\7" + b"\1\1" + b"\0\1" + b"\1\1\0\1" + bytes([15]) + b"a" + b"\0" + b"\0",
        b"\x08\1" + b"\1\1\x08" + b"\0" + b"\1\1\2" + b"\1\2",
    ]
    content = b"".join(varint(len(item)) + item for item in items)
    print(json.dumps(SnapshotContent(content).keys), "\n")
    return content


def example() -> None:
    repository, author, other = bytes(range(0xA0, 0xB0)), bytes(range(1, 17)), bytes([0x11] * 16)
    text = lambda value: varint(len(value.encode())) + value.encode()
    body = b"\1\0" + struct.pack(">Q", 1_800_000_000_000 << 16)
    body += b"\1" + other + b"\1" + b"\7" + bytes([0x77] * 16)            # context: one author with one tip
    body += text("{}") + b"\0"                                            # meta, no events
    shape = b"\0" + b"\0" + text("player") + b"\1" + b"\2" + b"\0" + text("name") + b"\0" + b"\1" + text("score") + b"\0" + b"\0"
    body += b"\2" + shape + b"\1\x2a" + bytes([13 + 2 * 3]) + b"Ann" + b"\2\3\xe8"
    body += b"\0" + b"\1\x2b" + bytes([13 + 2 * 3]) + b"Bob" + b"\0"
    shape = b"\1" + b"\0" + b"\1" + b"\1" + b"\1" + b"\0"
    body += b"\4" + shape + b"\1\5" + b"\0" + b"\2" + other + b"\7" + b"\x09"
    commit = read_commit(body, author, 1)
    digest = commit_hash(repository, author, 1, bytes(32), body)
    show("commit " + digest.hex(), body, line=16, group=1)
    print(json.dumps(commit, indent=1), "\n")
    pair = Ed25519PrivateKey.from_private_bytes(bytes([0x22] * 32))
    segment = b"\1" + repository + author + struct.pack(">QI", 1, 1) + bytes(32) + varint(len(body)) + body
    segment += pair.sign(b"cipherstore commit signature v1" + digest)
    show("segment", segment)
    sealed = ObjectKey(bytes([0x33] * 32), bytes(range(0xC0, 0xD0)), repository).seal(segment, 0)
    show("object", sealed)
    roster = ObjectKey(bytes([0x44] * 32), bytes(16), repository)
    digest_name = hashlib.sha256(sealed).digest()[:16].hex()
    print(f"name c/{roster.tag('author', author)}-1-1-{roster.tag('tip', digest)}-1-1-{digest_name}\n")
    show("snapshot", example_snapshot(author))
    agreement = X25519PrivateKey.from_private_bytes(bytes([0x55] * 32)).public_key().public_bytes_raw()
    member = author + pair.public_key().public_bytes_raw() + agreement + text("laptop")
    record = b"\1\0" + bytes(16) + author + struct.pack(">Q", 1_800_000_000_000) + b"\0" + member + bytes([0x66] * 16)
    record_hash = hashlib.sha256(b"cipherstore member record v1" + record).digest()
    show("founding record " + record_hash.hex(), record + pair.sign(b"cipherstore member record v1" + record_hash))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("invitation", nargs="?", type=Path)
    parser.add_argument("--raw-key-file", type=Path)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--example", action="store_true")
    arguments = parser.parse_args()
    if arguments.example:
        example()
        return 0
    try:
        invitation = read_invitation(arguments.invitation.read_bytes(), arguments.raw_key_file.read_bytes())
    except Refused as reason:
        sys.exit(str(reason))
    remote = Remote(arguments.folder, invitation)
    for member in remote.members.members.values():
        print(json.dumps({"member": member["id"].hex(), "name": member["name"], "role": member["role"]}))
    for identifier, epoch in remote.members.epochs().items():
        print(json.dumps({"epoch": identifier.hex(), "members": [m.hex() for m, _ in epoch["boxes"]],
                          "isReadable": identifier[:16] in remote.keys}))
    for entry in remote.snapshots() + remote.commits():
        print(json.dumps(entry))
    for key in remote.rows() if arguments.rows else []:
        print(json.dumps(key))
    for problem in remote.problems:
        print(problem, file=sys.stderr)
    return 1 if remote.problems or remote.members.missing else 0


if __name__ == "__main__":
    sys.exit(main())
