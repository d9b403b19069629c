#!/usr/bin/env python3
"""Writes the conformance vectors, Keys/conformance/<kind>/*.vector: one property or one failure each.

Docs/Formats/Vector.md describes their form. Python's hashlib and hmac and PyPI's `cryptography` make them from fixed
secrets and vectors, so the files are the same at every run; nothing of CipherStore takes part.
Usage: pip install cryptography && Keys/generators/make_conformance.py && Keys/generators/make_manifest.py
"""

import hashlib

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from conformance_files import backup_vectors, keylog_vectors, pair_vectors, rotation_vectors, store_vectors
from conformance_parts import CIPHER, Pages, Vectors, database, wal
from conformance_shares import share_vectors
from conformance_sidecars import keyslot_vectors, recovery_vectors, sidecar_vectors
from make_vectors import data_key, encrypt_page, mac_key, plain_page, stream
from open_slot import hkdf

SALT = bytes(range(16))
KEY = bytes(range(32))
SIZES = [512 << i for i in range(8)]


# Keys

def derivation_vectors(v: Vectors) -> None:
    def add(name: str, function: str, comment: str, result: bytes = None, expect: str = "ok", **headers) -> None:
        if result is not None:
            headers["result_key"] = result
        v.add(f"derivation/{name}", expect, comment, function=function, **headers)

    for name, text, salt, rounds, kdf_hash, comment in [
        ("data-key-sqlcipher4", "sesame street", SALT, 256_000, "sha512", "SQLCipher 4's derivation"),
        ("data-key-sqlcipher3", "sesame street", SALT, 64_000, "sha1", "SQLCipher 3's derivation"),
        ("data-key-sqlcipher2", "sesame street", SALT, 4_000, "sha1", "SQLCipher 2's derivation"),
        ("data-key-sha256", "sesame street", SALT, 4_000, "sha256", "SQLCipher 4 with PBKDF2_HMAC_SHA256"),
        ("data-key-one-round", "sesame street", SALT, 1, "sha512", "the smallest number of rounds"),
        ("data-key-not-ascii", "Schlüssel für Ωmega", SALT, 1000, "sha512", "a passphrase is its UTF-8 bytes"),
        ("data-key-decomposed", "Schlu\u0308ssel", SALT, 1000, "sha512", "no Unicode normalization takes place"),
        ("data-key-blanks", "two  words ", SALT, 1000, "sha512", "blanks count, at the end too"),
        ("data-key-longer-than-a-block", "long " * 60, stream("salt", 16), 1000, "sha512",
         "a passphrase longer than a block of the hash is hashed first (HMAC)"),
        ("data-key-other-salt", "sesame street", stream("salt", 16), 1000, "sha512", "the salt matters"),
    ]:
        add(name, "data-key", comment, data_key(text.encode(), salt, rounds, kdf_hash), passphrase_hex=text.encode(),
            salt=salt, kdf_rounds=rounds, kdf_hash=kdf_hash)
    for kdf_hash in ["sha1", "sha256", "sha512"]:
        add(f"mac-key-{kdf_hash}", "mac-key", "two rounds under the salt with each byte xor 0x3a", mac_key(KEY, SALT, kdf_hash),
            key=KEY, salt=SALT, kdf_hash=kdf_hash)
    add("mac-key-other-salt", "mac-key", "a file with another salt has another MAC key",
        mac_key(KEY, bytes(16), "sha512"), key=KEY, salt=bytes(16), kdf_hash="sha512")
    for name, label, count in [
        ("direct-key-check", "cipherstore key check v1", 16), ("direct-mac", "cipherstore sidecar mac v1", 32),
        ("direct-next-key", "cipherstore next key wrapping v1", 32), ("direct-pending-mac", "cipherstore pending mac v1", 32),
        ("slots-key-check", "cipherstore slots key check v2", 16), ("slots-mac", "cipherstore slots mac v2", 32),
        ("slots-data-key", "cipherstore data key wrapping v2", 32), ("slots-slot", "cipherstore slot wrapping v2", 32),
        ("slots-pending-mac", "cipherstore pending mac v2", 32),
        ("slots-pending-slots-mac", "cipherstore pending slots mac v2", 32), ("backup-mac", "cipherstore backup mac v1", 32),
    ]:
        add(f"hkdf-{name}", "hkdf", f"the key of one purpose: {label}", hkdf(KEY, SALT, label, count), key=KEY, salt=SALT,
            label=label, bytes=count)
    text = "sesame street".encode()
    for log2_n, p in [(14, 1), (14, 2), (15, 1)]:
        key = hashlib.scrypt(text, salt=SALT, n=1 << log2_n, r=8, p=p, dklen=32, maxmem=1 << 27)
        add(f"scrypt-{log2_n}-{p}", "scrypt", "the smallest costs that a keyslot may have", key, passphrase_hex=text,
            salt=SALT, log2_n=log2_n, r=8, p=p)
    for memory, iterations, lanes in [(16384, 1, 1), (16384, 2, 2)]:
        key = Argon2id(salt=SALT, length=32, iterations=iterations, lanes=lanes, memory_cost=memory).derive(text)
        add(f"argon2id-{iterations}-{lanes}", "argon2id", "the smallest memory that a keyslot may have", key,
            needs="argon2id", passphrase_hex=text, salt=SALT, memory_kib=memory, iterations=iterations, lanes=lanes)
    for name, text, comment in [
        ("empty", b"", "an empty passphrase protects nothing"),
        ("keyspec", b"x'" + b"00" * 32 + b"'", "SQLCipher would take it for a raw key"),
        ("keyspec-capital", b"X'sesame", "SQLCipher would take it for a raw key, and digits that are none for zeros"),
        ("too-long", b"p" * 65537, "longer than 65,536 bytes"),
    ]:
        headers = {"passphrase_hex": text} if len(text) < 1000 else {"passphrase_repeat": f"{text[:1].hex()} {len(text)}"}
        add(f"passphrase-{name}", "passphrase", comment, expect="invalidKey", **headers)
    add("passphrase-x-alone", "passphrase", "only x' at the beginning is refused", passphrase_hex=b"xylophone")
    for count in [0, 16, 31, 33, 64]:
        add(f"raw-key-{count}-bytes", "raw-key", "a raw key has 32 bytes", expect="invalidKey", key=stream("raw", count))
    add("raw-key-32-bytes", "raw-key", "a raw key has 32 bytes", key=KEY)
    for name, digits, comment in [
        ("15-bytes", "00" * 15, "SQLCipher ignores a salt of another length"),
        ("17-bytes", "00" * 17, "SQLCipher ignores a salt of another length"),
        ("not-hexadecimal", "0g" * 16, "SQLCipher reads a digit that is none as 0"),
        ("odd", "0" * 31, "half a byte is missing"),
    ]:
        add(f"salt-{name}", "salt", comment, expect="invalidKey", salt=digits)
    add("salt-16-bytes", "salt", "a salt has 16 bytes", salt="0f" * 16)


