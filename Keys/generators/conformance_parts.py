"""What the conformance vectors are made of: the vector file, databases, WALs, sidecars, key logs and backups.

Used by make_conformance.py. It follows Docs/Formats alone; no code of CipherStore takes part.
"""

import hashlib
import hmac
import json
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from make_vectors import encrypt_page, reserve, stream
from open_slot import KDF_FIELDS, data_key_context, hkdf, next_key_context, slot_context, slot_key

FOLDER = Path(__file__).resolve().parent.parent / "conformance"
CREATED = 1_700_000_000
CIPHER = {"page_bytes": 4096, "plaintext_header_bytes": 32, "kdf_rounds": 1000, "kdf_hash": "sha512",
          "hmac_hash": "sha512"}


# The vector file

class Vectors:
    """All vectors: by name, each as the bytes of its file."""

    def __init__(self):
        self.files = {}
        self.known = {}

    def add(self, name: str, expect: str, comment: str, files: dict = None, base: str = None, edits: list = (),
            limit: str = None, **headers) -> str:
        """A vector with bytes of its own, or a recipe that changes those of a base vector."""
        assert name not in self.files, name
        kind = name.split("/")[0]
        lines = ["cipherstore-vector: 1", f"kind: {kind}", f"expect: {expect}", f"comment: {comment}"]
        if limit:
            lines.append(f"limit: {limit}")
        if base:
            assert base in self.files, base
            lines.append(f"base: {base}")
        lines += [f"{key}: {value.hex() if isinstance(value, bytes) else value}" for key, value in headers.items()]
        body = b""
        for part, content in (files or {}).items():
            # Bytes that another vector has are not stored again.
            source = self.known.get(content, "")
            if len(content) > 600 and source and not source.startswith(name + " "):
                lines.append(f"use: {part} from {source}")
            else:
                lines.append(f"file: {part} {len(content)}")
                body += content
                self.known.setdefault(content, f"{name} {part}")
        lines += list(edits)
        assert all("\n" not in line for line in lines)
        self.files[name] = "\n".join(lines).encode() + b"\n\n" + body
        return name

    def write(self) -> None:
        for old in FOLDER.glob("*/*.vector"):
            if f"{old.parent.name}/{old.stem}" not in self.files:
                old.unlink()
        for name, content in self.files.items():
            path = FOLDER / f"{name}.vector"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


# A database of SQLite, page by page

def varint(value: int) -> bytes:
    digits = [value & 127]
    while value := value >> 7:
        digits.append(value & 127 | 128)
    return bytes(reversed(digits))


def record(values: list) -> bytes:
    types, body = b"", b""
    for value in values:
        if value is None:
            types += varint(0)
        elif isinstance(value, int):
            types, body = types + varint(6), body + struct.pack(">q", value)
        elif isinstance(value, bytes):
            types, body = types + varint(12 + 2 * len(value)), body + value
        else:
            types, body = types + varint(13 + 2 * len(value.encode())), body + value.encode()
    return varint(len(types) + 1) + types + body


def tree_page(page_bytes: int, reserved: int, start: int, kind: int, cells: list, rightmost: int = None) -> bytearray:
    page = bytearray(page_bytes)
    end = page_bytes - reserved
    pointers = b""
    for cell in cells:
        end -= len(cell)
        page[end:end + len(cell)] = cell
        pointers += struct.pack(">H", end)
    head = struct.pack(">BHHHB", kind, 0, len(cells), end, 0)
    head += struct.pack(">I", rightmost) if rightmost else b""
    page[start:start + len(head) + len(pointers)] = head + pointers
    return page


def leaf_page(page_bytes: int, reserved: int, rows: list, start: int = 0) -> bytearray:
    cells = []
    for number, values in rows:
        payload = record(values)
        cells.append(varint(len(payload)) + varint(number) + payload)
    return tree_page(page_bytes, reserved, start, 13, cells)


