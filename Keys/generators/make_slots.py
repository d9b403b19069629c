#!/usr/bin/env python3
"""Writes the vectors of the key slots, Keys/vectors/{gcm,scrypt,argon2id,slots}.json, and the example of the document.

Nothing of CipherStore takes part: what is made here follows Docs/Formats/Sidecar.md. The output is the same at every run.
Usage: pip install cryptography argon2-cffi && Keys/generators/make_slots.py
"""

import hashlib
import hmac
from pathlib import Path

from argon2.low_level import Type, hash_secret_raw
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from make_vectors import encrypt_page, plain_page, stream, write
from open_slot import (KDF_FIELDS, Sidecar, data_key_context, decrypt_page, hkdf, next_key_context, print_recovery,
                       read_recovery, slot_context, slot_key)

DOCUMENT = Path(__file__).resolve().parents[2] / "Docs/Formats/Sidecar.md"
CIPHER = {"page_bytes": 4096, "plaintext_header_bytes": 32, "kdf_rounds": 256000, "kdf_hash": "sha512",
          "hmac_hash": "sha512"}
ROUNDS = 256000
CREATED = 1_700_000_000
PAGES = 1234


def gcm_vectors():
    # The test cases of "The Galois/Counter Mode of Operation" (McGrew, Viega) that have 256-bit keys and 96-bit nonces;
    # NIST took them over for SP 800-38D.
    key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"
    plain = ("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
             "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255")
    sealed = ("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
              "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad")
    vectors = [
        {"name": "test case 13", "key": "00" * 32, "nonce": "00" * 12, "plain": "", "additionalData": "",
         "sealed": "530f8afbc74536b9a963b4f1c4cb738b"},
        {"name": "test case 14", "key": "00" * 32, "nonce": "00" * 12, "plain": "00" * 16, "additionalData": "",
         "sealed": "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
        {"name": "test case 15", "key": key, "nonce": "cafebabefacedbaddecaf888", "plain": plain,
         "additionalData": "", "sealed": sealed + "b094dac5d93471bdec1a502270e3cc6c"},
        {"name": "test case 16", "key": key, "nonce": "cafebabefacedbaddecaf888", "plain": plain[:120],
         "additionalData": "feedfacedeadbeeffeedfacedeadbeefabaddad2",
         "sealed": sealed[:120] + "76fc6ece0f4e1768cddf8853bb2d551b"},
    ]
    for count, data_count in [(32, 72), (1, 0), (100, 17)]:
        name = f"{count} bytes with {data_count} additional ones"
        key, nonce, plain, data = (stream(f"gcm {part} {name}", n) for part, n in
                                   [("key", 32), ("nonce", 12), ("plain", count), ("data", data_count)])
        vectors.append({"name": name, "key": key.hex(), "nonce": nonce.hex(), "plain": plain.hex(),
                        "additionalData": data.hex(), "sealed": AESGCM(key).encrypt(nonce, plain, data).hex()})
    for vector in vectors:
        parts = [bytes.fromhex(vector[name]) for name in ["key", "nonce", "plain", "additionalData"]]
        assert AESGCM(parts[0]).encrypt(*parts[1:]).hex() == vector["sealed"], vector["name"]
    return vectors


def scrypt_vectors():
    # RFC 7914, section 12; the one with N = 2^20 takes a gigabyte and is left out.
    published = [
        ("", "", 4, 1, 1, "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442"
                          "fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906"),
        ("password", "NaCl", 10, 8, 16, "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
                                        "2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"),
        ("pleaseletmein", "SodiumChloride", 14, 8, 1,
         "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
         "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"),
    ]
    vectors = [{"name": f"RFC 7914: {password or 'empty'}", "password": password.encode().hex(),
                "salt": salt.encode().hex(), "log2Rounds": log2, "blockSize": r, "lanes": p, "output": output}
               for password, salt, log2, r, p, output in published]
    password, salt = "Schlüssel für Ωmega".encode(), stream("scrypt salt", 16)
    vectors.append({"name": "the cost of a new slot", "password": password.hex(), "salt": salt.hex(), "log2Rounds": 17,
                    "blockSize": 8, "lanes": 1,
                    "output": hashlib.scrypt(password, salt=salt, n=1 << 17, r=8, p=1, dklen=32, maxmem=1 << 28).hex()})
    for vector in vectors:
        output = hashlib.scrypt(bytes.fromhex(vector["password"]), salt=bytes.fromhex(vector["salt"]),
                                n=1 << vector["log2Rounds"], r=vector["blockSize"], p=vector["lanes"],
                                dklen=len(vector["output"]) // 2, maxmem=1 << 28)
        assert output.hex() == vector["output"], vector["name"]
    return vectors


def argon2id(password: bytes, salt: bytes, memory: int, iterations: int, lanes: int, **more: bytes) -> bytes:
    return Argon2id(salt=salt, length=32, iterations=iterations, lanes=lanes, memory_cost=memory, **more).derive(password)


def argon2id_vectors():
    # RFC 9106, section 5.3.
    password, salt, pepper, associated = b"\1" * 32, b"\2" * 16, b"\3" * 8, b"\4" * 12
    tag = "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"
    assert argon2id(password, salt, 32, 3, 4, secret=pepper, ad=associated).hex() == tag
    vectors = [{"name": "RFC 9106", "password": password.hex(), "salt": salt.hex(), "pepper": pepper.hex(),
                "associatedData": associated.hex(), "memoryKiB": 32, "iterations": 3, "lanes": 4, "output": tag}]
    for memory, iterations, lanes in [(16384, 1, 1), (32768, 2, 4), (65536, 3, 4)]:
        password, salt = b"sesame street", stream(f"argon2id salt {memory}", 16)
        output = argon2id(password, salt, memory, iterations, lanes)
        # `cryptography` has it from OpenSSL, argon2-cffi from the authors' own code.
        assert output == hash_secret_raw(password, salt, iterations, memory, lanes, 32, Type.ID)
        vectors.append({"name": f"{memory} KiB", "password": password.hex(), "salt": salt.hex(), "memoryKiB": memory,
                        "iterations": iterations, "lanes": lanes, "output": output.hex()})
    return vectors


class Builder:
    """A sidecar with key slots and fixed keys, salts and nonces.

    The slots whose numbers stand in `kept` have a pending slot of a new master key.
    """

    def __init__(self, name: str, secrets: list, state: str, epoch: int, generation: int, kept: tuple = ()):
        self.id, self.master = stream(name + " id", 16), stream(name + " master", 32)
        self.salt, self.data_key = stream(name + " salt", 16), stream(name + " data key", 32)
        self.next_salt, self.next_key = stream(name + " next salt", 16), stream(name + " next key", 32)
        self.next_master = stream(name + " next master", 32) if kept else self.master
        self.slots = [self.slot(name, i + 1, self.master, *secret) for i, secret in enumerate(secrets)]
        self.pending_slots = [self.slot(name + " next", i, self.next_master, *secrets[i - 1]) for i in kept]
        self.secrets = [secret[1] for secret in secrets]
        lines = ['{"format":"cipherstore-sidecar","version":2}',
                 f'{{"record":"store","id":"{self.id.hex()}","state":"{state}","epoch":{epoch},'
                 f'"generation":{generation},"scheme":"slots"}}',
                 f'{{"record":"cipher","salt":"{self.salt.hex()}","page_bytes":4096,"plaintext_header_bytes":32,'
                 '"kdf_rounds":256000,"kdf_hash":"sha512","hmac_hash":"sha512"}',
                 f'{{"record":"slots","next_id":{len(secrets) + 1}}}']
        lines += [self.slot_line("slot", slot) for slot in self.slots]
        nonce, wrapped = self.wrap(name + " data key nonce", self.master, self.data_key, epoch, self.salt)
        lines.append(f'{{"record":"data-key","epoch":{epoch},"created":{CREATED},"origin":"random",'
                     f'"nonce":"{nonce}","wrapped":"{wrapped}"}}')
        if state in ["rotating", "switching"]:
            nonce, wrapped = self.wrap(name + " next nonce", self.next_master, self.next_key, epoch + 1, self.next_salt)
            lines.append(f'{{"record":"pending","epoch":{epoch + 1},"created":{CREATED + 60},'
                         f'"pages":{PAGES if state == "switching" else 0},'
                         f'"salt":"{self.next_salt.hex()}","nonce":"{nonce}","wrapped":"{wrapped}"}}')
        lines += [self.slot_line("pending-slot", slot) for slot in self.pending_slots]
        lines.append(f'{{"record":"key-check","value":"{self.check(self.master)}"}}')
        if kept:
            lines.append(f'{{"record":"pending-key-check","value":"{self.check(self.next_master)}"}}')
        self.text = "".join(line + "\n" for line in lines)
        self.mac_key = hkdf(self.master, self.id, "cipherstore slots mac v2", 32)
        self.pending_mac_key = (hkdf(self.next_master, self.id, "cipherstore pending slots mac v2", 32) if kept
                                else hkdf(self.next_key, self.id, "cipherstore pending mac v2", 32))
        if state in ["rotating", "switching"]:
            self.text += f'{{"pending-mac":"{self.code(self.pending_mac_key)}"}}\n'
        self.text += f'{{"mac":"{self.code(self.mac_key)}"}}\n'

    def code(self, key: bytes) -> str:
        return hmac.new(key, self.text.encode(), "sha256").hexdigest()

    def check(self, master: bytes) -> str:
        return hkdf(master, self.id, "cipherstore slots key check v2", 16).hex()

    def slot(self, name: str, number: int, master: bytes, kind: str, secret: bytes, label: str, kdf: str,
             parameters: list) -> dict:
        slot = {"id": number, "kind": kind, "created": CREATED + number, "label": label, "kdf": kdf}
        slot |= dict(zip(KDF_FIELDS[kdf], parameters))
        slot["salt"] = stream(f"{name} slot {number} salt", 16).hex()
        nonce = stream(f"{name} slot {number} nonce", 12)
        slot["nonce"] = nonce.hex()
        slot["wrapped"] = AESGCM(slot_key(slot, secret)).encrypt(nonce, master, slot_context(self.id, slot)).hex()
        return slot

    def slot_line(self, record: str, slot: dict) -> str:
        fields = ",".join(f'"{k}":{v}' if isinstance(v, int) else f'"{k}":"{v}"' for k, v in slot.items())
        return f'{{"record":"{record}",{fields}}}'

    def wrap(self, name: str, master: bytes, key: bytes, epoch: int, salt: bytes):
        nonce = stream(name, 12)
        context = data_key_context(self.id, epoch, salt, CIPHER)
        wrapped = AESGCM(hkdf(master, self.id, "cipherstore data key wrapping v2", 32)).encrypt(nonce, key, context)
        return nonce.hex(), wrapped.hex()

    def vector(self, name: str) -> dict:
        def told(slots: list) -> list:
            return [{"id": s["id"], "kind": s["kind"], "secret": self.secrets[s["id"] - 1].hex(),
                     "slotKey": slot_key(s, self.secrets[s["id"] - 1]).hex(),
                     "additionalData": slot_context(self.id, s).hex()} for s in slots]

        sidecar = Sidecar(self.text.encode())
        for slot, secret in zip(self.slots, self.secrets):
            assert sidecar.unlock(secret, [slot["kind"]], False) == (self.data_key, self.salt), name
            if sidecar.pending and (not self.pending_slots or slot["id"] in [s["id"] for s in self.pending_slots]):
                assert sidecar.unlock(secret, [slot["kind"]], True) == (self.next_key, self.next_salt), name
        plain = plain_page(name, 1, 4096, 32, "sha512")
        page = encrypt_page(self.data_key, self.salt, 1, plain, stream(name + " vector", 16), 32, "sha512", "sha512")
        assert decrypt_page(page, 1, self.data_key, self.salt, CIPHER)[32:4016] == plain[32:4016]
        return {"name": name, "sidecar": self.text, "master": self.master.hex(), "dataKey": self.data_key.hex(),
                "dataKeyContext": data_key_context(self.id, sidecar.data_key["epoch"], self.salt, CIPHER).hex(),
                "nextKey": self.next_key.hex(), "nextMaster": self.next_master.hex(), "slots": told(self.slots),
                "pendingSlots": told(self.pending_slots), "page": page.hex()}


class DirectBuilder:
    """The sidecar of a direct store that is being rotated from one passphrase to another."""

    def __init__(self, name: str, passphrase: bytes, next_passphrase: bytes, state: str, epoch: int, generation: int):
        self.name, self.passphrase, self.next_passphrase, self.epoch = name, passphrase, next_passphrase, epoch
        self.id, self.salt, self.next_salt = (stream(f"{name} {part}", 16) for part in ["id", "salt", "next salt"])
        self.key, self.next_key = (hashlib.pbkdf2_hmac("sha512", secret, salt, ROUNDS, 32) for secret, salt in
                                   [(passphrase, self.salt), (next_passphrase, self.next_salt)])
        self.wrapping_key = hkdf(self.key, self.id, "cipherstore next key wrapping v1", 32)
        self.context = next_key_context(self.id, epoch + 1, self.next_salt, CIPHER)
        nonce = stream(name + " nonce", 12)
        wrapped = AESGCM(self.wrapping_key).encrypt(nonce, self.next_key, self.context)
        checks = [hkdf(key, self.id, "cipherstore key check v1", 16).hex() for key in [self.key, self.next_key]]
        lines = ['{"format":"cipherstore-sidecar","version":1}',
                 f'{{"record":"store","id":"{self.id.hex()}","state":"{state}","epoch":{epoch},'
                 f'"generation":{generation},"scheme":"direct"}}',
                 f'{{"record":"cipher","salt":"{self.salt.hex()}","page_bytes":4096,"plaintext_header_bytes":32,'
                 f'"kdf_rounds":{ROUNDS},"kdf_hash":"sha512","hmac_hash":"sha512"}}',
                 f'{{"record":"pending","epoch":{epoch + 1},"created":{CREATED + 60},'
                 f'"pages":{PAGES if state == "switching" else 0},"salt":"{self.next_salt.hex()}",'
                 f'"nonce":"{nonce.hex()}","wrapped":"{wrapped.hex()}"}}',
                 f'{{"record":"key-check","value":"{checks[0]}"}}',
                 f'{{"record":"pending-key-check","value":"{checks[1]}"}}']
        self.text = "".join(line + "\n" for line in lines)
        self.mac_key = hkdf(self.key, self.id, "cipherstore sidecar mac v1", 32)
        self.pending_mac_key = hkdf(self.next_key, self.id, "cipherstore pending mac v1", 32)
        self.text += f'{{"pending-mac":"{Builder.code(self, self.pending_mac_key)}"}}\n'
        self.text += f'{{"mac":"{Builder.code(self, self.mac_key)}"}}\n'
        sidecar = Sidecar(self.text.encode())
        assert sidecar.unlock(passphrase, ["passphrase"], False) == (self.key, self.salt)
        for secret in [passphrase, next_passphrase]:
            assert sidecar.unlock(secret, ["passphrase"], True) == (self.next_key, self.next_salt)

    def vector(self) -> dict:
        return {"name": self.name, "sidecar": self.text, "passphrase": self.passphrase.decode(),
                "nextPassphrase": self.next_passphrase.decode(), "key": self.key.hex(), "nextKey": self.next_key.hex(),
                "additionalData": self.context.hex()}


SMALL = ["scrypt", [14, 8, 1]]


def example(name: str = "document", state: str = "rotating", generation: int = 5, kept: tuple = ()) -> Builder:
    secrets = [("passphrase", b"sesame street", "Anna, laptop", "scrypt", [17, 8, 1]),
               ("key-file", bytes(range(32)), "server", "hkdf", []),
               ("recovery", stream("document recovery", 32), "safe", "hkdf", [])]
    return Builder(name, secrets, state, 1, generation, kept)


def renewing_example() -> Builder:
    return example("document, new master key", "switching", 8, (2, 3))


def direct_example() -> DirectBuilder:
    return DirectBuilder("document, direct", b"sesame street", b"rubber duckie", "switching", 1, 4)


def slot_vectors():
    every_kind = [("passphrase", b"sesame street", "", *SMALL),
                  ("key-file", stream("key file", 32), "server", "hkdf", []),
                  ("command", b"what pass prints", "pass show store", *SMALL),
                  ("command", stream("command", 32).hex().encode(), "vault", "hkdf", []),
                  ("credential", b"credential", "unit.service", "scrypt", [15, 8, 2]),
                  ("recovery", stream("recovery", 32), "safe (left)", "hkdf", [])]
    one = [("passphrase", "Schlüssel".encode(), "~ only one ~", *SMALL)]
    return [Builder("every kind", every_kind, "ready", 7, 12).vector("every kind"),
            Builder("one slot", one, "creating", 1, 1).vector("one slot"),
            Builder("switching", one, "switching", 3, 40).vector("switching"),
            Builder("new master key", every_kind, "rotating", 7, 12, (1, 2, 4, 6)).vector("new master key"),
            renewing_example().vector("the document's example of a new master key"),
            example().vector("the document's example")]


def direct_vectors():
    return [DirectBuilder("rotating", b"old", "Schlüssel".encode(), "rotating", 5, 77).vector(),
            direct_example().vector()]


def recovery_vectors():
    keys = [bytes(32), b"\xff" * 32, bytes(range(32)), stream("recovery text", 32)]
    assert all(read_recovery(print_recovery(key)) == key for key in keys)
    return [{"key": key.hex(), "text": print_recovery(key)} for key in keys]


def put(heading: str, rows: list, blocks: list) -> None:
    """Puts an example into the document, from the table behind its heading to the next heading."""
    table = "".join(f"| {name} | `{value.hex()}` |\n" for name, value in rows)
    text = DOCUMENT.read_text()
    start = text.index("| name | value |", text.index(f"### {heading}\n"))
    end = text.find("\n### ", start)
    DOCUMENT.write_text(text[:start] + "| name | value |\n|---|---|\n" + table
                        + "".join(f"\n```\n{block}```\n" for block in blocks) + ("" if end < 0 else text[end:]))


def write_examples() -> None:
    built = direct_example()
    put("Version 1, at the switch to another passphrase",
        [("data key of epoch 1", built.key), ("data key of epoch 2", built.next_key),
         ("wrap key", built.wrapping_key), ("additional data of the data key of epoch 2", built.context),
         ("mac key", built.mac_key), ("pending mac key", built.pending_mac_key)], [built.text])
    built = example()
    rows = [("master key", built.master), ("data key of epoch 1", built.data_key),
            ("data key of epoch 2", built.next_key)]
    rows += [(f"slot key of slot {s['id']}", slot_key(s, x)) for s, x in zip(built.slots, built.secrets)]
    rows += [("additional data of slot 1", slot_context(built.id, built.slots[0])),
             ("additional data of the data key of epoch 1", data_key_context(built.id, 1, built.salt, CIPHER)),
             ("wrap key", hkdf(built.master, built.id, "cipherstore data key wrapping v2", 32)),
             ("mac key", built.mac_key), ("pending mac key", built.pending_mac_key)]
    put("Version 2", rows, [print_recovery(built.secrets[2]), built.text])
    built = renewing_example()
    rows = [("master key", built.master), ("next master key", built.next_master), ("data key of epoch 1", built.data_key),
            ("data key of epoch 2", built.next_key)]
    rows += [(f"slot key of pending slot {s['id']}", slot_key(s, built.secrets[s["id"] - 1])) for s in built.pending_slots]
    rows += [("next wrap key", hkdf(built.next_master, built.id, "cipherstore data key wrapping v2", 32)),
             ("mac key", built.mac_key), ("pending mac key", built.pending_mac_key)]
    put("Version 2, at the switch to another master key", rows, [built.text])


if __name__ == "__main__":
    write("gcm.json", {"vectors": gcm_vectors()})
    write("scrypt.json", {"vectors": scrypt_vectors()})
    write("argon2id.json", {"vectors": argon2id_vectors()})
    write("slots.json", {"vectors": slot_vectors(), "direct": direct_vectors(), "recovery": recovery_vectors()})
    write_examples()
