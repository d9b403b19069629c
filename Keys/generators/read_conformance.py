#!/usr/bin/env python3
"""Reads the conformance vectors, Keys/conformance, without any code of CipherStore.

A second implementation, written from Docs/Formats alone (Vector.md, Pages.md, Sidecar.md, Shares.md, Backup.md, KeyLog.md) with
Python's hashlib and hmac and PyPI's `cryptography`. It shares no code with the generator of the vectors.

Usage: read_conformance.py [--json] [FOLDER or VECTOR ...]
       read_conformance.py --compare FOLDER
Prints how many vectors of each kind have the expected verdict, and each that has not; with --json one line for each
vector instead. With --compare it compares its verdicts with those of another reader, which are in files of such lines.
Exit code: 0 all agree, 1 some do not, 2 a file is no vector.
"""

import hashlib
import hmac
import itertools
import json
import re
import struct
import sys
import unicodedata
from collections import Counter
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FOLDER = Path(__file__).resolve().parent.parent / "conformance"


class BadVector(Exception):
    """The file is not a vector: its form, not what it holds."""


class Refused(Exception):
    """A verdict other than ok, as it is written after `expect:`."""

    def __init__(self, verdict: str, **results):
        super().__init__(verdict)
        self.verdict, self.results = verdict, results


# The vector file (Vector.md)

ABOUT = ["cipherstore-vector", "kind", "expect", "comment", "limit", "base", "needs"]
INPUTS = ["function", "key", "salt", "passphrase", "passphrase_hex", "passphrase_repeat", "raw_key", "kdf_rounds", "kdf_hash",
          "hmac_hash", "page_bytes", "plaintext_header_bytes", "number", "iv", "plain_stream", "file_bytes", "max_frame",
          "label", "bytes", "log2_n", "r", "p", "memory_kib", "iterations", "lanes", "device", "device_secret"]
RESULTS = ["key", "sha256", "plain_sha256", "frames", "pages", "uncommitted", "images", "state", "epoch", "generation",
           "data_key", "next_key", "slot", "line", "copy", "notes", "lines", "problems", "acknowledged", "rotating",
           "database_sha256", "damaged_pages", "missing_pages", "zero_pages", "damaged_frames", "misfits"]
PARTS = {"file": r"(\S+) (\d+)", "use": r"(\S+) from (\S+) (\S+)", "remove": r"(\S+)", "flip": r"(\S+) (\d+) bit ([0-7])",
         "write": r"(\S+) (\d+) ((?:[0-9a-f]{2})+)", "truncate": r"(\S+) to (\d+)", "append": r"(\S+) ((?:[0-9a-f]{2})+)",
         "zeros": r"(\S+) (\d+)", "zeros-at": r"(\S+) (\d+) length (\d+)", "swap": r"(\S+) (\d+) with (\d+) length (\d+)",
         "delete": r"(\S+) (\d+) length (\d+)", "take": r"(\S+) (\d+) length (\d+) from (\S+) (\S+) (\d+)"}


class Vector:
    """The headers of a vector and its parts, made as its recipe says."""

    def __init__(self, name: str, is_base: bool = False):
        content = (FOLDER / f"{name}.vector").read_bytes()
        head, found, self.body = content.partition(b"\n\n")
        if not found:
            raise BadVector("no empty line ends the headers")
        try:
            rows = [row.partition(": ") for row in head.decode().split("\n")]
        except UnicodeDecodeError as error:
            raise BadVector("the headers are not UTF-8") from error
        self.rows = [(key.rstrip(":") if not colon else key, value) for key, colon, value in rows]
        if self.rows[0] != ("cipherstore-vector", "1"):
            raise BadVector("the first line is not `cipherstore-vector: 1`")
        self.headers, self.parts = {}, {}
        base = next((value for key, value in self.rows if key == "base"), None)
        if base:
            if is_base:
                raise BadVector("the base of a base")
            inherited = Vector(base, is_base=True)
            self.parts = dict(inherited.parts)
            self.headers = {key: value for key, value in inherited.headers.items() if key in INPUTS}
        own = set()
        for key, value in self.rows:
            self.take(key, value, own)
        if self.body:
            raise BadVector("bytes that no line names")

    def take(self, key: str, value: str, own: set) -> None:
        if key in PARTS:
            match = re.fullmatch(PARTS[key], value)
            if not match:
                raise BadVector(f"{key}: {value}")
            self.edit(key, *match.groups())
        elif key in ABOUT or key in INPUTS or key.removeprefix("result_") in RESULTS and key.startswith("result_"):
            if key in own:
                raise BadVector(f"{key} twice")
            own.add(key)
            self.headers[key] = value
        else:
            raise BadVector(f"unknown header {key}")

    def edit(self, key: str, name: str, *values: str) -> None:
        if key == "file":
            count = int(values[0])
            if count > len(self.body):
                raise BadVector("the body is too short")
            self.parts[name], self.body = self.body[:count], self.body[count:]
            return
        if key == "use":
            self.parts[name] = Vector(values[0]).parts[values[1]]
            return
        if key == "remove":
            del self.parts[name]
            return
        part = bytearray(self.parts[name])
        numbers = [int(value) if value.isdigit() else value for value in values]
        if key == "flip":
            part[numbers[0]] ^= 1 << numbers[1]
        elif key == "write":
            new = bytes.fromhex(values[1])
            part[numbers[0]:numbers[0] + len(new)] = new
        elif key == "truncate":
            del part[numbers[0]:]
        elif key == "append":
            part += bytes.fromhex(values[0])
        elif key == "zeros":
            part += bytes(numbers[0])
        elif key == "zeros-at":
            part[numbers[0]:numbers[0] + numbers[1]] = bytes(numbers[1])
        elif key == "swap":
            a, b, count = numbers
            part[a:a + count], part[b:b + count] = part[b:b + count], part[a:a + count]
        elif key == "delete":
            del part[numbers[0]:numbers[0] + numbers[1]]
        elif key == "take":
            source = Vector(values[2]).parts[values[3]]
            part[numbers[0]:numbers[0] + numbers[1]] = source[int(values[4]):int(values[4]) + numbers[1]]
        self.parts[name] = bytes(part)

    def hex(self, key: str) -> bytes:
        return bytes.fromhex(self.headers[key])

    def number(self, key: str) -> int:
        return int(self.headers[key])

    @property
    def kind(self) -> str:
        return self.headers["kind"]

    @property
    def settings(self) -> dict:
        """The cipher settings; SQLCipher 4 with a plaintext header where the vector does not say."""
        text = {"kdf_hash": "sha512", "hmac_hash": "sha512"}
        number = {"page_bytes": 4096, "plaintext_header_bytes": 32, "kdf_rounds": 256_000}
        return ({key: self.headers.get(key, value) for key, value in text.items()}
                | {key: int(self.headers.get(key, value)) for key, value in number.items()})

    @property
    def secret(self):
        """Whether the secret is a raw key, or the kind of the device that gives it, and its bytes."""
        if "device" in self.headers:
            return self.headers["device"], self.hex("device_secret")
        if "raw_key" in self.headers:
            return True, self.hex("raw_key")
        return False, self.passphrase

    @property
    def passphrase(self) -> bytes:
        if "passphrase_hex" in self.headers:
            return self.hex("passphrase_hex")
        if "passphrase_repeat" in self.headers:
            byte, count = self.headers["passphrase_repeat"].split()
            return bytes.fromhex(byte) * int(count)
        return self.headers["passphrase"].encode()


# Keys