# Pages

def page_headers(number: int, size: int, header: int, kdf_hash: str, hmac_hash: str) -> dict:
    return {"key": KEY, "salt": SALT, "number": number, "page_bytes": size, "plaintext_header_bytes": header,
            "kdf_hash": kdf_hash, "hmac_hash": hmac_hash}


def encryption_vectors(v: Vectors) -> None:
    def add(size: int, header: int, number: int, kdf_hash: str = "sha512", hmac_hash: str = "sha512") -> None:
        name = f"{size}-{'header32' if header else 'standard'}-{hmac_hash}-page-{number}"
        plain, vector = plain_page(name, number, size, header, hmac_hash), stream(name + " vector", 16)
        page = encrypt_page(KEY, SALT, number, plain, vector, header, kdf_hash, hmac_hash)
        v.add(f"encryption/{name}", "ok", "a page is encrypted to these bytes", plain_stream=name, iv=vector,
              result_sha256=hashlib.sha256(page).digest(), **page_headers(number, size, header, kdf_hash, hmac_hash))

    for size in SIZES:
        for header in [0, 32]:
            for number in [1, 2]:
                add(size, header, number)
    for size in [1024, 4096]:
        for header in [0, 32]:
            add(size, header, 1, "sha1", "sha1")
            add(size, header, 1, "sha256", "sha256")
            add(size, header, 2, "sha512", "sha1")
            add(size, header, 2, "sha512", "sha256")
    for number in [0x01020304, 0xFFFFFFFE]:
        add(4096, 32, number)


