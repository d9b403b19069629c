#!/usr/bin/env python3
"""Writes the list of files of Keys/manifest.json: each file with its SHA-256, its producer and what a reader must find.

What make_fixtures.py writes there stays as it is. Run it after every generator.
Usage: Keys/generators/make_manifest.py
"""

import hashlib
import json
from pathlib import Path

KEYS = Path(__file__).resolve().parent.parent
PRODUCERS = {"gcm.json": "make_slots.py", "scrypt.json": "make_slots.py", "argon2id.json": "make_slots.py",
             "slots.json": "make_slots.py", "shares.json": "make_shares.py", "tpm2.json": "make_tpm2.py",
             "tpm2-pcr-signature.json": "make_tpm2.py"}
# These describe the others, or make them.
UNLISTED = ["manifest.json", "README.md", "generators"]


def expectation(path: Path, described: dict) -> str:
    name = path.relative_to(KEYS).as_posix()
    if path.suffix == ".vector":
        head = path.read_bytes().partition(b"\n\n")[0].decode()
        return next(line.removeprefix("expect: ") for line in head.split("\n") if line.startswith("expect: "))
    if name.startswith("stores/"):
        return "opens with every commit, is whole, and its key can be rotated"
    expected = described.get(name) or described[name.removesuffix("-wal")]
    return expected if isinstance(expected, str) else expected["verdict"]


def producer(path: Path) -> str:
    folder = path.relative_to(KEYS).parts[0]
    if folder == "fixtures" and path.name.startswith("sqlcipher-"):
        return "make_old_fixtures.py"
    if folder == "vectors":
        return PRODUCERS.get(path.name, "make_vectors.py")
    return {"conformance": "make_conformance.py", "fixtures": "make_fixtures.py", "stores": "make_stores"}[folder]


def main() -> None:
    manifest = json.loads((KEYS / "manifest.json").read_text())
    described = {entry["file"]: entry["expected"] for entry in manifest["entries"]}
    manifest.pop("files", None)
    files = []
    for path in sorted(path for path in KEYS.rglob("*") if path.is_file()):
        name = path.relative_to(KEYS)
        if name.parts[0] in UNLISTED:
            continue
        files.append({"file": name.as_posix(), "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                      "producer": producer(path), "expectation": expectation(path, described)})
    head = json.dumps(manifest, indent=1, ensure_ascii=False).removesuffix("\n}")
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in files)
    (KEYS / "manifest.json").write_text(f'{head},\n "files": [\n  {rows}\n ]\n}}\n')
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
