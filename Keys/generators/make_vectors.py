#!/usr/bin/env python3
"""Writes Keys/vectors/*.json with Python's hashlib and hmac and PyPI's `cryptography`.

Nothing of CipherStore takes part, so the vectors are a second opinion. The output is the same at every run.
Usage: pip install cryptography && Keys/generators/make_vectors.py
"""

import hashlib
import hmac
import json
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
MAGIC = b"SQLite format 3\0"


def stream(name: str, count: int) -> bytes:
    """Bytes that anybody can make again: SHA-256 of `name/0`, `name/1`, ... one after another."""
    blocks = (hashlib.sha256(f"{name}/{i}".encode()).digest() for i in range((count + 31) // 32))
    return b"".join(blocks)[:count]


def data_key(passphrase: bytes, salt: bytes, rounds: int, kdf_hash: str) -> bytes:
    return hashlib.pbkdf2_hmac(kdf_hash, passphrase, salt, rounds, 32)


def mac_key(key: bytes, salt: bytes, kdf_hash: str) -> bytes:
    return hashlib.pbkdf2_hmac(kdf_hash, key, bytes(b ^ 0x3A for b in salt), 2, 32)


def reserve(hmac_hash: str) -> int:
    used = 16 + hashlib.new(hmac_hash).digest_size
    return (used + 15) // 16 * 16


def aes_cbc(key: bytes, vector: bytes, plain: bytes) -> bytes:
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return encryptor.update(plain) + encryptor.finalize()


def plain_page(name: str, number: int, page_bytes: int, header: int, hmac_hash: str) -> bytes:
    """What SQLite sees; the reserve is zero, and page 1 begins with a header."""
    page = bytearray(stream(name, page_bytes))
    if number == 1:
        size = 1 if page_bytes == 65536 else page_bytes
        page[0:24] = MAGIC + struct.pack(">H", size) + bytes([2, 2, reserve(hmac_hash), 64, 32, 32])
    page[page_bytes - reserve(hmac_hash):] = bytes(reserve(hmac_hash))
    return bytes(page)


def encrypt_page(key, salt, number, plain, vector, header, kdf_hash, hmac_hash) -> bytes:
    size = len(plain)
    usable = size - reserve(hmac_hash)
    clear = 0 if number > 1 else (header or 16)
    prefix = b"" if number > 1 else (plain[:header] if header else salt)
    body = aes_cbc(key, vector, plain[clear:usable]) + vector
    code = hmac.new(mac_key(key, salt, kdf_hash), body + struct.pack("<I", number), hmac_hash).digest()
    page = prefix + body + code
    return page + bytes(size - len(page))


def kdf_vectors():
    salt = bytes(range(16))
    cases = [
        ("SQLCipher 4", b"sesame street", salt, 256_000, "sha512"),
        ("SQLCipher 3", b"sesame street", salt, 64_000, "sha1"),
        ("few rounds, SHA-256", b"sesame street", salt, 4_000, "sha256"),
        ("empty passphrase", b"", salt, 1_000, "sha512"),
        ("passphrase beyond a hash block", b"long " * 60, stream("salt", 16), 1_000, "sha512"),
        ("passphrase outside ASCII", "Schlüssel für Ωmega".encode(), stream("salt", 16), 1_000, "sha512"),
    ]
    vectors = []
    for name, passphrase, case_salt, rounds, kdf_hash in cases:
        key = data_key(passphrase, case_salt, rounds, kdf_hash)
        vectors.append({
            "name": name, "passphrase": passphrase.decode(), "salt": case_salt.hex(), "rounds": rounds,
            "hash": kdf_hash, "dataKey": key.hex(), "macKey": mac_key(key, case_salt, kdf_hash).hex(),
        })
    raw = bytes(range(32))
    vectors.append({
        "name": "raw key", "salt": salt.hex(), "hash": "sha512", "dataKey": raw.hex(),
        "macKey": mac_key(raw, salt, "sha512").hex(),
    })
    return vectors


def hkdf_vectors():
    vectors = []
    for name, salt, label, count in [
        ("with salt and label", bytes(range(16)), "test: sidecar authentication", 32),
        ("without salt", b"", "test: wrapping", 32),
        ("without label", bytes(range(16)), "", 32),
        ("long output", stream("hkdf salt", 32), "test: long output", 200),
    ]:
        key = stream("hkdf key " + name, 32)
        output = HKDF(hashes.SHA256(), count, salt, label.encode()).derive(key)
        vectors.append({
            "name": name, "key": key.hex(), "salt": salt.hex(), "label": label, "output": output.hex(),
        })
    # RFC 5869, test case 3: the published case whose label is text (it is empty).
    vectors.append({
        "name": "RFC 5869 case 3", "key": "0b" * 22, "salt": "", "label": "",
        "output": "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    })
    return vectors


def hmac_vectors():
    vectors = [
        # RFC 2202 and RFC 4231, test case 2.
        {"name": "RFC case 2", "hash": name, "key": b"Jefe".hex(),
         "message": b"what do ya want for nothing?".hex(), "code": code}
        for name, code in [
            ("sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            ("sha256", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            ("sha512", "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                       "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"),
        ]
    ]
    for name in ["sha1", "sha256", "sha512"]:
        for key_bytes, message_bytes in [(32, 0), (32, 4036), (200, 77)]:
            key, message = stream("hmac key", key_bytes), stream("hmac message", message_bytes)
            vectors.append({
                "name": f"{key_bytes}-byte key, {message_bytes}-byte message", "hash": name, "key": key.hex(),
                "message": message.hex(), "code": hmac.new(key, message, name).hexdigest(),
            })
    return vectors


def cipher_vectors():
    # NIST SP 800-38A, F.2.5.
    vectors = [{
        "name": "NIST SP 800-38A F.2.5",
        "key": "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "vector": "000102030405060708090a0b0c0d0e0f",
        "plain": "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                 "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        "encrypted": "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
                     "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
    }]
    for blocks in [1, 2, 27]:
        key, vector = stream("cipher key", 32), stream(f"cipher vector {blocks}", 16)
        plain = stream("cipher plain", 16 * blocks)
        vectors.append({
            "name": f"{blocks} blocks", "key": key.hex(), "vector": vector.hex(), "plain": plain.hex(),
            "encrypted": aes_cbc(key, vector, plain).hex(),
        })
    return vectors


def page_vectors():
    key, salt = bytes(range(32)), bytes(range(16))
    vectors = []
    hashes_by_version = [("sha512", "sha512"), ("sha256", "sha256"), ("sha1", "sha1")]
    for page_bytes in [512 << i for i in range(8)]:
        for header in [0, 32]:
            for kdf_hash, hmac_hash in hashes_by_version:
                for number in [1, 2, 0x01020304]:
                    name = f"page {page_bytes} {header} {hmac_hash} {number}"
                    vector = stream(name + " vector", 16)
                    plain = plain_page(name, number, page_bytes, header, hmac_hash)
                    page = encrypt_page(key, salt, number, plain, vector, header, kdf_hash, hmac_hash)
                    entry = {
                        "name": name, "pageBytes": page_bytes, "plaintextHeaderBytes": header,
                        "kdfHash": kdf_hash, "hmacHash": hmac_hash, "number": number, "vector": vector.hex(),
                        "pageSHA256": hashlib.sha256(page).hexdigest(),
                    }
                    if page_bytes == 512:
                        entry["page"] = page.hex()
                    vectors.append(entry)
    return {"dataKey": key.hex(), "salt": salt.hex(), "vectors": vectors}


def signature_vectors():
    # RFC 8032, section 7.1, tests 1 to 3.
    published = [
        ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
         "d25bf5f0595bbe24655141438e7a100b"),
        ("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
         "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
         "387b2eaeb4302aeeb00d291612bb0c00"),
        ("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
         "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
         "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
         "4a7c15e9716ed28dc027beceea1ec40a"),
    ]
    vectors = []
    for number, (secret, verifying, message, signature) in enumerate(published, 1):
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
        assert key.public_key().public_bytes_raw().hex() == verifying
        assert key.sign(bytes.fromhex(message)).hex() == signature
        vectors.append({"name": f"RFC 8032 7.1 test {number}", "secret": secret, "verifying": verifying, "message": message,
                        "signature": signature})
    return vectors


def agreement_vectors():
    # RFC 7748, section 5.2 (two vectors) and section 6.1.
    published = [
        ("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
         "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
         "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"),
        ("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
         "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
         "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"),
        ("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
         "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
         "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"),
    ]
    vectors = []
    for number, (secret, other, shared) in enumerate(published, 1):
        key = X25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
        assert key.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other))).hex() == shared
        vectors.append({"name": f"RFC 7748 vector {number}", "secret": secret, "public": key.public_key().public_bytes_raw().hex(),
                        "other": other, "shared": shared})
    return vectors


def write(name: str, content) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (VECTORS / name).write_text(text)


if __name__ == "__main__":
    VECTORS.mkdir(exist_ok=True)
    write("kdf.json", {"vectors": kdf_vectors()})
    write("hkdf.json", {"vectors": hkdf_vectors()})
    write("hmac.json", {"vectors": hmac_vectors()})
    write("cipher.json", {"vectors": cipher_vectors()})
    write("pages.json", page_vectors())
    write("ed25519.json", {"vectors": signature_vectors()})
    write("x25519.json", {"vectors": agreement_vectors()})