def page_vectors(v: Vectors) -> None:
    def good(name: str, number: int, size: int, header: int, kdf_hash: str, hmac_hash: str, comment: str) -> str:
        plain = plain_page(name, number, size, header, hmac_hash)
        page = encrypt_page(KEY, SALT, number, plain, stream(name + " vector", 16), header, kdf_hash, hmac_hash)
        return v.add(f"page/{name}", "ok", comment, {"page": page}, result_plain_sha256=hashlib.sha256(plain).digest(),
                     **page_headers(number, size, header, kdf_hash, hmac_hash))

    for size in [512, 1024, 2048, 4096]:
        for header in [0, 32]:
            for number in [1, 2]:
                form = "header32" if header else "standard"
                good(f"{size}-{form}-page-{number}", number, size, header, "sha512", "sha512", "an authentic page")
    for size in [8192, 16384, 32768, 65536]:
        good(f"{size}-header32-page-2", 2, size, 32, "sha512", "sha512", "an authentic page")
    for hash_name in ["sha1", "sha256"]:
        good(f"1024-header32-{hash_name}-page-1", 1, 1024, 32, hash_name, hash_name, "an authentic page of another hash")
        good(f"1024-standard-{hash_name}-page-2", 2, 1024, 0, hash_name, hash_name, "an authentic page of another hash")
    good("4096-header32-page-16909060", 0x01020304, 4096, 32, "sha512", "sha512",
         "the page number under the code is little-endian")
    bad_page_vectors(v)


def bad_page_vectors(v: Vectors) -> None:
    second, first, standard = "page/4096-header32-page-2", "page/4096-header32-page-1", "page/4096-standard-page-1"

    def bad(name: str, comment: str, *edits: str, base: str = second, page: int = 2, **headers) -> None:
        v.add(f"page/{name}", f"pageDamaged {page}", comment, base=base, edits=edits, **headers)

    for region, offset, comment in [
        ("ciphertext-first", 0, "the first byte of the ciphertext"), ("ciphertext-middle", 2000, "the ciphertext"),
        ("ciphertext-last", 4015, "the last byte of the ciphertext"), ("iv-first", 4016, "the initialization vector"),
        ("iv-last", 4031, "the last byte of the initialization vector"), ("code-first", 4032, "the authentication code"),
        ("code-last", 4095, "the last byte of the authentication code"),
    ]:
        for bit in [0, 7]:
            bad(f"flip-{region}-bit-{bit}", f"one bit of {comment} is flipped", f"flip: page {offset} bit {bit}")
    bad("page-1-flip-byte-32", "the first encrypted byte of page 1", "flip: page 32 bit 0", base=first, page=1)
    bad("page-1-flip-byte-99", "an encrypted byte of SQLite's header", "flip: page 99 bit 4", base=first, page=1)
    bad("standard-page-1-flip-byte-16", "the first encrypted byte after the salt", "flip: page 16 bit 0", base=standard,
        page=1)
    bad("other-key", "the key differs in one bit", key=bytes([1]) + KEY[1:])
    bad("other-salt", "the MAC key is derived from the salt, so the page of a file with another salt fails",
        salt=bytes([1]) + SALT[1:])
    bad("other-number", "page 2 at the place of page 3: a moved page", page=3, number=3)
    bad("page-1-as-2", "page 1 at the place of page 2", number=2, base=first)
    bad("number-zero", "pages count from 1", page=0, number=0)
    plain = plain_page("number-big-endian", 2, 4096, 32, "sha512")
    page = encrypt_page(KEY, SALT, 0x02000000, plain, stream("number-big-endian vector", 16), 32, "sha512", "sha512")
    v.add("page/number-big-endian", "pageDamaged 2", "the code was made with a big-endian page number", {"page": page},
          **page_headers(2, 4096, 32, "sha512", "sha512"))
    bad("one-byte-short", "the page has 4095 bytes", "truncate: page to 4095")
    bad("one-byte-long", "the page has 4097 bytes", "append: page 00")
    bad("empty", "the page has no bytes", "truncate: page to 0")
    bad("zeros", "a page of zeros is not authentic", "truncate: page to 0", "zeros: page 4096")
    bad("halves-swapped", "two halves of the ciphertext are swapped", "swap: page 0 with 2000 length 2000")
    bad("iv-of-another-page", "the initialization vector of page 1", f"take: page 4016 length 16 from {first} page 4016")
    bad("code-of-another-page", "the authentication code of page 1", f"take: page 4032 length 64 from {first} page 4032")
    bad("code-shortened", "the second half of the authentication code is zeros", "write: page 4064 " + "00" * 32)
    bad("read-as-sha256", "read with another hash of the authentication code", hmac_hash="sha256")
    bad("read-with-other-kdf-hash", "read with another hash of the MAC key's derivation", kdf_hash="sha256")
    bad("standard-read-as-header32", "page 1 of the standard form, read as one with a plaintext header", base=standard,
        page=1, plaintext_header_bytes=32)
    bad("header32-read-as-standard", "page 1 with a plaintext header, read as one of the standard form", base=first,
        page=1, plaintext_header_bytes=0)
    bad("sha1-flip-code", "one bit of a code of 20 bytes", "flip: page 992 bit 0", base="page/1024-standard-sha1-page-2")
    limit = "clear bytes of page 1 are neither encrypted nor authenticated; the header is verified by its values"
    for name, base, offset in [("header-byte-20", first, 20), ("header-byte-28", first, 28), ("header-byte-31", first, 31)]:
        v.add(f"page/page-1-{name}-flipped", "ok", "a byte of the plaintext header is changed; the page itself is authentic",
              base=base, edits=[f"flip: page {offset} bit 0"], limit=limit)
    v.add("page/standard-page-1-salt-flipped-with-given-salt", "ok",
          "the salt in the file is changed, and the right one was given", base=standard, edits=["flip: page 3 bit 1"],
          limit="the salt in a standard file is not authenticated; with a changed salt the derived key fits no page")
    plain = plain_page("1024-standard-sha1-page-2", 2, 1024, 0, "sha1")
    v.add("page/sha1-padding-flipped", "ok", "a byte of the padding after a code of 20 bytes is changed",
          base="page/1024-standard-sha1-page-2", edits=["flip: page 1020 bit 0"],
          limit="the padding of SHA-1 pages is random and not authenticated",
          result_plain_sha256=hashlib.sha256(plain).digest())