def hkdf(key: bytes, salt: bytes, label: str, count: int = 32) -> bytes:
    """RFC 5869 with SHA-256."""
    start = hmac.new(salt, key, "sha256").digest()
    out, block = b"", b""
    while len(out) < count:
        block = hmac.new(start, block + label.encode() + bytes([len(out) // 32 + 1]), "sha256").digest()
        out += block
    return out[:count]


def scrypt(secret: bytes, salt: bytes, log2_n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(secret, salt=salt, n=1 << log2_n, r=r, p=p, dklen=32, maxmem=(128 * r << log2_n) + (1 << 21))


def argon2id(secret: bytes, salt: bytes, memory_kib: int, iterations: int, lanes: int) -> bytes:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
    return Argon2id(salt=salt, length=32, iterations=iterations, lanes=lanes, memory_cost=memory_kib).derive(secret)


def same(a: bytes, b: bytes) -> bool:
    return hmac.compare_digest(a, b)


def read_derivation(v: Vector) -> dict:
    function = v.headers["function"]
    if function == "passphrase":
        text = v.passphrase
        if not text or len(text) > 65_536 or text[:2].lower() == b"x'":
            raise Refused("invalidKey")
        return {}
    if function == "raw-key":
        if len(v.hex("key")) != 32:
            raise Refused("invalidKey")
        return {}
    if function == "salt":
        if not re.fullmatch("[0-9a-fA-F]{32}", v.headers["salt"]):
            raise Refused("invalidKey")
        return {}
    salt = v.hex("salt")
    if function == "data-key":
        key = hashlib.pbkdf2_hmac(v.headers["kdf_hash"], v.passphrase, salt, v.number("kdf_rounds"), 32)
    elif function == "mac-key":
        key = mac_key(v.hex("key"), salt, v.headers["kdf_hash"])
    elif function == "hkdf":
        key = hkdf(v.hex("key"), salt, v.headers["label"], v.number("bytes"))
    elif function == "scrypt":
        key = scrypt(v.passphrase, salt, v.number("log2_n"), v.number("r"), v.number("p"))
    elif function == "argon2id":
        key = argon2id(v.passphrase, salt, v.number("memory_kib"), v.number("iterations"), v.number("lanes"))
    else:
        raise BadVector(f"function {function}")
    return {"key": key.hex()}


# Pages (Pages.md)

CODE_BYTES = {"sha1": 20, "sha256": 32, "sha512": 64}
MAGIC = b"SQLite format 3\0"


def mac_key(key: bytes, salt: bytes, kdf_hash: str) -> bytes:
    return hashlib.pbkdf2_hmac(kdf_hash, key, bytes(byte ^ 0x3A for byte in salt), 2, 32)


class PageReader:
    """Authenticates, decrypts and encrypts pages under one key and salt."""

    def __init__(self, key: bytes, salt: bytes, settings: dict):
        self.key, self.salt, self.settings = key, salt, settings
        self.mac_key = mac_key(key, salt, settings["kdf_hash"])
        self.size, self.hash = settings["page_bytes"], settings["hmac_hash"]
        self.code_bytes = CODE_BYTES[self.hash]
        self.reserved = (16 + self.code_bytes + 15) // 16 * 16
        self.usable = self.size - self.reserved

    def clear(self, number: int) -> int:
        return 0 if number != 1 else self.settings["plaintext_header_bytes"] or 16

    def code(self, page: bytes, number: int) -> bytes:
        covered = page[self.clear(number):self.usable + 16] + number.to_bytes(4, "little")
        return hmac.new(self.mac_key, covered, self.hash).digest()

    def is_authentic(self, page: bytes, number: int) -> bool:
        if len(page) != self.size or number == 0:
            return False
        return same(self.code(page, number), page[self.usable + 16:self.usable + 16 + self.code_bytes])

    def decrypt(self, page: bytes, number: int) -> bytes:
        clear = self.clear(number)
        decryptor = Cipher(algorithms.AES(self.key), modes.CBC(page[self.usable:self.usable + 16])).decryptor()
        plain = decryptor.update(page[clear:self.usable]) + decryptor.finalize()
        start = page[:clear] if self.settings["plaintext_header_bytes"] else MAGIC[:clear]
        return start + plain + bytes(self.reserved)

    def encrypt(self, plain: bytes, number: int, vector: bytes) -> bytes:
        clear = self.clear(number)
        encryptor = Cipher(algorithms.AES(self.key), modes.CBC(vector)).encryptor()
        start = plain[:clear] if self.settings["plaintext_header_bytes"] else self.salt[:clear]
        page = start + encryptor.update(plain[clear:self.usable]) + encryptor.finalize() + vector
        return (page + self.code(page, number)).ljust(self.size, b"\0")


def reader_of(v: Vector) -> PageReader:
    return PageReader(v.hex("key"), v.hex("salt"), v.settings)


def read_page(v: Vector) -> dict:
    reader, number, page = reader_of(v), v.number("number"), v.parts["page"]
    if not reader.is_authentic(page, number):
        raise Refused(f"pageDamaged {number}")
    return {"plain_sha256": hashlib.sha256(reader.decrypt(page, number)).hexdigest()}


def read_encryption(v: Vector) -> dict:
    reader, number, name = reader_of(v), v.number("number"), v.headers["plain_stream"]
    blocks = (hashlib.sha256(f"{name}/{i}".encode()).digest() for i in range(reader.size // 32))
    plain = bytearray(b"".join(blocks))
    plain[reader.usable:] = bytes(reader.reserved)
    if number == 1:
        field = 1 if reader.size == 65536 else reader.size
        plain[:24] = MAGIC + field.to_bytes(2, "big") + bytes([2, 2, reader.reserved, 64, 32, 32])
    page = reader.encrypt(bytes(plain), number, v.hex("iv"))
    return {"sha256": hashlib.sha256(page).hexdigest()}


# The header (Pages.md)

def wrong_header_bytes(first: bytes, settings) -> list:
    wrong = [i for i in range(16) if first[i] != MAGIC[i]]
    if settings:
        size = settings["page_bytes"]
        expected = (1 if size == 65536 else size).to_bytes(2, "big")
        wrong += [16 + i for i in range(2) if first[16 + i] != expected[i]]
        reserves = {80, (16 + CODE_BYTES[settings["hmac_hash"]] + 15) // 16 * 16}
    else:
        size = int.from_bytes(first[16:18], "big")
        if size != 1 and (size < 512 or size & (size - 1)):
            wrong.append(16)
        reserves = {48, 80}
    if first[18] not in (1, 2) or first[19] not in (1, 2):
        wrong += [i for i in (18, 19) if first[i] not in (1, 2)]
    elif first[18] != first[19]:
        wrong.append(18)
    if first[20] not in reserves:
        wrong.append(20)
    return wrong + [i for i, value in [(21, 64), (22, 32), (23, 32)] if first[i] != value]


def examine(first: bytes, file_bytes: int, settings) -> str:
    """What the beginning of a file shows without a key, as the verdict of a vector of the kind header."""
    if file_bytes == 0:
        return "empty"
    if file_bytes < 512 or len(first) < 100:
        return "tooShort"
    if sum(a == b for a, b in zip(first, MAGIC)) >= 12 and first[72:92].count(0) >= 18:
        return "plainSQLite"
    wrong = wrong_header_bytes(first, settings)
    if len(wrong) >= 12:
        return "opaque"
    return f"headerDamaged {wrong[0]}" if wrong else "ok"


def looks_encrypted(first: bytes, file_bytes: int) -> bool:
    """Whether an opaque file may be SQLCipher's standard form: its bytes are spread evenly, in whole sectors."""
    counts = Counter(first)
    pairs = sum(count * count for count in counts.values())
    return file_bytes % 512 == 0 and pairs < (len(first) + len(first) * (len(first) - 1) / 256) * 1.5


def read_header(v: Vector) -> dict:
    first = v.parts["database"]
    settings = v.settings if "page_bytes" in v.headers else None
    verdict = examine(first, int(v.headers.get("file_bytes", len(first))), settings)
    if verdict != "ok":
        raise Refused(verdict)
    return {}


# The WAL (Pages.md)

def checksum(data: bytes, sums: tuple, order: str) -> tuple:
    first, second = sums
    for a, b in struct.iter_unpack(order + "II", data):
        first = first + a + second & 0xFFFFFFFF
        second = second + b + first & 0xFFFFFFFF
    return first, second


class WAL:
    """The committed frames of a WAL; `is_used` is false where SQLite ignores the whole file."""

    def __init__(self, content: bytes, page_bytes: int, most: int = None):
        self.frames, self.pages, self.uncommitted, self.is_used = [], 0, 0, False
        self.has_more = False
        if len(content) < 32:
            return
        magic, version, size, _, *salts, a, b = struct.unpack(">8I", content[:32])
        order = ">" if magic & 1 else "<"
        sums = checksum(content[:24], (0, 0), order)
        is_size = 512 <= size <= 65536 and size & (size - 1) == 0
        if magic | 1 != 0x377F0683 or not is_size or sums != (a, b):
            return
        # SQLite refuses to open a database with a WAL of another version.
        if version != 3_007_000 or size != page_bytes:
            raise Refused("logDamaged")
        self.is_used = True
        pending, offset = [], 32
        while offset + 24 + size <= len(content) and (most is None or len(self.frames) + len(pending) < most):
            number, commit, *frame_salts, a, b = struct.unpack(">6I", content[offset:offset + 24])
            sums = checksum(content[offset:offset + 8] + content[offset + 24:offset + 24 + size], sums, order)
            if frame_salts != salts or number == 0 or sums != (a, b):
                break
            pending.append((number, content[offset + 24:offset + 24 + size]))
            offset += 24 + size
            if commit:
                self.frames, self.pages, pending = self.frames + pending, commit, []
        self.uncommitted = len(pending)
        # A frame header with the salts of this run, whose frame does not fit: a commit may have been there.
        self.has_more = len(content) >= offset + 24 and list(struct.unpack(">2I", content[offset + 8:offset + 16])) == salts

    @property
    def last(self) -> dict:
        """The last frame of each page that exists, from 1."""
        return {number: i + 1 for i, (number, _) in enumerate(self.frames) if number <= self.pages}

    def damaged(self, reader: PageReader) -> list:
        return [i + 1 for i, (number, page) in enumerate(self.frames) if not reader.is_authentic(page, number)]


def read_wal(v: Vector) -> dict:
    most = v.number("max_frame") if "max_frame" in v.headers else None
    wal = WAL(v.parts["wal"], v.settings["page_bytes"], most)
    if not wal.is_used:
        raise Refused("walIgnored")
    images = " ".join(f"{page}:{frame}" for page, frame in sorted(wal.last.items())) or "none"
    results = {"frames": len(wal.frames), "pages": wal.pages, "uncommitted": wal.uncommitted, "images": images}
    if bad := wal.damaged(reader_of(v)):
        raise Refused(f"frameDamaged {bad[0]}", **results)
    return results


# The sidecar (Sidecar.md)

HEX = "[0-9a-f]"
COUNT = "(0|[1-9][0-9]{0,17})"
KINDS = ["passphrase", "key-file", "command", "credential", "recovery", "plugin", "pkcs11", "tpm2"]
TOKEN_KINDS = KINDS[5:]
KDFS = ["hkdf", "scrypt", "argon2id"]
HASHES = ["sha1", "sha256", "sha512"]
WRAPPED = f'"nonce":"({HEX}{{24}})","wrapped":"({HEX}{{96}})"'
STORE = f'{{"record":"store","id":"({HEX}{{32}})","state":"(creating|ready|rotating|switching)","epoch":{COUNT},"generation":{COUNT},"scheme":"(direct|slots)"}}'
CIPHER = (f'{{"record":"cipher","salt":"({HEX}{{32}})","page_bytes":{COUNT},"plaintext_header_bytes":{COUNT},"kdf_rounds":{COUNT},'
          '"kdf_hash":"(sha1|sha256|sha512)","hmac_hash":"(sha1|sha256|sha512)"}')
SLOT = (f'{{"record":"%s","id":{COUNT},"kind":"([a-z0-9-]+)","created":{COUNT},"label":"([ !#-\\[\\]-~]{{0,64}})",'
        f'"kdf":"(?:(hkdf)|(scrypt)","log2_n":{COUNT},"r":{COUNT},"p":{COUNT}|(argon2id)","memory_kib":{COUNT},"iterations":{COUNT},'
        f'"lanes":{COUNT})')
TOKEN = f'(?:,"name":"([ !#-\\[\\]-~]{{0,64}})","token":"((?:{HEX}{{2}}){{1,4096}})")?'
SLOT_END = f'{TOKEN},"salt":"({HEX}{{32}})",{WRAPPED}}}'


class Damaged(Exception):
    def __init__(self, line):
        super().__init__(line)
        self.line = line


class Ahead(Exception):
    pass


class Lines:
    """The lines of a text, taken one after the other; what does not fit is damage of that line."""

    def __init__(self, content: bytes, taken: int = 0):
        self.rows, self.taken = content.decode("latin-1").split("\n"), taken

    def fail(self, back: int = 0):
        raise Damaged(self.taken + 1 - back)

    def peek(self) -> str:
        return self.rows[self.taken]

    def take(self, pattern: str):
        match = re.fullmatch(pattern, self.peek())
        # The last of the rows is what follows the last line end: no line.
        if not match or self.taken == len(self.rows) - 1:
            self.fail()
        self.taken += 1
        return match.groups()

    def end(self) -> None:
        if self.taken != len(self.rows) - 1 or self.peek():
            self.fail()


class Slot:
    def __init__(self, lines: Lines, record: str):
        # The end of the "kdf" value: HKDF has no parameters, so its quote is closed here.
        pattern = (SLOT % record).replace('(?:(hkdf)|', '(?:(hkdf)"|') + SLOT_END
        number, kind, created, label, *rest = lines.take(pattern)
        self.number, self.kind = int(number), kind
        hkdf_name, scrypt_name, n, r, p, argon_name, memory, passes, lanes, name, token, salt, nonce, wrapped = rest
        self.kdf = hkdf_name or scrypt_name or argon_name
        self.parameters = [int(x) for x in ([n, r, p] if scrypt_name else [memory, passes, lanes] if argon_name else [0, 0, 0])]
        self.salt, self.nonce, self.wrapped = bytes.fromhex(salt), bytes.fromhex(nonce), bytes.fromhex(wrapped)
        self.token = None if token is None else (name, bytes.fromhex(token))
        stretched = {"plugin": [0], "pkcs11": [0], "tpm2": [0], "passphrase": [1, 2], "key-file": [0], "recovery": [0], "command": [0, 1, 2], "credential": [0, 1, 2]}
        a, b, c = self.parameters
        in_bounds = {"hkdf": True, "scrypt": 14 <= a <= 20 and b == 8 and 1 <= c <= 4,
                     "argon2id": 16384 <= a <= 1048576 and 1 <= b <= 16 and 1 <= c <= 8}[self.kdf]
        if (not in_bounds or self.number < 1 or label != label.strip(" ") or kind not in KINDS
                or KDFS.index(self.kdf) not in stretched[kind] or (kind in TOKEN_KINDS) != (token is not None)
                or token is not None and name != name.strip(" ")
                or kind == "plugin" and not re.fullmatch("[a-z][a-z0-9-]{0,31}", name)):
            lines.fail(back=1)
        self.cost = {"hkdf": 0, "scrypt": 1024 * c << a, "argon2id": 1024 * a * b}[self.kdf]

    def open(self, secret: bytes, store_id: bytes):
        """The master key; None where the secret is not that of this keyslot."""
        if self.kdf == "scrypt":
            secret = scrypt(secret, self.salt, *self.parameters)
        elif self.kdf == "argon2id":
            secret = argon2id(secret, self.salt, *self.parameters)
        data = (b"cipherstore-wrap" + bytes([3 if self.token else 2, 1]) + store_id + self.number.to_bytes(8, "big")
                + bytes([KINDS.index(self.kind) + 1, KDFS.index(self.kdf) + 1])
                + b"".join(x.to_bytes(4, "big") for x in self.parameters) + self.salt)
        if self.token:
            data += bytes([len(self.token[0])]) + self.token[0].encode() + self.token[1]
        return unwrap(hkdf(secret, self.salt, "cipherstore slot wrapping v2"), self.nonce, self.wrapped, data)


def unwrap(key: bytes, nonce: bytes, wrapped: bytes, data: bytes):
    try:
        return AESGCM(key).decrypt(nonce, wrapped, data)
    except InvalidTag:
        return None


class Sidecar:
    """A well-formed sidecar. Nothing of it is true before a key has authenticated it."""

    def __init__(self, content: bytes):
        if not content or len(content) > 65_536:
            raise Damaged(None)
        first = content.decode("latin-1").split("\n")[0]
        match = re.match('{"format":"cipherstore-sidecar","version":([1-9][0-9]{0,17})(?=[},])', first)
        if not match:
            raise Damaged(1)
        version = int(match[1])
        for other in [1, 2, 3]:
            if other != version and self.fits(content, other, first[match.end():]):
                raise Damaged(1)
        if version not in [1, 2, 3]:
            raise Ahead
        if first[match.end():] != "}":
            raise Damaged(1)
        self.read(content, version)

    def fits(self, content: bytes, version: int, rest: str) -> bool:
        """Whether everything but the number is of a version."""
        try:
            self.read(content, version)
        except Damaged:
            return False
        return rest == "}"

    def read(self, content: bytes, version: int) -> None:
        # Version 3 is version 2 with tokens.
        self.content, self.version = content, min(version, 2)
        lines = Lines(content)
        if len(lines.rows) < 2:
            lines.fail()
        lines.taken = 1
        store_id, self.state, epoch, generation, scheme = lines.take(STORE)
        self.id, self.epoch, self.generation = bytes.fromhex(store_id), int(epoch), int(generation)
        if self.epoch < 1 or self.generation < 1 or scheme != ["direct", "slots"][self.version - 1]:
            lines.fail(back=1)
        self.read_cipher(lines)
        self.slots = self.read_slots(lines) if self.version == 2 else []
        self.pending, self.pending_slots = None, []
        if self.state in ["rotating", "switching"]:
            self.read_pending(lines)
        if (version == 3) != any(slot.token for slot in self.slots + self.pending_slots):
            lines.fail()
        self.key_check = bytes.fromhex(lines.take(f'{{"record":"key-check","value":"({HEX}{{32}})"}}')[0])
        self.pending_key_check = None
        if self.pending and (self.version == 1 or self.pending_slots):
            value = lines.take(f'{{"record":"pending-key-check","value":"({HEX}{{32}})"}}')[0]
            self.pending_key_check = bytes.fromhex(value)
        self.pending_mac = self.code(lines, "pending-mac") if self.pending else None
        self.mac = self.code(lines, "mac")
        lines.end()

    def code(self, lines: Lines, name: str) -> tuple:
        """A code, and the bytes that it covers."""
        covered = "\n".join(lines.rows[:lines.taken] + [""]).encode("latin-1")
        return bytes.fromhex(lines.take(f'{{"{name}":"({HEX}{{64}})"}}')[0]), covered

    def read_cipher(self, lines: Lines) -> None:
        salt, size, header, rounds, kdf_hash, hmac_hash = lines.take(CIPHER)
        self.salt = bytes.fromhex(salt)
        self.settings = {"page_bytes": int(size), "plaintext_header_bytes": int(header), "kdf_rounds": int(rounds),
                         "kdf_hash": kdf_hash, "hmac_hash": hmac_hash}
        if int(size) not in [512 << i for i in range(8)] or int(header) not in [0, 32] or not 1 <= int(rounds) <= 10_000_000:
            lines.fail(back=1)

    def read_slots(self, lines: Lines) -> list:
        self.next_id = int(lines.take(f'{{"record":"slots","next_id":{COUNT}}}')[0])
        if self.next_id < 1:
            lines.fail(back=1)
        slots = self.slot_lines(lines, "slot")
        if not slots:
            lines.fail()
        epoch, _, origin, nonce, wrapped = lines.take(
            f'{{"record":"data-key","epoch":{COUNT},"created":{COUNT},"origin":"(random|direct)",{WRAPPED}}}')
        if int(epoch) != self.epoch:
            lines.fail(back=1)
        self.data_key = bytes.fromhex(nonce), bytes.fromhex(wrapped)
        return slots

    def slot_lines(self, lines: Lines, record: str) -> list:
        slots = []
        while lines.peek().startswith(f'{{"record":"{record}"'):
            if len(slots) == 32:
                lines.fail()
            slots.append(Slot(lines, record))
            is_ascending = len(slots) == 1 or slots[-2].number < slots[-1].number
            if not is_ascending or slots[-1].number >= self.next_id or sum(slot.cost for slot in slots) > 1 << 32 \
                    or sum(len(slot.token[1]) for slot in slots if slot.token) > 6144:
                lines.fail(back=1)
        return slots

    def read_pending(self, lines: Lines) -> None:
        epoch, _, pages, salt, nonce, wrapped = lines.take(
            f'{{"record":"pending","epoch":{COUNT},"created":{COUNT},"pages":{COUNT},"salt":"({HEX}{{32}})",{WRAPPED}}}')
        is_known = int(pages) == 0 if self.state == "rotating" else 1 <= int(pages) <= 4294967294
        if int(epoch) != self.epoch + 1 or not is_known:
            lines.fail(back=1)
        self.pending = bytes.fromhex(nonce), bytes.fromhex(wrapped)
        self.pending_pages, self.next_salt = int(pages), bytes.fromhex(salt)
        if self.version == 2:
            self.pending_slots = self.slot_lines(lines, "pending-slot")

    # Keys: of a direct store the data key, of one with keyslots the master key

    def unlock(self, secret, is_next: bool = False):
        """The key that a secret opens, and the number of its keyslot; None where it opens none."""
        is_raw, text = secret
        if self.version == 1:
            if is_raw:
                return text, None
            salt = self.next_salt if is_next else self.salt
            return hashlib.pbkdf2_hmac(self.settings["kdf_hash"], text, salt, self.settings["kdf_rounds"], 32), None
        slots = self.pending_slots if is_next else self.slots
        if is_raw in TOKEN_KINDS:
            opened = ((slot.open(text, self.id), slot.number) for slot in reversed(slots) if slot.kind == is_raw)
            return next((found for found in opened if found[0]), None)
        tries = [(text, ["key-file", "recovery"])] if is_raw else [(text, ["passphrase", "command", "credential"])]
        if not is_raw and (recovery := recovery_key(text)):
            tries.insert(0, (recovery, ["recovery"]))
        for bytes_, kinds in tries:
            for slot in slots:
                if slot.kind in kinds and (master := slot.open(bytes_, self.id)):
                    return master, slot.number
        return None

    def epoch_data(self, version: int, purpose: int, epoch: int, salt: bytes) -> bytes:
        s = self.settings
        return (b"cipherstore-wrap" + bytes([version, purpose]) + self.id + epoch.to_bytes(8, "big") + salt
                + b"".join(s[key].to_bytes(4, "big") for key in ["page_bytes", "plaintext_header_bytes", "kdf_rounds"])
                + bytes([HASHES.index(s["kdf_hash"]) + 1, HASHES.index(s["hmac_hash"]) + 1]))

    def own_data_key(self, key: bytes):
        if self.version == 1:
            return key
        wrapping = hkdf(key, self.id, "cipherstore data key wrapping v2")
        return unwrap(wrapping, *self.data_key, self.epoch_data(2, 2, self.epoch, self.salt))

    def next_data_key(self, key: bytes):
        """The data key of the next epoch: by the key of the present one, or by a new master key."""
        if self.version == 1:
            wrapping = hkdf(key, self.id, "cipherstore next key wrapping v1")
            return unwrap(wrapping, *self.pending, self.epoch_data(1, 3, self.epoch + 1, self.next_salt))
        wrapping = hkdf(key, self.id, "cipherstore data key wrapping v2")
        return unwrap(wrapping, *self.pending, self.epoch_data(2, 2, self.epoch + 1, self.next_salt))

    def check(self, key: bytes) -> bytes:
        return hkdf(key, self.id, ["cipherstore key check v1", "cipherstore slots key check v2"][self.version - 1], 16)

    def is_sealed(self, code: tuple, key: bytes, label: str) -> bool:
        return same(hmac.new(hkdf(key, self.id, label), code[1], "sha256").digest(), code[0])

    def outcome(self, key: bytes) -> str:
        """genuine, forged or wrongKey, by the key of the present epoch."""
        if not same(self.check(key), self.key_check):
            return "wrongKey"
        label = ["cipherstore sidecar mac v1", "cipherstore slots mac v2"][self.version - 1]
        if not self.is_sealed(self.mac, key, label) or self.own_data_key(key) is None:
            return "forged"
        if self.pending and not self.pending_slots:
            following = self.next_data_key(key)
            if following is None or self.version == 1 and not same(self.check(following), self.pending_key_check):
                return "forged"
            if not self.is_sealed(self.pending_mac, following, f"cipherstore pending mac v{self.version}"):
                return "forged"
        return "genuine"

    def next_outcome(self, key: bytes) -> str:
        """The same by a key that only the pending part verifies."""
        if self.pending_key_check is None or not same(self.check(key), self.pending_key_check):
            return "wrongKey"
        if self.version == 2 and self.next_data_key(key) is None:
            return "forged"
        label = "cipherstore pending slots mac v2" if self.version == 2 else "cipherstore pending mac v1"
        return "genuine" if self.is_sealed(self.pending_mac, key, label) else "forged"


def parsed(content: bytes) -> Sidecar:
    """- Raises: Refused sidecarDamaged or sidecarAhead."""
    try:
        return Sidecar(content)
    except Damaged as error:
        raise Refused("sidecarDamaged", line=error.line) from error
    except Ahead as error:
        raise Refused("sidecarAhead") from error


def opened(sidecar: Sidecar, secret):
    """The key of a sidecar and the keyslot's number; raises Refused wrongKey or sidecarForged."""
    found = sidecar.unlock(secret)
    outcome = sidecar.outcome(found[0]) if found else "wrongKey"
    if outcome != "genuine":
        raise Refused("sidecarForged" if outcome == "forged" else "wrongKey")
    return found


def read_sidecar(v: Vector) -> dict:
    sidecar = parsed(v.parts["sidecar"])
    key, slot = opened(sidecar, v.secret)
    following = sidecar.next_data_key(key) if sidecar.pending and not sidecar.pending_slots else None
    results = {"state": sidecar.state, "epoch": sidecar.epoch, "generation": sidecar.generation,
               "data_key": sidecar.own_data_key(key).hex(), "slot": slot}
    return results | ({"next_key": following.hex() if following else "none"} if sidecar.pending else {})


# Recovery keys

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
SKIPPED = " \t-\u00a0\u00ad\u202f\u205f\u2060\u2212\u3000\ufe58\ufe63\ufeff\uff0d" + "".join(
    chr(c) for c in [*range(0x2000, 0x200E), *range(0x2010, 0x2016)])


def crc16(content: bytes) -> int:
    crc = 0xFFFF
    for byte in content:
        for bit in range(7, -1, -1):
            top = (crc >> 15) ^ (byte >> bit & 1)
            crc = (crc << 1 & 0xFFFF) ^ (0x1021 if top else 0)
    return crc


def recovery_key(text: bytes):
    """The 32 bytes of a printed recovery key; None where the text is none."""
    try:
        lines = re.split("[\n\r]+", text.decode())
    except UnicodeDecodeError:
        return None
    symbols = []
    for line in lines:
        line = "".join(c for c in line if c not in SKIPPED)
        line = re.sub(r"^[1-4][.):]", "", line)
        symbols += ["1" if c in "IL" else "0" if c == "O" else c for c in line.upper()]
    if len(symbols) != 64 or any(c not in ALPHABET for c in symbols):
        return None
    key = b""
    for number in range(1, 5):
        bits = 0
        for c in symbols[16 * number - 16:16 * number]:
            bits = bits * 32 + ALPHABET.index(c)
        block = bits.to_bytes(10, "big")
        if crc16(bytes([number]) + block[:8]) != int.from_bytes(block[8:], "big"):
            return None
        key += block[:8]
    return key


def read_recovery(v: Vector) -> dict:
    key = recovery_key(v.parts["text"])
    if not key:
        raise Refused("invalidKey")
    return {"key": key.hex()}


# Shares of a recovery key (Shares.md)

def field_product(one: int, other: int) -> int:
    """By long multiplication of polynomials, and a division by that of the field."""
    result = 0
    for bit in range(8):
        if other >> bit & 1:
            result ^= one << bit
    for bit in range(14, 7, -1):
        if result >> bit & 1:
            result ^= 0x11b << (bit - 8)
    return result


def field_quotient(one: int, other: int) -> int:
    return next(value for value in range(256) if field_product(value, other) == one)


def printed_share(text: bytes):
    """The header and the values of a share."""
    try:
        lines = re.split("[\n\r]+", text.decode())
    except UnicodeDecodeError:
        raise Refused("invalidKey")
    symbols = ""
    for line in lines:
        line = "".join(c for c in line if not c.isspace() and unicodedata.category(c) not in ("Pd", "Cf") and c != "\u2212")
        if line.startswith("#"):
            continue
        symbols += re.sub(r"^[1-6][.):]", "", line).upper().translate(str.maketrans("ILO", "110"))
    if len(symbols) != 96 or any(c not in ALPHABET for c in symbols):
        raise Refused("invalidKey")
    content = b""
    for number in range(1, 7):
        bits = 0
        for c in symbols[16 * number - 16:16 * number]:
            bits = bits * 32 + ALPHABET.index(c)
        block = bits.to_bytes(10, "big")
        if crc16(bytes([0x10 + number]) + content[:8] + block[:8]) != int.from_bytes(block[8:], "big"):
            raise Refused("invalidKey")
        content += block[:8]
    version, threshold, count, number = content[0], *content[5:8]
    if version != 1 or not 2 <= threshold <= count <= 16 or not 1 <= number <= count:
        raise Refused("invalidKey")
    return content[:8], content[8:]


def share_value(point: int, shares: list) -> bytes:
    """The values at a point of the polynomials through all of the shares."""
    result = bytes(40)
    for header, content in shares:
        weight = 1
        for other, _ in shares:
            if other != header:
                weight = field_product(weight, field_quotient(point ^ other[7], header[7] ^ other[7]))
        result = bytes(a ^ field_product(b, weight) for a, b in zip(result, content))
    return result


def read_shares(v: Vector) -> dict:
    shares = [printed_share(text) for _, text in sorted(v.parts.items())]
    heads = {header[:7] for header, _ in shares}
    if len(heads) != 1 or len({header for header, _ in shares}) != len(shares):
        raise Refused("invalidKey")
    head = heads.pop()
    if len(shares) < head[5]:
        raise Refused("keyMissing")
    for chosen in itertools.combinations(shares, head[5]):
        secret = share_value(0, list(chosen))
        if hkdf(secret[:32], head, "cipherstore recovery share digest v1", 8) == secret[32:]:
            misfits = [header[7] for header, content in shares if share_value(header[7], list(chosen)) != content]
            return {"key": secret[:32].hex(), "misfits": ", ".join(map(str, sorted(misfits))) or "none"}
    raise Refused("invalidKey")


# Two copies of a sidecar (Sidecar.md, "Two copies")

class Copy:
    """One of the two files, and what a secret makes of it."""

    def __init__(self, name: str, content):
        self.name, self.content = name, content
        self.sidecar, self.state, self.key, self.slot = None, "missing", None, None
        self.outcome, self.is_next, self.is_opened = "wrongKey", False, False
        if content is None:
            return
        try:
            self.sidecar, self.state = Sidecar(content), "present"
        except Damaged:
            self.state = "damaged"
        except Ahead:
            self.state = "ahead"

    def judge(self, secret) -> None:
        if found := self.sidecar.unlock(secret):
            self.key, self.slot = found
            self.outcome, self.is_opened = self.sidecar.outcome(self.key), True
        if self.outcome == "wrongKey" and self.sidecar.pending_key_check:
            if found := self.sidecar.unlock(secret, is_next=True):
                if (outcome := self.sidecar.next_outcome(found[0])) != "wrongKey":
                    (self.key, self.slot), self.outcome, self.is_next, self.is_opened = found, outcome, True, True

    def reconsider(self, other: "Copy") -> None:
        """Verifies a copy that the secret does not open with the keys that opened the other one."""
        if self.outcome != "wrongKey" or other.outcome != "genuine" or self.sidecar.id != other.sidecar.id:
            return
        keys = [(other.sidecar.version, other.key)]
        if not other.is_next:
            if other.sidecar.pending and other.sidecar.version == 1:
                keys.append((1, other.sidecar.next_data_key(other.key)))
            if other.sidecar.version == 2:
                keys.append((1, other.sidecar.own_data_key(other.key)))
        for version, key in keys:
            if version != self.sidecar.version:
                continue
            for outcome, is_next in [(self.sidecar.outcome(key), False), (self.sidecar.next_outcome(key), True)]:
                if outcome != "wrongKey":
                    self.key, self.outcome, self.is_next, self.is_opened = key, outcome, is_next, False
                    return


def examine_copies(parts: dict, secret) -> tuple:
    """The copy that counts, and both; raises Refused where none does."""
    copies = [Copy(name, parts.get(name)) for name in ["main", "backup"]]
    if any(copy.state == "ahead" for copy in copies):
        raise Refused("sidecarAhead")
    found = sorted((copy for copy in copies if copy.sidecar), key=lambda copy: -copy.sidecar.generation)
    for copy in found:
        copy.judge(secret)
    if len(found) == 2:
        found[0].reconsider(found[1])
        found[1].reconsider(found[0])
    genuine = [copy for copy in found if copy.outcome == "genuine"]
    if len(genuine) == 2 and genuine[0].sidecar.id != genuine[1].sidecar.id:
        raise Refused("foreignSidecar")
    if not genuine:
        if any(copy.outcome == "forged" for copy in found):
            raise Refused("sidecarForged")
        raise Refused("wrongKey" if found else "sidecarDamaged")
    return genuine[0], copies


def chosen_copy(parts: dict, secret) -> tuple:
    """The copy with which a store opens."""
    best, copies = examine_copies(parts, secret)
    if best.is_next:
        raise Refused("rotationPending")
    if not best.is_opened:
        raise Refused("wrongKey")
    if best.sidecar.state == "switching":
        raise Refused("rotationPending")
    return best, copies


def read_pair(v: Vector) -> dict:
    best, copies = chosen_copy(v.parts, v.secret)
    other = next(copy for copy in copies if copy is not best)
    notes = ["restoredFromBackup"] if best.name == "backup" else []
    if other.state in ["missing", "damaged"]:
        notes.append(f"{other.state} {other.name}")
    elif other.outcome != "genuine":
        notes.append(f"{'forged' if other.outcome == 'forged' else 'otherKey'} {other.name}")
    elif other.sidecar.generation < best.sidecar.generation:
        notes.append(f"stale {other.name}")
    elif other.content != best.content:
        notes.append("differing")
    return {"copy": best.name, "generation": best.sidecar.generation, "notes": ", ".join(notes) or "none"}


# Interrupted rotations (Sidecar.md, "Rotation")

class Recovery:
    """What an opener for writing does about an interrupted rotation."""

    def __init__(self, v: Vector):
        self.parts = v.parts
        self.best, _ = examine_copies(v.parts, v.secret)
        self.sidecar = self.best.sidecar
        if not self.best.is_opened:
            raise Refused("wrongKey")
        if not self.sidecar.pending:
            return
        self.present = self.own = None
        if self.best.is_next:
            self.next_key = self.best.key if self.sidecar.version == 1 else self.sidecar.next_data_key(self.best.key)
            return
        self.present = self.best.key
        self.own = self.reader(self.sidecar.own_data_key(self.present), self.sidecar.salt)
        self.next_key = self.find_next_key(v.secret)

    def find_next_key(self, secret):
        if not self.sidecar.pending_slots:
            return self.sidecar.next_data_key(self.present)
        found = self.sidecar.unlock(secret, is_next=True)
        outcome = self.sidecar.next_outcome(found[0]) if found else "wrongKey"
        if outcome == "forged":
            raise Refused("sidecarForged")
        return self.sidecar.next_data_key(found[0]) if outcome == "genuine" else None

    def reader(self, key, salt: bytes):
        return PageReader(key, salt, self.sidecar.settings) if key else None

    def run(self) -> dict:
        database, copy = self.parts["database"], self.parts.get("rotating")
        epoch = self.sidecar.epoch
        if self.sidecar.pending:
            following = self.reader(self.next_key, self.sidecar.next_salt)
            first = database[:self.sidecar.settings["page_bytes"]]
            has_next = bool(following and following.is_authentic(first, 1))
            has_present = not has_next and bool(self.own and self.own.is_authentic(first, 1))
            decide = self.rotating if self.sidecar.state == "rotating" else self.switching
            if decide(has_next, has_present, following, copy):
                epoch += 1
                database = database if has_next else copy
        return {"epoch": epoch, "rotating": "absent", "database_sha256": hashlib.sha256(database).hexdigest()}

    def rotating(self, has_next: bool, has_present: bool, following, copy) -> bool:
        """True: the rotation is completed. False: it is undone."""
        if has_next:
            return True
        if not self.present or not following and not has_present:
            raise Refused("rotationPending")
        return False

    def switching(self, has_next: bool, has_present: bool, following, copy) -> bool:
        if has_next:
            return True
        if copy is not None:
            if not following:
                raise Refused("rotationPending")
            size = self.sidecar.settings["page_bytes"]
            pages = [copy[i:i + size] for i in range(0, len(copy), size)]
            is_whole = len(copy) == self.sidecar.pending_pages * size
            if is_whole and all(following.is_authentic(page, i + 1) for i, page in enumerate(pages)):
                return True
        if not has_present or not self.is_wal_whole():
            raise Refused("rotationPending")
        return False

    def is_wal_whole(self) -> bool:
        wal = WAL(self.parts.get("wal", b""), self.sidecar.settings["page_bytes"])
        return bool(wal.frames and wal.pages == self.sidecar.pending_pages and not wal.has_more and not wal.damaged(self.own))


def read_rotation(v: Vector) -> dict:
    try:
        return Recovery(v).run()
    except Refused as refusal:
        # Nothing was changed.
        refusal.results = {"rotating": "present" if "rotating" in v.parts else "absent",
                           "database_sha256": hashlib.sha256(v.parts["database"]).hexdigest()}
        raise


# Backups (Backup.md)

DIGEST = f"({HEX}{{64}})"
MANIFEST = [r"\{", r'  "format": "cipherstore-backup",', rf'  "version": {COUNT},', rf'  "store_id": "({HEX}{{32}})",',
            rf'  "epoch": {COUNT},', rf'  "generation": {COUNT},', rf'  "created": {COUNT},', rf'  "page_bytes": {COUNT},',
            rf'  "pages": {COUNT},', rf'  "database": \{{"name": "store.db", "bytes": {COUNT}, "sha256": "{DIGEST}"\}},',
            rf'  "sidecar": \{{"name": "store.db-sidecar", "bytes": {COUNT}, "sha256": "{DIGEST}"\}},',
            r'  "library": "([ !#-\[\]-~]{0,64})",', rf'  "mac": "{DIGEST}"', r"\}"]


def read_manifest(content: bytes) -> tuple:
    """The fields of a manifest, and the bytes that its code covers."""
    lines = Lines(content)
    found = []
    for number, pattern in enumerate(MANIFEST, 1):
        groups = lines.take(pattern)
        if number == 3 and int(groups[0]) != 1:
            if int(groups[0]) > 1:
                raise Ahead
            lines.fail(back=1)
        if number == 8 and int(groups[0]) not in [512 << i for i in range(8)]:
            lines.fail(back=1)
        if number == 9 and not 1 <= int(groups[0]) <= 0xFFFFFFFF:
            lines.fail(back=1)
        found += groups
    lines.end()
    return found, "\n".join(lines.rows[:12] + [""]).encode("latin-1")


def read_backup(v: Vector) -> dict:
    content = v.parts.get("manifest.json")
    if content is None or len(content) > 65_536:
        raise Refused("backupDamaged")
    try:
        fields, covered = read_manifest(content)
    except Damaged as error:
        raise Refused("backupDamaged", line=error.line) from error
    except Ahead as error:
        raise Refused("sidecarAhead") from error
    _, store_id, epoch, generation, _, page_bytes, pages, db_bytes, db_hash, sc_bytes, sc_hash, _, mac = fields
    database, sealed = v.parts.get("store.db"), v.parts.get("store.db-sidecar")
    if database is None or sealed is None or len(database) != int(db_bytes) or len(sealed) != int(sc_bytes):
        raise Refused("backupDamaged")
    if len(database) != int(pages) * int(page_bytes) or hashlib.sha256(sealed).hexdigest() != sc_hash:
        raise Refused("backupDamaged")
    try:
        sidecar = Sidecar(sealed)
    except (Damaged, Ahead) as error:
        raise Refused("backupDamaged") from error
    key, _ = opened(sidecar, v.secret)
    data_key = sidecar.own_data_key(key)
    code = hmac.new(hkdf(data_key, bytes.fromhex(store_id), "cipherstore backup mac v1"), covered, "sha256").hexdigest()
    says = [sidecar.id.hex(), sidecar.epoch, sidecar.generation, sidecar.settings["page_bytes"], sidecar.state]
    if code != mac or says != [store_id, int(epoch), int(generation), int(page_bytes), "ready"]:
        raise Refused("backupDamaged")
    reader, size = PageReader(data_key, sidecar.salt, sidecar.settings), int(page_bytes)
    if not all(reader.is_authentic(database[i * size:(i + 1) * size], i + 1) for i in range(int(pages))):
        raise Refused("backupDamaged")
    if hashlib.sha256(database).hexdigest() != db_hash:
        raise Refused("backupDamaged")
    return {"pages": int(pages), "epoch": int(epoch)}


# Key logs (KeyLog.md)

WORD = "([a-z0-9-]{1,32})"
DETAIL = f',"(?!process"){WORD}":(?:{COUNT}|"{WORD}")'
LOG_LINE = re.compile(
    f'({{"number":([1-9][0-9]{{0,17}}),"time":{COUNT},"event":"{WORD}"((?:{DETAIL})*?),"process":{COUNT},"user":{COUNT},'
    f'"previous":"({HEX}{{64}})"),"hash":"({HEX}{{64}})"}}')


class LogEntry:
    """One line of a key log; `parse` gives None where the bytes are not one."""

    @staticmethod
    def parse(row: bytes):
        match = LOG_LINE.fullmatch(row.decode("latin-1"))
        if not match or len(row) > 1024 or hashlib.sha256(match[1].encode("latin-1")).hexdigest() != match[match.lastindex]:
            return None
        if int(match[match.lastindex - 3]) > 2_147_483_647 or int(match[match.lastindex - 2]) > 4_294_967_295:
            return None
        entry = LogEntry()
        entry.number, entry.event = int(match[2]), match[4]
        entry.details = {name: number or word for name, number, word in re.findall(DETAIL, match[5])}
        entry.previous, entry.hash = match[match.lastindex - 1], match[match.lastindex]
        return entry


class LogAudit:
    def __init__(self):
        self.lines, self.notes, self.acknowledged, self.problems = 0, 0, 0, []
        self.last, self.is_first, self.is_broken = None, True, False

    def read(self, content: bytes, name: str, former) -> None:
        *rows, rest = content.split(b"\n")
        offset = 0
        for i, row in enumerate(rows):
            entry = LogEntry.parse(row)
            if entry is None:
                self.damage(row, rows[i + 1] if i + 1 < len(rows) else b"", f"{name}:{i + 1}")
            else:
                before = len(self.problems)
                self.take(entry, name, i + 1)
                if self.covers(entry, former, content[:offset]):
                    self.acknowledged += before
                    del self.problems[:before]
            offset += len(row) + 1
        if rest:
            self.notes += 1
            if entry := LogEntry.parse(rest):
                self.take(entry, name, len(rows) + 1)

    def damage(self, row: bytes, following: bytes, place: str) -> None:
        """A line that the next one records as interrupted is explained."""
        record = LogEntry.parse(following)
        previous = self.last.hash if self.last else "0" * 64
        if (record and record.event == "log-damaged" and record.details.get("bytes") == str(len(row))
                and record.previous == previous):
            self.notes += 1
            return
        self.problems.append(place)
        self.is_broken = True

    def take(self, entry: LogEntry, name: str, number: int) -> None:
        is_wrong = False
        if self.last is None:
            if self.is_first and not self.is_broken and entry.number > 1:
                self.notes += 1
                is_wrong = name == "keylog"
            elif self.is_first and entry.number == 1:
                is_wrong = entry.previous != "0" * 64
        elif self.is_broken:
            is_wrong = entry.number <= self.last.number
        else:
            is_wrong = entry.number != self.last.number + 1 or entry.previous != self.last.hash
        if is_wrong:
            self.problems.append(f"{name}:{number}")
        self.lines += 1
        self.last, self.is_first, self.is_broken = entry, False, False

    @staticmethod
    def covers(entry: LogEntry, former, before: bytes) -> bool:
        def digest(content: bytes) -> str:
            return hashlib.sha256(content).hexdigest()[:32]
        if entry.event != "log-acknowledged" or entry.details.get("present") != digest(before):
            return False
        if former == "unknown":
            return True
        return entry.details.get("former") == (digest(former) if former is not None else None)


def read_keylog(v: Vector) -> dict:
    audit = LogAudit()
    former = v.parts.get("keylog.1")
    if former is not None:
        audit.read(former, "keylog.1", "unknown")
    if "keylog" in v.parts:
        audit.read(v.parts["keylog"], "keylog", former)
    results = {"lines": audit.lines, "problems": " ".join(audit.problems) or "none", "notes": audit.notes,
               "acknowledged": audit.acknowledged}
    if audit.problems:
        raise Refused("keyLogChanged", **results)
    return results


# SQLite's pages, decrypted: only what is needed to find a row, and the free pages

class Database:
    def __init__(self, page):
        self.page = page

    @staticmethod
    def varint(data: bytes, at: int) -> tuple:
        value = 0
        for i in range(8):
            value = value << 7 | data[at + i] & 127
            if data[at + i] < 128:
                return value, at + i + 1
        return value << 8 | data[at + 8], at + 9

    def rows(self, root: int):
        """The rows of a table: number and values. Rows with overflow pages are not needed here."""
        page = self.page(root)
        start = 100 if root == 1 else 0
        is_leaf = page[start] == 13
        count = int.from_bytes(page[start + 3:start + 5], "big")
        pointers = start + (8 if is_leaf else 12)
        for i in range(count):
            cell = int.from_bytes(page[pointers + 2 * i:pointers + 2 * i + 2], "big")
            if is_leaf:
                _, at = self.varint(page, cell)
                number, at = self.varint(page, at)
                yield number, self.values(page, at)
            else:
                yield from self.rows(int.from_bytes(page[cell:cell + 4], "big"))
        if not is_leaf:
            yield from self.rows(int.from_bytes(page[start + 8:start + 12], "big"))

    def values(self, page: bytes, start: int) -> list:
        head, at = self.varint(page, start)
        body, values = start + head, []
        while at < start + head:
            kind, at = self.varint(page, at)
            size = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0][kind] if kind < 10 else (kind - 12) // 2
            data, body = page[body:body + size], body + size
            values.append(int.from_bytes(data, "big", signed=True) if 1 <= kind <= 6 else kind - 8 if kind in (8, 9) else
                          None if kind == 0 else data)
        return values

    def remembered(self, store_id: bytes):
        """The generation of the sidecar that the store remembers."""
        for _, row in self.rows(1):
            if row[:2] == [b"table", b"cipherstore_custody"]:
                for number, values in self.rows(row[3]):
                    if number == 1 and values[1] == store_id:
                        return values[2]
        return None

    def free_pages(self) -> set:
        """The free pages that hold nothing at all: the leaves of the list."""
        free, trunk = set(), int.from_bytes(self.page(1)[32:36], "big")
        while trunk:
            page = self.page(trunk)
            trunk, count = struct.unpack(">II", page[:8])
            free |= set(struct.unpack(f">{count}I", page[8:8 + 4 * count]))
        return free


# Whole stores

class Store:
    """The checks of a store, in the order in which an opening and a verification make them."""

    def __init__(self, v: Vector):
        self.parts, self.database = v.parts, v.parts.get("database")
        has_sidecar = "main" in v.parts or "backup" in v.parts
        if self.database is None:
            raise Refused("databaseMissing" if has_sidecar else "noSuchStore")
        if not self.database and has_sidecar:
            raise Refused("emptyFile")
        if not has_sidecar:
            verdict = examine(self.database[:4096], len(self.database), None)
            raise Refused({"ok": "saltMissing"}.get(verdict, "notEncrypted"))
        best, _ = chosen_copy(v.parts, v.secret)
        self.sidecar = best.sidecar
        self.settings, self.size = best.sidecar.settings, best.sidecar.settings["page_bytes"]
        self.reader = PageReader(best.sidecar.own_data_key(best.key), best.sidecar.salt, self.settings)
        self.wal = WAL(v.parts.get("wal", b""), self.size)
        self.in_wal = self.wal.last

    def in_file(self, number: int) -> bytes:
        return self.database[(number - 1) * self.size:number * self.size]

    def image(self, number: int) -> bytes:
        frame = self.in_wal.get(number)
        return self.wal.frames[frame - 1][1] if frame else self.in_file(number)

    def plain(self, number: int) -> bytes:
        return self.reader.decrypt(self.image(number), number)

    def check_first_page(self, first: bytes) -> None:
        length = len(self.database)
        if self.settings["plaintext_header_bytes"]:
            verdict = examine(first[:max(4096, self.size)], length, self.settings)
            if verdict.startswith("headerDamaged"):
                raise Refused("headerDamaged")
            if verdict == "tooShort":
                raise Refused("truncated")
            if verdict == "plainSQLite" or verdict == "opaque" and not looks_encrypted(first[:4096], length):
                raise Refused("notEncrypted")
            if verdict == "opaque":
                raise Refused("foreignSidecar")
        if len(first) < self.size:
            raise Refused("truncated")
        if not self.reader.is_authentic(first[:self.size], 1):
            others = any(self.reader.is_authentic(self.in_file(n), n) for n in range(2, 10))
            raise Refused("pageDamaged 1" if others else "foreignSidecar")

    def check_beginning(self) -> None:
        try:
            self.check_first_page(self.database[:max(4096, self.size)])
        except Refused as refusal:
            # A checkpoint may have been interrupted in page 1, and the WAL has it.
            if 1 not in self.in_wal:
                raise
            try:
                self.check_first_page(self.image(1))
            except Refused:
                raise refusal

    def page_count(self) -> int:
        """The pages that SQLite sees: by the WAL, by the header while that is up to date, or by the file."""
        if self.wal.pages:
            return self.wal.pages
        first = self.plain(1)
        return int.from_bytes(first[28:32], "big") if first[24:28] == first[92:96] else len(self.database) // self.size

    def check_length(self) -> int:
        pages = self.page_count()
        if not self.wal.pages and pages * self.size < len(self.database):
            raise Refused("headerDamaged")
        whole = len(self.database) // self.size
        missing = [n for n in range(whole + 1, pages + 1) if n not in self.in_wal]
        if missing:
            raise Refused("truncated", missing_pages=" ".join(map(str, missing)))
        return pages

    def check_pages(self, pages: int) -> list:
        failing = [n for n in range(1, pages + 1) if n not in self.in_wal and n != (1 << 30) // self.size + 1
                   and not self.reader.is_authentic(self.in_file(n), n)]
        zero = [n for n in failing if not any(self.in_file(n))]
        free = Database(self.plain).free_pages() if zero else set()
        damaged = [n for n in failing if n not in zero]
        lost = sorted(damaged + [n for n in zero if n not in free])
        if lost:
            raise Refused(f"pageDamaged {lost[0]}", damaged_pages=" ".join(map(str, damaged)), zero_pages=" ".join(map(str, zero)))
        return zero

    def check(self) -> dict:
        self.check_beginning()
        frames = self.wal.damaged(self.reader)
        zero = []
        if not frames or 1 not in [self.wal.frames[n - 1][0] for n in frames]:
            pages = self.check_length()
            if self.sidecar.version == 2:
                remembered = Database(self.plain).remembered(self.sidecar.id)
                if remembered and remembered > self.sidecar.generation:
                    raise Refused("sidecarRolledBack")
            zero = self.check_pages(pages)
        if frames:
            raise Refused(f"frameDamaged {frames[0]}", damaged_frames=" ".join(map(str, frames)))
        return {"pages": pages, "frames": len(self.wal.frames), "zero_pages": " ".join(map(str, zero)) or "none"}


def read_store(v: Vector) -> dict:
    return Store(v).check()


# Files of the standard form

def standard_reader(v: Vector, content: bytes) -> PageReader:
    """The reader under which page 1 is authentic, among SQLCipher 4's settings; raises Refused otherwise."""
    is_raw, secret = v.secret
    salt = content[:16]
    for version, rounds, kdf_hash, hashes in [(4, 256_000, "sha512", ["sha512", "sha256", "sha1"]), (3, 64_000, "sha1", ["sha1"]),
                                              (2, 4_000, "sha1", ["sha1"])]:
        key = secret if is_raw else hashlib.pbkdf2_hmac(kdf_hash, secret, salt, rounds, 32)
        for hmac_hash in hashes:
            for size in [1024 << i for i in range(7)]:
                reader = PageReader(key, salt, {"page_bytes": size, "plaintext_header_bytes": 0, "kdf_rounds": rounds,
                                                "kdf_hash": kdf_hash, "hmac_hash": hmac_hash})
                if reader.is_authentic(content[:size], 1):
                    if version != 4:
                        raise Refused("otherVersion")
                    return reader
    raise Refused("wrongKey")


def read_standard(v: Vector) -> dict:
    content = v.parts["database"]
    if examine(content[:4096], len(content), None) != "opaque" or not looks_encrypted(content[:4096], len(content)):
        raise Refused("notAdoptable")
    reader = standard_reader(v, content)
    pages = [content[i:i + reader.size] for i in range(0, len(content), reader.size)]
    first = reader.decrypt(pages[0], 1)
    count = int.from_bytes(first[28:32], "big") if first[24:28] == first[92:96] else len(pages)
    if count * reader.size > len(content):
        raise Refused("truncated")
    for number, page in enumerate(pages, 1):
        if not reader.is_authentic(page, number):
            raise Refused(f"pageDamaged {number}")
    return {"pages": count}


# All vectors

READERS = {"derivation": read_derivation, "encryption": read_encryption, "page": read_page, "header": read_header, "wal": read_wal,
           "sidecar": read_sidecar, "keyslot": read_sidecar, "recovery": read_recovery, "shares": read_shares, "sidecar-pair": read_pair,
           "rotation": read_rotation, "backup": read_backup, "keylog": read_keylog, "store": read_store,
           "standard": read_standard}


def verdict_of(v: Vector) -> tuple:
    try:
        return "ok", READERS[v.kind](v)
    except Refused as refusal:
        return refusal.verdict, refusal.results


def has_argon2id() -> bool:
    try:
        argon2id(b"password", bytes(16), 32, 1, 1)
    except Exception:  # An old version of the module, or of OpenSSL.
        return False
    return True


def read(name: str) -> dict:
    """The verdict about a vector, and whether it is the expected one, with the results that the vector names."""
    v = Vector(name)
    if v.kind not in READERS or v.kind != name.split("/")[0]:
        raise BadVector(f"kind {v.kind}")
    if v.headers.get("needs") == "argon2id" and not has_argon2id():
        return {"vector": name, "verdict": "unavailable", "results": {}, "agrees": True, "expect": "", "wanted": {}}
    verdict, results = verdict_of(v)
    wanted = {key.removeprefix("result_"): value for key, value in v.headers.items() if key.startswith("result_")}
    found = {key: str(results.get(key)) for key in wanted}
    return {"vector": name, "verdict": verdict, "results": found,
            "agrees": verdict == v.headers["expect"] and found == wanted, "expect": v.headers["expect"], "wanted": wanted}


def names(arguments: list) -> list:
    paths = [Path(argument).resolve() for argument in arguments] or [FOLDER]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.vector"))]
    return sorted(f"{file.parent.name}/{file.stem}" for file in files)


def compare(folder: Path) -> int:
    """Compares the verdicts of another reader with those of this one; what one of the two cannot read is left out."""
    others = [json.loads(row) for file in sorted(folder.glob("*.jsonl")) for row in file.read_text().splitlines()]
    other, differing, left_out = {result["vector"]: result for result in others}, 0, 0
    for name in names([]):
        result = read(name)
        theirs = other.pop(name, {"verdict": "missing", "results": {}})
        if "unavailable" in [result["verdict"], theirs["verdict"]]:
            left_out += 1
        elif [theirs["verdict"], theirs["results"]] != [result["verdict"], result["results"]] or not result["agrees"]:
            differing += 1
            print(f"{name}: {result['verdict']} {result['results']} here, {theirs['verdict']} {theirs['results']} there")
    for name in other:
        differing += 1
        print(f"{name}: not a vector of this folder")
    print(f"{len(names([]))} vectors: {differing} differ, {left_out} cannot be read by both")
    return 1 if differing else 0


def main() -> int:
    if sys.argv[1:2] == ["--compare"]:
        return compare(Path(sys.argv[2]))
    arguments = [argument for argument in sys.argv[1:] if argument != "--json"]
    counts, status = {}, 0
    for name in names(arguments):
        try:
            result = read(name)
        except (BadVector, KeyError, OSError) as error:
            print(f"{name}: not a vector: {error}", file=sys.stderr)
            status = 2
            continue
        count = counts.setdefault(name.split("/")[0], Counter())
        count["ok" if result["agrees"] else "failed"] += 1
        if not result["agrees"]:
            status = max(status, 1)
            print(f"{name}: {result['verdict']} {result['results']} instead of {result['expect']} {result['wanted']}",
                  file=sys.stderr)
        if "--json" in sys.argv:
            print(json.dumps({key: result[key] for key in ["vector", "verdict", "results", "agrees"]}))
    if "--json" not in sys.argv:
        for kind, count in counts.items():
            print(f"{kind:14}{count['ok']:5} ok{count['failed']:5} failed")
        print(f"{'all':14}{sum(c['ok'] for c in counts.values()):5} ok{sum(c['failed'] for c in counts.values()):5} failed")
    return status


if __name__ == "__main__":
    sys.exit(main())