def database(texts: list, page_bytes: int = 4096, reserved: int = 80, version: int = 2, custody: tuple = None,
             counter: int = 7, auto_vacuum: bool = False, spare: int = 0) -> list:
    """The plain pages of a database: table `note` with one row for each text, each row on a page of its own.

    Page 1 has the schema, page 2 the root of the table, pages 3 and later the rows; a single row is in the root. `custody` is the row of the table
    that remembers the sidecar's generation: the store's identifier and the generation. `spare` pages are free.
    """
    schema = [(1, ["table", "note", "note", 2, "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT)"])]
    leaves = [leaf_page(page_bytes, reserved, [(i + 1, [None, text])]) for i, text in enumerate(texts)]
    children = [struct.pack(">I", 3 + i) + varint(i + 1) for i in range(len(texts) - 1)]
    root = [tree_page(page_bytes, reserved, 0, 5, children, 2 + len(texts))] if children else []
    pages = [None] + root + leaves
    if custody:
        sql = ("CREATE TABLE cipherstore_custody (\n    id INTEGER PRIMARY KEY CHECK (id = 1), store BLOB NOT NULL, "
               "generation INTEGER NOT NULL)")
        schema.append((2, ["table", "cipherstore_custody", "cipherstore_custody", len(pages) + 1, sql]))
        pages.append(leaf_page(page_bytes, reserved, [(1, [None, *custody])]))
    first = leaf_page(page_bytes, reserved, schema, start=100)
    trunk = len(pages) + 1 if spare else 0
    if spare:
        pages.append(bytearray(struct.pack(">II", 0, spare - 1)
                               + b"".join(struct.pack(">I", trunk + i) for i in range(1, spare))).ljust(page_bytes, b"\0"))
        pages += [bytearray(page_bytes) for _ in range(spare - 1)]
    count = len(pages)
    first[:100] = (b"SQLite format 3\0" + struct.pack(">H", 1 if page_bytes == 65536 else page_bytes)
                   + bytes([version, version, reserved, 64, 32, 32]) + struct.pack(">IIII", counter, count, trunk, spare)
                   + struct.pack(">III", 1, 4, 0) + struct.pack(">III", 2 if auto_vacuum else 0, 1, 0)
                   + bytes(28) + struct.pack(">II", counter, 3_046_001))
    pages[0] = first
    return [bytes(page) for page in pages]


# The WAL

def wal_checksum(data: bytes, first: int, second: int, big_endian: bool):
    for a, b in struct.iter_unpack(">II" if big_endian else "<II", data):
        first = (first + a + second) & 0xFFFFFFFF
        second = (second + b + first) & 0xFFFFFFFF
    return first, second


def wal(frames: list, page_bytes: int = 4096, salts: tuple = (0x01020304, 0x0A0B0C0D), big_endian: bool = False,
        page_field: int = None, version: int = 3_007_000, magic: int = 0x377F0682) -> bytes:
    """A WAL with frames of (page number, pages after the commit or 0, page[, salts])."""
    head = struct.pack(">IIIIII", magic | big_endian, version, page_bytes if page_field is None else page_field, 3, *salts)
    sums = wal_checksum(head, 0, 0, big_endian)
    out = head + struct.pack(">II", *sums)
    for number, pages, page, *other in frames:
        start = struct.pack(">II", number, pages)
        sums = wal_checksum(start + page, *sums, big_endian)
        out += start + struct.pack(">IIII", *(other[0] if other else salts), *sums) + page
    return out


# Stores

class Pages:
    """Key, salt and settings of one epoch: what encrypts a database."""

    def __init__(self, name: str, key: bytes, salt: bytes, cipher: dict = CIPHER):
        self.name, self.key, self.salt, self.cipher = name, key, salt, cipher

    def encrypt(self, number: int, plain: bytes, what: str = "") -> bytes:
        vector = stream(f"{self.name}{what} vector {number}", 16)
        cipher = self.cipher
        return encrypt_page(self.key, self.salt, number, plain, vector, cipher["plaintext_header_bytes"],
                            cipher["kdf_hash"], cipher["hmac_hash"])

    def file(self, plain: list, what: str = "") -> bytes:
        return b"".join(self.encrypt(i + 1, page, what) for i, page in enumerate(plain))

    @property
    def reserved(self) -> int:
        return reserve(self.cipher["hmac_hash"])

    def headers(self) -> dict:
        return {"key": self.key, "salt": self.salt, **self.cipher}