# The header

def header_vectors(v: Vectors) -> None:
    pages = Pages("header", KEY, SALT)
    first = pages.encrypt(1, database(["a", "b"])[0])[:4096]
    known = {"file_bytes": 16384, **CIPHER}
    base = v.add("header/plaintext-header", "ok", "the header of a store", {"database": first}, **known)
    v.add("header/settings-unknown", "ok", "the same, without knowing the settings", {"database": first}, file_bytes=16384)
    for size in SIZES:
        edit = [f"write: database 16 {1 if size == 65536 else size:04x}"]
        v.add(f"header/page-bytes-{size}", "ok", "a page size on record", base=base, edits=edit, page_bytes=size,
              file_bytes=4 * size)
        if size != 4096:
            v.add(f"header/page-bytes-{size}-for-4096", "headerDamaged 16", "another page size than that on record",
                  base=base, edits=edit)
    header_damage(v, base)
    strangers(v, base, first)


def header_damage(v: Vectors, base: str) -> None:
    for offset in range(24):
        v.add(f"header/byte-{offset:02d}-flipped", f"headerDamaged {offset}", "one byte that SQLCipher never writes so",
              base=base, edits=[f"flip: database {offset} bit 6"])
    for name, value, comment in [("ff", "ff", "no reserve: SQLite would overwrite codes"), ("zero", "00", "no reserve"),
                                 ("48", "30", "the reserve of SHA-1, under SHA-512: reads pass, writes destroy pages")]:
        v.add(f"header/reserve-{name}", "headerDamaged 20", comment, base=base, edits=[f"write: database 20 {value}"])
    v.add("header/reserve-48-for-sha1", "ok", "the reserve of SHA-1", base=base, edits=["write: database 20 30"],
          hmac_hash="sha1")
    v.add("header/reserve-80-for-sha1", "ok", "a pragma after the key leaves the reserve of the default", base=base,
          hmac_hash="sha1")
    v.add("header/reserve-48-settings-unknown", "ok", "without settings every reserve is possible",
          base="header/settings-unknown", edits=["write: database 20 30"])
    v.add("header/reserve-64-settings-unknown", "headerDamaged 20", "no hash has this reserve",
          base="header/settings-unknown", edits=["write: database 20 40"])
    v.add("header/rollback-journal", "ok", "bytes 18 and 19 may both be 1", base=base, edits=["write: database 18 0101"],
          limit="a change of both bytes from 2 to 1 is not detected: SQLite then uses a rollback journal")
    v.add("header/versions-differ", "headerDamaged 18", "bytes 18 and 19 must be equal", base=base,
          edits=["write: database 18 0102"])
    v.add("header/page-size-500-settings-unknown", "headerDamaged 16", "not a power of two", base="header/settings-unknown",
          edits=["write: database 16 01f4"])
    v.add("header/page-size-256-settings-unknown", "headerDamaged 16", "smaller than any page", base="header/settings-unknown",
          edits=["write: database 16 0100"])
    for name, offset in [("change-counter", 24), ("page-count", 28)]:
        v.add(f"header/{name}-changed", "ok", f"bytes {offset} to {offset + 3} may have any value here", base=base,
              edits=[f"write: database {offset} 12345678"],
              limit="bytes 24 to 31 are not authenticated; the page count is compared with file and WAL elsewhere")
    v.add("header/two-bytes-wrong", "headerDamaged 3", "the first wrong byte is reported", base=base,
          edits=["flip: database 3 bit 0", "flip: database 20 bit 0"])
    v.add("header/eleven-bytes-wrong", "headerDamaged 0", "more than half is right: still a damaged header", base=base,
          edits=["write: database 0 " + "a5" * 11])


