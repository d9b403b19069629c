#!/usr/bin/env python3
"""Reads a directory remote of a repository without any code of CipherStore.

Written from Docs/Formats/Envelope.md alone, with Python's hashlib and PyPI's `cryptography`. It follows the log of every
author, puts long commits together, decrypts each one and verifies its identifier. Nothing is written.

Usage: read_envelopes.py FOLDER --repository HEX --key-file F [--epoch N]      one JSON line for each commit
       read_envelopes.py --vectors                                            the vectors, for Keys/vectors/envelopes.json
       read_envelopes.py --example                                            the example of Docs/Formats/Envelope.md
"""

import argparse
import hashlib
import hmac
import json
import struct
import sys
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

LIMIT = 512 * 1024
COMMIT, MANIFEST, CHUNK = 0, 1, 2
HEADER = struct.Struct(">4sBBBBII16s32s16sQ")


class Refused(Exception):
    """Why an object is not what it should be."""


def code(key: bytes, *pieces: bytes) -> bytes:
    return hmac.new(key, b"".join(pieces), hashlib.sha256).digest()


class Key:
    def __init__(self, repository: bytes, secret: bytes, epoch: int = 1):
        def derive(label: str) -> bytes:
            return HKDF(hashes.SHA256(), 32, repository, label.encode()).derive(secret)

        self.repository, self.epoch = repository, epoch
        self.identity = derive("cipherstore sync commit id v1")
        self.object = derive("cipherstore sync object id v1")
        self.author = derive("cipherstore sync author v1")
        self.encryption = derive("cipherstore sync encryption v1")
        self.rows = derive("cipherstore sync row digest v1")

    def commit_id(self, canonical: bytes) -> bytes:
        return code(self.identity, canonical)

    def chunk_id(self, commit: bytes, number: int, chunk: bytes) -> bytes:
        return code(self.object, commit, struct.pack(">Q", number), chunk)

    def pseudonym(self, author: bytes) -> bytes:
        return code(self.author, author)[:16]

    def row_number(self, cells: bytes) -> int:
        return int.from_bytes(code(self.rows, cells)[:16], "big")

    def cipher(self, header: bytes) -> AESGCM:
        return AESGCM(HKDFExpand(hashes.SHA256(), 32, b"cipherstore sync envelope v1" + header).derive(self.encryption))

    # Sealing

    def envelope(self, kind: int, identifier: bytes, author: bytes, gen: int, parents: list, body: bytes) -> bytes:
        header = HEADER.pack(b"CSE1", 1, kind, len(parents), 0, self.epoch, len(body), self.repository, identifier, author,
                             gen) + b"".join(parents)
        return header + self.cipher(header).encrypt(bytes(12), body, header)

    def seal(self, canonical: bytes, parents: list, author: bytes, gen: int) -> list:
        identifier = self.commit_id(canonical)
        if len(canonical) <= LIMIT:
            return [(identifier, self.envelope(COMMIT, identifier, author, gen, parents, canonical))]
        sealed = []
        for number, start in enumerate(range(0, len(canonical), LIMIT)):
            chunk = canonical[start:start + LIMIT]
            name = self.chunk_id(identifier, number, chunk)
            sealed.append((name, self.envelope(CHUNK, name, bytes(16), number, [identifier], chunk)))
        body = struct.pack(">Q", len(canonical)) + b"".join(name for name, _ in sealed)
        return sealed + [(identifier, self.envelope(MANIFEST, identifier, author, gen, parents, body))]

    # Opening

    def open(self, data: bytes, identifier: bytes) -> tuple:
        if len(data) < HEADER.size:
            raise Refused("truncated")
        magic, version, kind, count, reserved, epoch, length, repository, own, author, gen = HEADER.unpack_from(data)
        end = HEADER.size + 32 * count
        if (magic, version, reserved) != (b"CSE1", 1, 0) or kind > CHUNK or count > 2 or len(data) != end + length + 16:
            raise Refused("not an envelope of version 1")
        if (repository, epoch, own) != (self.repository, self.epoch, identifier):
            raise Refused("of another repository or epoch, or another object")
        try:
            body = self.cipher(data[:end]).decrypt(bytes(12), data[end:], data[:end])
        except InvalidTag:
            raise Refused("not authentic") from None
        return kind, [data[at:at + 32] for at in range(HEADER.size, end, 32)], author, gen, body

    def content(self, identifier: bytes, get) -> tuple:
        """Parents, author, generation and canonical bytes of a commit; `get` returns the bytes of an object."""
        kind, parents, author, gen, body = self.open(get(identifier), identifier)
        if kind == CHUNK:
            raise Refused("a chunk, and not a commit")
        if kind == MANIFEST:
            names = [body[at:at + 32] for at in range(8, len(body), 32)]
            total, body = struct.unpack_from(">Q", body)[0], b""
            for number, name in enumerate(names):
                part = self.open(get(name), name)
                if part[0] != CHUNK or part[1] != [identifier] or part[3] != number \
                        or self.chunk_id(identifier, number, part[4]) != name:
                    raise Refused(f"part {number} is wrong")
                body += part[4]
            if len(body) != total:
                raise Refused("the length is wrong")
        if self.commit_id(body) != identifier:
            raise Refused("the identifier is wrong")
        return parents, author, gen, body

    def read(self, identifier: bytes, get) -> dict:
        parents, author, gen, body = self.content(identifier, get)
        return {"id": identifier.hex(), "parents": [p.hex() for p in parents], "author": author.hex(), "generation": gen,
                "canonical": body.hex() if len(body) <= 4096 else None, "bytes": len(body),
                "sha256": hashlib.sha256(body).hexdigest()}