def line(record_name: str, fields: dict) -> str:
    parts = [f'"{k}":{v}' if isinstance(v, int) else f'"{k}":"{v}"' for k, v in fields.items()]
    return f'{{"record":"{record_name}",' + ",".join(parts) + "}\n"


def changed(text: str, edit) -> str:
    """The text with one replacement, or several; each must find its text."""
    for old, new in ([edit] if isinstance(edit, tuple) else edit or []):
        assert old in text, (old, text)
        text = text.replace(old, new, 1)
    return text


class DirectStore:
    """A store of version 1: the data key comes from a passphrase, or is a raw key."""

    def __init__(self, name: str, passphrase: str = None, cipher: dict = CIPHER, next_passphrase: str = None,
                 epoch: int = 1, store_id: bytes = None):
        self.name, self.cipher, self.epoch = name, cipher, epoch
        self.id = store_id or stream(name + " id", 16)
        self.salt, self.next_salt = stream(name + " salt", 16), stream(name + " next salt", 16)
        self.passphrase, self.next_passphrase = passphrase, next_passphrase

        def derive(text, salt, what):
            if text is None:
                return stream(name + what, 32)
            return hashlib.pbkdf2_hmac(cipher["kdf_hash"], text.encode(), salt, cipher["kdf_rounds"], 32)
        self.key, self.next_key = derive(passphrase, self.salt, " key"), derive(next_passphrase, self.next_salt, " next key")

    @property
    def pages(self) -> Pages:
        return Pages(self.name, self.key, self.salt, self.cipher)

    @property
    def next_pages(self) -> Pages:
        return Pages(self.name + " next", self.next_key, self.next_salt, self.cipher)

    @property
    def secret(self) -> dict:
        return {"passphrase": self.passphrase} if self.passphrase else {"raw_key": self.key}

    @property
    def next_secret(self) -> dict:
        return {"passphrase": self.next_passphrase} if self.next_passphrase else {"raw_key": self.next_key}

    def rotated(self) -> "DirectStore":
        """The same store in its next epoch."""
        store = DirectStore(self.name + " next", cipher=self.cipher, epoch=self.epoch + 1, store_id=self.id)
        store.key, store.salt, store.passphrase = self.next_key, self.next_salt, self.next_passphrase
        return store

    def sidecar(self, state: str = "ready", generation: int = 2, edit=None, pages: int = 0, epoch: int = None,
                mac_key: bytes = None, pending_mac_key: bytes = None, check_key: bytes = None, pending_check: bytes = None,
                wrap_key: bytes = None, version: int = 1, tail: str = "") -> bytes:
        """The file, sealed after `edit`: what it says is the only fault of it."""
        epoch = epoch or self.epoch
        text = f'{{"format":"cipherstore-sidecar","version":{version}}}\n'
        text += line("store", {"id": self.id.hex(), "state": state, "epoch": epoch, "generation": generation,
                               "scheme": "direct"})
        text += line("cipher", {"salt": self.salt.hex(), **self.cipher})
        is_pending = state in ["rotating", "switching"]
        if is_pending:
            nonce = stream(f"{self.name} pending nonce", 12)
            wrapping = hkdf(wrap_key or self.key, self.id, "cipherstore next key wrapping v1", 32)
            context = next_key_context(self.id, epoch + 1, self.next_salt, self.cipher)
            wrapped = AESGCM(wrapping).encrypt(nonce, self.next_key, context)
            text += line("pending", {"epoch": epoch + 1, "created": CREATED + 60, "pages": pages,
                                     "salt": self.next_salt.hex(), "nonce": nonce.hex(), "wrapped": wrapped.hex()})
        text += line("key-check", {"value": self.check(check_key or self.key)})
        if is_pending:
            text += line("pending-key-check", {"value": self.check(pending_check or self.next_key)})
        text = changed(text, edit)
        if is_pending:
            key = hkdf(pending_mac_key or self.next_key, self.id, "cipherstore pending mac v1", 32)
            text += f'{{"pending-mac":"{hmac.new(key, text.encode(), "sha256").hexdigest()}"}}\n'
        key = hkdf(mac_key or self.key, self.id, "cipherstore sidecar mac v1", 32)
        return (text + f'{{"mac":"{hmac.new(key, text.encode(), "sha256").hexdigest()}"}}\n' + tail).encode()

    def check(self, key: bytes) -> str:
        return hkdf(key, self.id, "cipherstore key check v1", 16).hex()


