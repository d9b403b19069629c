#!/usr/bin/env python3
"""Opens an invitation to a repository without any code of CipherStore.

Written from Docs/Formats/Invitation.md alone, with Python's hashlib and PyPI's `cryptography`. Nothing is written. It prints the
repository's secret, so it is for tests.

Usage: read_invitation.py FILE --key-file F | --raw-key-file F      one JSON line
       read_invitation.py --example                                the example of Docs/Formats/Invitation.md
"""

import argparse
import hashlib
import json
import struct
import sys
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

HEADER = struct.Struct(">4sBBIIIHI16s16sI12s")
CHECKSUM = 32


def hkdf(key: bytes, salt: bytes, label: str) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt, label.encode()).derive(key)


def wrapping_key(secret: bytes, salt: bytes, derivation: tuple) -> bytes:
    number, one, two, three = derivation
    if number == 2:
        secret = hashlib.scrypt(secret, salt=salt, n=1 << one, r=two, p=three, maxmem=(1 << 31) - 1, dklen=32)
    elif number == 3:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

        secret = Argon2id(salt=salt, length=32, iterations=two, lanes=three, memory_cost=one).derive(secret)
    elif number != 1:
        sys.exit("unknown derivation")
    return hkdf(hkdf(secret, salt, "cipherstore slot wrapping v2"), salt, "cipherstore invitation v1")


def read(data: bytes, secret: bytes) -> dict:
    magic, version, *derivation, reserved, epoch, repository, salt, length, nonce = HEADER.unpack(data[: HEADER.size])
    if magic != b"CSI1" or version != 1 or reserved != 0:
        sys.exit("no invitation")
    end = HEADER.size + length
    if len(data) != end + CHECKSUM or hashlib.sha256(data[:end]).digest() != data[end:]:
        sys.exit("damaged")
    try:
        plain = AESGCM(wrapping_key(secret, salt, derivation)).decrypt(nonce, data[HEADER.size : end], data[: HEADER.size])
    except InvalidTag:
        sys.exit("wrong key")
    return {
        "repository": repository.hex(), "epoch": epoch, "secret": plain[:32].hex(), "remote": plain[32:].decode() or None,
    }


def example() -> None:
    secret, key = bytes(range(32)), bytes([0x2A] * 32)
    repository, salt, nonce = bytes(range(0xA0, 0xB0)), bytes(range(0xC0, 0xD0)), bytes(range(0xD0, 0xDC))
    plain = secret + b"dir:/mnt/share"
    header = HEADER.pack(b"CSI1", 1, 1, 0, 0, 0, 0, 1, repository, salt, len(plain) + 16, nonce)
    data = header + AESGCM(wrapping_key(key, salt, (1, 0, 0, 0))).encrypt(nonce, plain, header)
    data += hashlib.sha256(data).digest()
    for offset in range(0, len(data), 16):
        print(f"{offset:4}  " + " ".join(f"{byte:02x}" for byte in data[offset : offset + 16]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--key-file")
    parser.add_argument("--raw-key-file")
    parser.add_argument("--example", action="store_true")
    given = parser.parse_args()
    if given.example:
        return example()
    if not given.file or not (given.key_file or given.raw_key_file):
        sys.exit("a file and its key are needed")
    secret = Path(given.raw_key_file or given.key_file).read_bytes()
    if given.key_file:
        secret = secret.removesuffix(b"\n").removesuffix(b"\r")
    print(json.dumps(read(Path(given.file).read_bytes(), secret)))


if __name__ == "__main__":
    main()