def strangers(v: Vectors, base: str, first: bytes) -> None:
    v.add("header/twelve-bytes-wrong", "opaque", "half of the bytes are wrong: no header", base=base,
          edits=["write: database 0 " + "a5" * 12])
    plain = database(["a", "b"], reserved=0)[0]
    v.add("header/plain-sqlite", "plainSQLite", "SQLite without encryption", {"database": plain}, file_bytes=16384, **CIPHER)
    v.add("header/plain-sqlite-magic-damaged", "plainSQLite", "SQLite without encryption, with four wrong bytes",
          {"database": b"\xff" * 4 + plain[4:]}, file_bytes=16384, **CIPHER)
    v.add("header/standard-form", "opaque", "the standard form: the salt in place of the magic",
          {"database": Pages("header", KEY, SALT, CIPHER | {"plaintext_header_bytes": 0}).encrypt(1, plain_page(
              "standard", 1, 4096, 0, "sha512"))}, file_bytes=16384, **CIPHER)
    v.add("header/zeros", "opaque", "a file of zeros", {"database": bytes(4096)}, file_bytes=16384, **CIPHER)
    v.add("header/text", "opaque", "a text file", {"database": b"Four score and seven years ago " * 40}, **CIPHER)
    v.add("header/no-bytes", "empty", "the file has no bytes", {"database": b""}, **CIPHER)
    v.add("header/one-byte", "tooShort", "SQLite takes a file of one byte for a new database", {"database": b"S"}, **CIPHER)
    v.add("header/511-bytes", "tooShort", "shorter than the smallest page", {"database": first[:511]}, **CIPHER)
    v.add("header/99-bytes", "tooShort", "the header itself is not complete", {"database": first[:99]}, **CIPHER)
    v.add("header/512-bytes", "ok", "long enough for a header; its length is compared elsewhere", {"database": first[:512]},
          **CIPHER)


# The WAL

