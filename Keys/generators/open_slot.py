#!/usr/bin/env python3
"""Opens a store with key slots without any code of CipherStore, and decrypts one of its pages.

Written from Docs/Formats/Sidecar.md and Docs/Formats/Pages.md alone, with Python's hashlib and PyPI's `cryptography`.
The database must be closed and its log empty: only the main file is read, and nothing is written.

Usage: open_slot.py DATABASE (--passphrase-file F | --raw-key-file F | --recovery-file F) [--page N] [--show-key]
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
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KINDS = ["passphrase", "key-file", "command", "credential", "recovery"]
HASHES = ["sha1", "sha256", "sha512"]
KDF_FIELDS = {"hkdf": [], "scrypt": ["log2_n", "r", "p"], "argon2id": ["memory_kib", "iterations", "lanes"]}
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def hkdf(key: bytes, salt: bytes, info: str, count: int) -> bytes:
    return HKDF(hashes.SHA256(), count, salt, info.encode()).derive(key)


# Wrapping

def context_start(purpose: int, store_id: bytes) -> bytes:
    return b"cipherstore-wrap" + bytes([2, purpose]) + store_id


def slot_context(store_id: bytes, slot: dict) -> bytes:
    parameters = [slot[name] for name in KDF_FIELDS[slot["kdf"]]] or [0, 0, 0]
    return (context_start(1, store_id) + struct.pack(">QBB", slot["id"], KINDS.index(slot["kind"]) + 1,
                                                     list(KDF_FIELDS).index(slot["kdf"]) + 1)
            + struct.pack(">III", *parameters) + bytes.fromhex(slot["salt"]))


def data_key_context(store_id: bytes, epoch: int, salt: bytes, cipher: dict) -> bytes:
    return (context_start(2, store_id) + struct.pack(">Q", epoch) + salt
            + struct.pack(">III", cipher["page_bytes"], cipher["plaintext_header_bytes"], cipher["kdf_rounds"])
            + bytes([HASHES.index(cipher["kdf_hash"]) + 1, HASHES.index(cipher["hmac_hash"]) + 1]))


def slot_key(slot: dict, secret: bytes) -> bytes:
    salt = bytes.fromhex(slot["salt"])
    if slot["kdf"] == "scrypt":
        n, r, p = 1 << slot["log2_n"], slot["r"], slot["p"]
        secret = hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, dklen=32, maxmem=128 * r * (n + p + 2) + (1 << 20))
    elif slot["kdf"] == "argon2id":
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
        secret = Argon2id(salt=salt, length=32, iterations=slot["iterations"], lanes=slot["lanes"],
                          memory_cost=slot["memory_kib"]).derive(secret)
    return hkdf(secret, salt, "cipherstore slot wrapping v2", 32)


def unwrap(record: dict, key: bytes, context: bytes):
    try:
        return AESGCM(key).decrypt(bytes.fromhex(record["nonce"]), bytes.fromhex(record["wrapped"]), context)
    except InvalidTag:
        return None


# Recovery keys

def recovery_check(line: int, data: bytes) -> int:
    crc = 0xFFFF
    for byte in bytes([line]) + data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc


def print_recovery(key: bytes) -> str:
    lines = []
    for line in range(1, 5):
        data = key[8 * (line - 1):8 * line]
        bits = int.from_bytes(data + recovery_check(line, data).to_bytes(2, "big"), "big")
        text = "".join(ALPHABET[bits >> shift & 31] for shift in range(75, -1, -5))
        lines.append("-".join(text[i:i + 4] for i in range(0, 16, 4)))
    return "\n".join(lines) + "\n"


def read_recovery(text: str) -> bytes:
    key = b""
    symbols = [c for c in text.upper().translate(str.maketrans("ILO", "110")) if c not in " \t\r\n-"]
    if len(symbols) != 64:
        raise SystemExit("a recovery key has 64 characters")
    for line in range(1, 5):
        bits = 0
        for character in symbols[16 * (line - 1):16 * line]:
            bits = bits << 5 | ALPHABET.index(character)
        block = bits.to_bytes(10, "big")
        if recovery_check(line, block[:8]) != int.from_bytes(block[8:], "big"):
            raise SystemExit(f"line {line} of the recovery key is wrong")
        key += block[:8]
    return key


# The sidecar

class Sidecar:
    """A sidecar of version 2. Its grammar is left to JSON here: what counts is that it is authenticated."""

    def __init__(self, content: bytes):
        self.lines = content.splitlines(keepends=True)
        records = [json.loads(line) for line in self.lines]
        if records[0] != {"format": "cipherstore-sidecar", "version": 2}:
            raise SystemExit("not a sidecar of version 2: the store has no key slots")
        self.slots = [r for r in records if r.get("record") == "slot"]
        self.store, self.cipher, self.data_key, self.pending, self.key_check = (
            next((r for r in records if r.get("record") == name), None)
            for name in ["store", "cipher", "data-key", "pending", "key-check"])
        self.mac = records[-1]["mac"]
        self.id = bytes.fromhex(self.store["id"])

    def covered(self, name: str) -> bytes:
        """Every byte before the line of a code."""
        count = next(i for i, line in enumerate(self.lines) if line.startswith(b'{"' + name.encode() + b'"'))
        return b"".join(self.lines[:count])

    def open_slots(self, secret: bytes, kinds: list):
        for slot in self.slots:
            if slot["kind"] in kinds:
                master = unwrap(slot, slot_key(slot, secret), slot_context(self.id, slot))
                if master is not None:
                    return slot, master
        raise SystemExit("the key opens no slot")

    def authenticate(self, master: bytes) -> None:
        check = hkdf(master, self.id, "cipherstore slots key check v2", 16)
        mac_key = hkdf(master, self.id, "cipherstore slots mac v2", 32)
        mac = hmac.new(mac_key, self.covered("mac"), "sha256").hexdigest()
        if check.hex() != self.key_check["value"] or not hmac.compare_digest(mac, self.mac):
            raise SystemExit("the sidecar was changed by somebody without its key")

    def open_data_key(self, master: bytes, record: dict, salt: bytes) -> bytes:
        key = unwrap(record, hkdf(master, self.id, "cipherstore data key wrapping v2", 32),
                     data_key_context(self.id, record["epoch"], salt, self.cipher))
        if key is None:
            raise SystemExit("the data key does not open")
        return key


# Pages (Docs/Formats/Pages.md)

def decrypt_page(page: bytes, number: int, key: bytes, salt: bytes, cipher: dict) -> bytes:
    code_bytes = hashlib.new(cipher["hmac_hash"]).digest_size
    usable = len(page) - (16 + code_bytes + 15) // 16 * 16
    clear = 0 if number > 1 else cipher["plaintext_header_bytes"] or 16
    mac_key = hashlib.pbkdf2_hmac(cipher["kdf_hash"], key, bytes(b ^ 0x3A for b in salt), 2, 32)
    code = hmac.new(mac_key, page[clear:usable + 16] + struct.pack("<I", number), cipher["hmac_hash"]).digest()
    if not hmac.compare_digest(code, page[usable + 16:usable + 16 + code_bytes]):
        raise SystemExit(f"page {number} is damaged, or the key is not its key")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(page[usable:usable + 16])).decryptor()
    plain = decryptor.update(page[clear:usable]) + decryptor.finalize()
    prefix = page[:clear] if cipher["plaintext_header_bytes"] else b"SQLite format 3\0"
    return (prefix if clear else b"") + plain + bytes(len(page) - usable)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("database", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--passphrase-file", type=Path)
    source.add_argument("--raw-key-file", type=Path)
    source.add_argument("--recovery-file", type=Path)
    parser.add_argument("--page", type=int, default=1, help="the page to decrypt to standard output")
    parser.add_argument("--show-key", action="store_true", help="print data key and salt instead of a page")
    arguments = parser.parse_args()

    sidecar = Sidecar(Path(str(arguments.database) + "-sidecar").read_bytes())
    if arguments.passphrase_file:
        secret = arguments.passphrase_file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
        kinds = ["passphrase", "command", "credential"]
    elif arguments.raw_key_file:
        secret, kinds = arguments.raw_key_file.read_bytes(), ["key-file", "recovery"]
    else:
        secret, kinds = read_recovery(arguments.recovery_file.read_text()), ["recovery"]
    slot, master = sidecar.open_slots(secret, kinds)
    sidecar.authenticate(master)
    salt = bytes.fromhex(sidecar.cipher["salt"])
    key = sidecar.open_data_key(master, sidecar.data_key, salt)
    print(f"slot {slot['id']} ({slot['kind']}) opened epoch {sidecar.data_key['epoch']}", file=sys.stderr)
    if arguments.show_key:
        print(json.dumps({"key": key.hex(), "salt": salt.hex()}))
        return
    size = sidecar.cipher["page_bytes"]
    with arguments.database.open("rb") as file:
        file.seek((arguments.page - 1) * size)
        page = file.read(size)
    if len(page) != size:
        raise SystemExit(f"the database has no page {arguments.page}")
    sys.stdout.buffer.write(decrypt_page(page, arguments.page, key, salt, sidecar.cipher))


if __name__ == "__main__":
    main()