class Slot:
    """A keyslot before it is written: its kind, secret and derivation."""

    def __init__(self, number: int, kind: str, secret: bytes, kdf: str = "hkdf", parameters: tuple = (),
                 label: str = "", token: tuple = None):
        self.number, self.kind, self.secret, self.kdf, self.parameters, self.label = (
            number, kind, secret, kdf, parameters, label)
        # The name and bytes of a kind whose secret a device keeps.
        self.token = token

    def fields(self, name: str, store_id: bytes, master: bytes, is_costly: bool = False) -> dict:
        slot = {"id": self.number, "kind": self.kind, "created": CREATED + self.number, "label": self.label,
                "kdf": self.kdf, **dict(zip(KDF_FIELDS[self.kdf], self.parameters)),
                **({"name": self.token[0], "token": self.token[1].hex()} if self.token else {}),
                "salt": stream(f"{name} slot {self.number} salt", 16).hex()}
        nonce = stream(f"{name} slot {self.number} nonce", 12)
        slot["nonce"] = nonce.hex()
        # A slot whose derivation is too costly is never opened; its wrapped key is any bytes.
        slot["wrapped"] = (stream(f"{name} slot {self.number} wrapped", 48) if is_costly else
                           AESGCM(slot_key(slot, self.secret)).encrypt(nonce, master, slot_context(store_id, slot))).hex()
        return slot


class SlotStore:
    """A store of version 2: keyslots wrap a master key, which wraps the data key of each epoch."""

    def __init__(self, name: str, slots: list, kept: list = (), cipher: dict = CIPHER, epoch: int = 1,
                 store_id: bytes = None):
        self.name, self.slots, self.kept, self.cipher, self.epoch = name, slots, kept, cipher, epoch
        self.id, self.master = store_id or stream(name + " id", 16), stream(name + " master", 32)
        self.next_master = stream(name + " next master", 32) if kept else self.master
        self.salt, self.next_salt = stream(name + " salt", 16), stream(name + " next salt", 16)
        self.key, self.next_key = stream(name + " data key", 32), stream(name + " next data key", 32)

    pages, next_pages = DirectStore.pages, DirectStore.next_pages

    def rotated(self) -> "SlotStore":
        """The same store in its next epoch; with a new master key it has only the kept keyslots."""
        name = self.name + " next" if self.kept else self.name
        store = SlotStore(name, self.kept or self.slots, cipher=self.cipher, epoch=self.epoch + 1, store_id=self.id)
        store.master, store.key, store.salt = self.next_master, self.next_key, self.next_salt
        return store

    def sidecar(self, state: str = "ready", generation: int = 2, edit=None, pages: int = 0, epoch: int = None,
                slots: list = None, next_id: int = None, origin: str = "random", mac_key: bytes = None,
                data_key_master: bytes = None, pending_mac_key: bytes = None, wrapped_next: bytes = None,
                version: int = None, tail: str = "", costly: bool = False) -> bytes:
        """The file, sealed after `edit`."""
        epoch, slots = epoch or self.epoch, self.slots if slots is None else slots
        pending = self.kept if state in ["rotating", "switching"] else []
        version = version or (3 if any(slot.token for slot in [*slots, *pending]) else 2)
        text = f'{{"format":"cipherstore-sidecar","version":{version}}}\n'
        text += line("store", {"id": self.id.hex(), "state": state, "epoch": epoch, "generation": generation,
                               "scheme": "slots"})
        text += line("cipher", {"salt": self.salt.hex(), **self.cipher})
        text += line("slots", {"next_id": next_id or max([s.number for s in self.slots] + [s.number for s in slots]) + 1})
        text += "".join(line("slot", s.fields(self.name, self.id, self.master, costly)) for s in slots)
        nonce, wrapped = self.wrap("", data_key_master or self.master, self.key, epoch, self.salt)
        text += line("data-key", {"epoch": epoch, "created": CREATED, "origin": origin, "nonce": nonce, "wrapped": wrapped})
        is_pending = state in ["rotating", "switching"]
        if is_pending:
            nonce, wrapped = self.wrap(" next", self.next_master, wrapped_next or self.next_key, epoch + 1, self.next_salt)
            text += line("pending", {"epoch": epoch + 1, "created": CREATED + 60, "pages": pages,
                                     "salt": self.next_salt.hex(), "nonce": nonce, "wrapped": wrapped})
            text += "".join(line("pending-slot", s.fields(self.name + " next", self.id, self.next_master))
                            for s in self.kept)
        text += line("key-check", {"value": self.check(self.master)})
        if is_pending and self.kept:
            text += line("pending-key-check", {"value": self.check(self.next_master)})
        text = changed(text, edit)
        if is_pending:
            key = (hkdf(pending_mac_key or self.next_master, self.id, "cipherstore pending slots mac v2", 32) if self.kept
                   else hkdf(pending_mac_key or self.next_key, self.id, "cipherstore pending mac v2", 32))
            text += f'{{"pending-mac":"{hmac.new(key, text.encode(), "sha256").hexdigest()}"}}\n'
        key = hkdf(mac_key or self.master, self.id, "cipherstore slots mac v2", 32)
        return (text + f'{{"mac":"{hmac.new(key, text.encode(), "sha256").hexdigest()}"}}\n' + tail).encode()

    def wrap(self, what: str, master: bytes, key: bytes, epoch: int, salt: bytes):
        nonce = stream(f"{self.name}{what} data key nonce", 12)
        context = data_key_context(self.id, epoch, salt, self.cipher)
        wrapping = hkdf(master, self.id, "cipherstore data key wrapping v2", 32)
        return nonce.hex(), AESGCM(wrapping).encrypt(nonce, key, context).hex()

    def check(self, master: bytes) -> str:
        return hkdf(master, self.id, "cipherstore slots key check v2", 16).hex()