def wal_vectors(v: Vectors) -> None:
    pages = Pages("wal", KEY, SALT, CIPHER | {"page_bytes": 1024})
    plain = database(["a", "b", "c"], 1024)
    image = {n: pages.encrypt(n, plain[n - 1], " wal") for n in range(1, 6)}
    newer = {n: pages.encrypt(n, plain[n - 1], " wal newer") for n in range(1, 6)}
    frames = [(1, 0, image[1]), (3, 5, image[3]), (3, 5, newer[3]), (4, 0, image[4]), (5, 5, image[5])]
    headers = pages.headers()

    def result(frames: int, pages: int, uncommitted: int = 0, images: str = "1:1 3:3 4:4 5:5") -> dict:
        return {"result_frames": frames, "result_pages": pages, "result_uncommitted": uncommitted,
                "result_images": images or "none"}

    whole = wal(frames, 1024)
    base = v.add("wal/three-commits", "ok", "five frames in three commits", {"wal": whole}, **headers, **result(5, 5))
    stride = 1048

    def cut(name: str, comment: str, expect: str, edits: list, frames: tuple, limit: str = None, **more) -> None:
        v.add(f"wal/{name}", expect, comment, base=base, edits=edits, limit=limit, **result(*frames), **more)
    v.add("wal/big-endian-checksums", "ok", "the magic says that checksums read big-endian words",
          {"wal": wal(frames, 1024, big_endian=True)}, **headers, **result(5, 5))
    v.add("wal/header-alone", "ok", "a WAL without frames", {"wal": whole[:32]}, **headers, **result(0, 0, 0, ""))
    v.add("wal/no-bytes", "walIgnored", "an empty file contains nothing", {"wal": b""}, **headers)
    v.add("wal/31-bytes", "walIgnored", "the header is not complete", {"wal": whole[:31]}, **headers)
    v.add("wal/uncommitted-tail", "ok", "two frames after the last commit never happened",
          {"wal": wal(frames + [(1, 0, newer[1]), (2, 0, image[2])], 1024)}, **headers, **result(5, 5, 2))
    v.add("wal/nothing-committed", "ok", "no frame ends a transaction", {"wal": wal([(1, 0, image[1])], 1024)},
          **headers, **result(0, 0, 1, ""))
    v.add("wal/shrunk-database", "ok", "pages beyond the last commit's page count do not exist any more",
          {"wal": wal(frames + [(1, 3, newer[1])], 1024)}, **headers, **result(6, 3, 0, "1:6 3:3"))
    v.add("wal/bounded-by-the-index", "ok", "a commit that was written but not published never happened",
          base=base, max_frame=3, **result(3, 5, 0, "1:1 3:3"))
    v.add("wal/bounded-inside-a-commit", "ok", "the bound cuts a transaction: its frames are not committed", base=base,
          max_frame=4, **result(3, 5, 1, "1:1 3:3"))
    v.add("wal/stale-tail", "ok", "frames of the run before the last reset have other salts",
          {"wal": whole + wal([(2, 5, image[2], (0x01020303, 0x55555555))], 1024)[32:]}, **headers, **result(5, 5))
    last = "the WAL ends at the first frame that does not fit: commits after it are lost without a trace"
    cut("cut-at-a-commit", "the last two frames are missing", "ok", [f"truncate: wal to {32 + 3 * stride}"],
        (3, 5, 0, "1:1 3:3"), limit=last)
    cut("cut-inside-a-frame", "the last frame is incomplete", "ok", [f"truncate: wal to {32 + 5 * stride - 1}"],
        (3, 5, 1, "1:1 3:3"), limit=last)
    cut("cut-inside-a-frame-header", "half of a frame header remains", "ok", [f"truncate: wal to {32 + 3 * stride + 12}"],
        (3, 5, 0, "1:1 3:3"), limit=last)
    for name, offset, comment in [
        ("page-number", 0, "the page number of frame 3"), ("commit-size", 7, "the page count of frame 3"),
        ("salt-1", 8, "the first salt of frame 3"), ("salt-2", 15, "the second salt of frame 3"),
        ("checksum-1", 16, "the checksum of frame 3"), ("checksum-2", 23, "the checksum of frame 3"),
        ("page", 500, "the page of frame 3"),
    ]:
        cut(f"flip-frame-3-{name}", f"one bit of {comment} is flipped: frames 3 to 5 are ignored", "ok",
            [f"flip: wal {32 + 2 * stride + offset} bit 0"], (2, 5, 0, "1:1 3:2"), limit=last)
    cut("frames-swapped", "frames 3 and 4 are swapped", "ok",
        [f"swap: wal {32 + 2 * stride} with {32 + 3 * stride} length {stride}"], (2, 5, 0, "1:1 3:2"), limit=last)
    cut("frame-removed", "frame 2 is removed", "ok", [f"delete: wal {32 + stride} length {stride}"], (0, 0, 1, ""), limit=last)
    cut("appended-zeros", "a frame of zeros after the last commit", "ok", [f"zeros: wal {stride}"], (5, 5))
    v.add("wal/page-number-zero", "ok", "a frame for page 0 ends the WAL",
          {"wal": wal(frames + [(0, 5, image[2])], 1024)}, **headers, **result(5, 5))
    wal_headers(v, base, frames, headers, result)
    forged_frames(v, base, frames, image, newer, headers, result)


