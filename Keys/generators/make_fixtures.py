#!/usr/bin/env python3
"""Writes Keys/fixtures/ with the `sqlcipher` shell of the system, and Keys/manifest.json about fixtures and vectors.

Vectors of pages and keys that SQLCipher draws differ at every run, so run this only to change the fixtures.
Usage: Keys/generators/make_fixtures.py (after make_vectors.py and make_slots.py; needs SQLCipher 4's shell)
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import make_manifest

KEYS = Path(__file__).resolve().parent.parent
PASSPHRASE = "test only: sesame street"
SALT = bytes(range(0x10, 0x20))
ROWS = [(1, "one"), (2, "two"), (3, "Ω and ß"), (4, "x" * 300)]
CONTENT = "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT);" + "".join(
    f"INSERT INTO note VALUES({i},'{text}');" for i, text in ROWS)


def run(folder: Path, name: str, script: str) -> None:
    result = subprocess.run(
        ["sqlcipher", "-batch", "-bail", name], input=script, cwd=folder, text=True, capture_output=True)
    if result.returncode != 0 or "rror" in result.stdout + result.stderr:
        raise SystemExit(f"sqlcipher failed for {name}: {result.stdout}{result.stderr}")


def version(folder: Path) -> str:
    output = subprocess.run(
        ["sqlcipher", "-batch", ":memory:", "PRAGMA cipher_version;"], text=True, capture_output=True).stdout
    return output.strip()


def keyed(header: bool, compatibility: int = 4) -> str:
    script = f"PRAGMA key='{PASSPHRASE}';"
    if compatibility != 4:
        script += f"PRAGMA cipher_compatibility={compatibility};"
    if header:
        script += f"PRAGMA cipher_plaintext_header_size=32; PRAGMA cipher_salt=\"x'{SALT.hex()}'\";"
    return script


def data_key(salt: bytes, rounds: int, kdf_hash: str) -> str:
    return hashlib.pbkdf2_hmac(kdf_hash, PASSPHRASE.encode(), salt, rounds, 32).hex()


def make_fixtures(folder: Path) -> None:
    run(folder, "v4-header32.db", keyed(True) + CONTENT)
    run(folder, "v4-standard.db", keyed(False) + CONTENT)
    run(folder, "v3-standard.db", keyed(False, 3) + CONTENT)
    run(folder, "plain.db", CONTENT)
    # The copy is taken while the writer is open, so its log holds commits that the main file lacks.
    run(folder, "live.db", keyed(True) + "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
        "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT); PRAGMA wal_checkpoint(PASSIVE);" + CONTENT.split(";", 1)[1]
        + "\n.shell cp live.db v4-header32-wal.db\n.shell cp live.db-wal v4-header32-wal.db-wal\n")


def entry(folder: Path, name: str, what: str, verdict: str, settings: str, page_bytes: int, **more) -> dict:
    content = (folder / name).read_bytes()
    result = {
        "kind": "fixture", "file": f"fixtures/{name}", "what": what, "sha256": hashlib.sha256(content).hexdigest(),
        "settings": settings, "pageBytes": page_bytes,
    }
    if settings != "none":
        salt = SALT if "salt" in more else content[:16]
        kdf = (64_000, "sha1") if settings == "sqlCipher3" else (256_000, "sha512")
        result |= {"passphrase": PASSPHRASE, "salt": salt.hex(), "dataKey": data_key(salt, *kdf)}
    expected = {"verdict": verdict, "pages": len(content) // page_bytes, "committedFrames": more.get("frames", 0)}
    expected["rows"] = [{"id": i, "text": text} for i, text in ROWS]
    return result | {"expected": expected}


def fixtures(folder: Path) -> list:
    wal = (folder / "v4-header32-wal.db-wal").read_bytes()
    return [
        entry(folder, "v4-header32.db", "SQLCipher 4, 32 readable header bytes, salt kept elsewhere",
              "plaintextHeader", "plaintextHeader", 4096, salt=True),
        entry(folder, "v4-standard.db", "SQLCipher 4's defaults, salt in the first 16 bytes", "opaque",
              "sqlCipher4", 4096),
        entry(folder, "v3-standard.db", "SQLCipher 3's format", "opaque", "sqlCipher3", 1024),
        entry(folder, "plain.db", "SQLite without encryption", "plainSQLite", "none", 4096),
        entry(folder, "v4-header32-wal.db", "SQLCipher 4, header 32, with commits that are only in the -wal beside it",
              "plaintextHeader", "plaintextHeader", 4096, salt=True, frames=(len(wal) - 32) // (24 + 4096)),
    ]


def vectors() -> list:
    what = {
        "kdf.json": "passphrase or raw key -> data key and MAC key",
        "hkdf.json": "HKDF-SHA256 by label",
        "hmac.json": "HMAC with SHA-1, SHA-256 and SHA-512",
        "cipher.json": "AES-256-CBC without padding",
        "pages.json": "whole pages of every size, both header forms and all three hashes",
        "gcm.json": "AES-256-GCM",
        "scrypt.json": "scrypt",
        "argon2id.json": "Argon2id, where the library has it",
        "slots.json": "sidecars with key slots, their keys and a page of each; recovery keys as text",
        "shares.json": "shares of recovery keys as text, with their coefficients",
        "tpm2.json": "sealed secrets of TPMs, their policies, keys that sign PCRs, and files of signatures",
        "tpm2-pcr-signature.json": "signatures of PCR 11 by systemd-measure 252",
        "ed25519.json": "Ed25519 of RFC 8032",
        "x25519.json": "X25519 of RFC 7748",
    }
    return [
        {"kind": "vector", "file": f"vectors/{name}", "what": text, "expected": "every value is reproduced"}
        for name, text in what.items()
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        make_fixtures(work)
        target = KEYS / "fixtures"
        target.mkdir(exist_ok=True)
        kept = sorted(path for path in work.iterdir() if not path.name.startswith("live"))
        for path in kept:
            shutil.copyfile(path, target / path.name)
        manifest = {"format": 1, "madeWith": "SQLCipher " + version(work), "entries": vectors() + fixtures(work)}
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (KEYS / "manifest.json").write_text(text)
    make_manifest.main()