def read_folder(folder: Path, key: Key) -> None:
    own = folder / key.repository.hex()
    for author in sorted((own / "log").iterdir()):
        sequence = 1
        while (author / str(sequence)).exists():
            identifier = bytes.fromhex((author / str(sequence)).read_text().removesuffix("\n"))
            commit = key.read(identifier, lambda name: (own / "objects" / name.hex()[:2] / name.hex()).read_bytes())
            print(json.dumps({"log": author.name, "sequence": sequence} | commit))
            sequence += 1


# The vectors

def stream(name: str, count: int) -> bytes:
    return b"".join(hashlib.sha256(f"{name}/{n}".encode()).digest() for n in range((count + 31) // 32))[:count]


def example() -> tuple:
    key = Key(bytes(range(0xA0, 0xB0)), bytes(range(32)))
    canonical = b"a row of a table"
    parent = stream("parent", 32)
    author = key.pseudonym(bytes(range(0xC0, 0xD0)))
    return key, canonical, parent, author, key.seal(canonical, [parent], author, 2)[0]


def vectors() -> list:
    found = []
    for count, parents in [(0, 0), (1, 1), (300, 2), (LIMIT, 1), (LIMIT + 1, 1)]:
        name = f"{count} bytes, {parents} parents"
        repository, secret, author = stream(name + " r", 16), stream(name + " s", 32), stream(name + " a", 16)
        key = Key(repository, secret, epoch=7)
        canonical = stream(name, count)
        named = [stream(f"{name} p{n}", 32) for n in range(parents)]
        sealed = key.seal(canonical, named, key.pseudonym(author), count + 5)
        found.append({"name": name, "repository": repository.hex(), "secret": secret.hex(), "epoch": 7,
                      "author": author.hex(), "pseudonym": key.pseudonym(author).hex(), "count": count,
                      "parents": [p.hex() for p in named], "generation": count + 5,
                      "objects": [{"id": i.hex(), "bytes": len(e), "header": e[:HEADER.size].hex(),
                                   "sha256": hashlib.sha256(e).hexdigest()} for i, e in sealed]})
    return found


def print_example() -> None:
    key, canonical, parent, author, (identifier, data) = example()
    for label, value in [("repository", key.repository), ("secret", bytes(range(32))), ("canonical", canonical),
                         ("commit id", identifier), ("parent", parent), ("pseudonym", author)]:
        print(f"{label:<10} {value.hex()}")
    for at in range(0, len(data), 16):
        print(f"{at:>4}  {data[at:at + 16].hex(' ')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--repository", type=bytes.fromhex)
    parser.add_argument("--key-file", type=Path, help="the 32 bytes of the secret")
    parser.add_argument("--epoch", type=int, default=1)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--example", action="store_true")
    arguments = parser.parse_args()
    if arguments.vectors:
        print(json.dumps({"vectors": vectors()}, indent=1))
    elif arguments.example:
        print_example()
    elif arguments.folder and arguments.repository and arguments.key_file:
        try:
            read_folder(arguments.folder, Key(arguments.repository, arguments.key_file.read_bytes(), arguments.epoch))
        except Refused as reason:
            sys.exit(f"refused: {reason}")
    else:
        parser.error("a folder, --repository and --key-file are needed")


if __name__ == "__main__":
    main()