# Key logs

class LogLines:
    """Lines of a key log, each chained to the one before."""

    def __init__(self, number: int = 1, previous: str = "0" * 64):
        self.number, self.previous, self.lines = number, previous, []

    def add(self, event: str, previous: str = None, number: int = None, hash_of: str = None, **details) -> "LogLines":
        self.number = number or self.number
        fields = {"number": self.number, "time": CREATED + 10 * self.number, "event": event,
                  **{name.replace("_", "-"): value for name, value in details.items()}, "process": 4711, "user": 1000,
                  "previous": previous or self.previous}
        covered = json.dumps(fields, separators=(",", ":"))[:-1]
        self.previous = hash_of or hashlib.sha256(covered.encode()).hexdigest()
        self.lines.append(f'{covered},"hash":"{self.previous}"}}\n')
        self.number += 1
        return self

    @property
    def bytes(self) -> bytes:
        return "".join(self.lines).encode()


# Backups

def backup_manifest(store, database_bytes: bytes, sidecar: bytes, generation: int, edit=None, mac_key: bytes = None,
                    label: str = "cipherstore backup mac v1", **more) -> bytes:
    values = {"store_id": store.id.hex(), "epoch": store.epoch, "generation": generation, "created": CREATED + 900,
              "page_bytes": store.cipher["page_bytes"], "pages": len(database_bytes) // store.cipher["page_bytes"],
              "library": "4.6.1 community", **more}

    def file(name: str, content: bytes) -> str:
        return f'{{"name": "{name}", "bytes": {len(content)}, "sha256": "{hashlib.sha256(content).hexdigest()}"}}'
    text = ('{\n  "format": "cipherstore-backup",\n  "version": 1,\n  "store_id": "%(store_id)s",\n  "epoch": %(epoch)d,\n'
            '  "generation": %(generation)d,\n  "created": %(created)d,\n  "page_bytes": %(page_bytes)d,\n'
            '  "pages": %(pages)d,\n' % values)
    text += f'  "database": {file("store.db", database_bytes)},\n  "sidecar": {file("store.db-sidecar", sidecar)},\n'
    text += f'  "library": "{values["library"]}",\n'
    text = changed(text, edit)
    key = hkdf(mac_key or store.key, store.id, label, 32)
    return (text + f'  "mac": "{hmac.new(key, text.encode(), "sha256").hexdigest()}"\n}}\n').encode()