def wal_headers(v: Vectors, base: str, frames: list, headers: dict, result) -> None:
    for name, offset in [("magic", 3), ("version", 7), ("page-size", 10), ("salt-1", 19), ("salt-2", 23), ("checksum-1", 27),
                         ("checksum-2", 31), ("sequence", 15)]:
        v.add(f"wal/header-{name}-flipped", "walIgnored", "SQLite does not use a WAL whose header fails its checksum",
              base=base, edits=[f"flip: wal {offset} bit 4"],
              limit="a damaged WAL header loses all commits of the WAL without a trace")
    for name, more, comment in [
        ("magic-unknown", {"magic": 0x377F0684}, "an unknown magic, with a right checksum"),
        ("page-size-1000", {"page_field": 1000}, "a page size that is no power of two, with a right checksum"),
        ("page-size-256", {"page_field": 256}, "a page size that is too small, with a right checksum"),
        ("page-size-zero", {"page_field": 0}, "no page size, with a right checksum"),
    ]:
        v.add(f"wal/header-{name}", "walIgnored", comment, {"wal": wal(frames[:1], 1024, **more)}, **headers)
    v.add("wal/header-version-3007001", "logDamaged",
          "an unknown version, with a right checksum: SQLite does not open a database with it",
          {"wal": wal(frames[:1], 1024, version=3_007_001)}, **headers)


def forged_frames(v: Vectors, base: str, frames: list, image: dict, newer: dict, headers: dict, result) -> None:
    def forged(name: str, comment: str, expect: str, made: list, limit: str = None, images="1:1 3:3 4:4 5:5") -> None:
        v.add(f"wal/{name}", expect, comment, {"wal": wal(made, 1024)}, limit=limit, **headers, **result(5, 5, 0, images))

    flipped = bytes([newer[3][0] ^ 1]) + newer[3][1:]
    forged("page-flipped-checksums-recomputed", "a page is changed and every checksum computed again: anybody can",
           "frameDamaged 3", frames[:2] + [(3, 5, flipped)] + frames[3:])
    forged("page-of-another-number", "the image of page 4 in a frame for page 3, with right checksums", "frameDamaged 3",
           frames[:2] + [(3, 5, image[4])] + frames[3:])
    other = Pages("wal other", stream("other key", 32), SALT, CIPHER | {"page_bytes": 1024})
    forged("page-of-another-key", "a committed frame under another key, as an old connection writes after a rotation",
           "frameDamaged 5", frames[:4] + [(5, 5, other.encrypt(5, database(["x", "y", "z"], 1024)[4]))])
    other = Pages("wal salt", KEY, bytes(16), CIPHER | {"page_bytes": 1024})
    forged("page-of-another-salt", "a committed frame of a file with the same key and another salt", "frameDamaged 1",
           [(1, 0, other.encrypt(1, database(["x", "y", "z"], 1024)[0]))] + frames[1:])
    forged("page-of-zeros", "a committed frame whose page is zeros", "frameDamaged 4",
           frames[:3] + [(4, 0, bytes(1024))] + frames[4:])
    forged("older-image-replayed", "an older image of page 3 is committed again, with right checksums", "ok",
           frames[:2] + [(3, 5, image[3])] + frames[3:],
           limit="an older version of a page, with the same key, salt and number, is authentic")
    forged("superseded-frame-damaged", "a damaged frame that a later commit supersedes is reported too",
           "frameDamaged 2", [frames[0], (3, 5, flipped)] + frames[2:])
    v.add("wal/other-page-size", "logDamaged", "the WAL of a database with another page size",
          {"wal": wal([(1, 1, plain_page("other", 1, 512, 32, "sha512"))], 512)}, **headers)


def main() -> None:
    v = Vectors()
    for make in [derivation_vectors, encryption_vectors, page_vectors, header_vectors, wal_vectors, sidecar_vectors,
                 keyslot_vectors, recovery_vectors, pair_vectors, rotation_vectors, backup_vectors, keylog_vectors,
                 store_vectors, share_vectors]:
        make(v)
    v.write()
    print(f"{len(v.files)} vectors")


if __name__ == "__main__":
    main()
