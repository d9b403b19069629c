#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets, made from Keys/, into one folder for each target.

Usage: make_corpora.py KEYS OUT
"""

import json
import pathlib
import re
import sys

keys, out = (pathlib.Path(path) for path in sys.argv[1:3])


def add(target: str, name: str, content: bytes) -> None:
    folder = out / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name.replace("/", "-").replace(" ", "-")).write_bytes(content)


def vectors(name: str) -> dict:
    return json.loads((keys / "vectors" / f"{name}.json").read_text())


def conformance_files(path: pathlib.Path):
    """The files in a conformance vector: a header, an empty line, then their bytes one after another."""
    content = path.read_bytes()
    end = content.index(b"\n\n")
    start = end + 2
    for line in content[:end].decode().split("\n"):
        if line.startswith("file: "):
            _, name, count = line.rsplit(" ", 2)
            yield name, content[start : start + int(count)]
            start += int(count)


TARGETS = {
    "sidecar": "sidecar", "store.db-sidecar": "sidecar", "keylog": "key-log", "keylog.1": "key-log",
    "manifest.json": "backup-manifest", "text": "recovery-key",
}

for path in sorted((keys / "conformance").glob("*/*.vector")):
    for name, content in conformance_files(path):
        if name in TARGETS:
            add(TARGETS[name], f"{path.parent.name}-{path.stem}", content)
        elif name in ("main", "database"):
            add("header", f"{path.parent.name}-{path.stem}", content[:512])

for store in sorted((keys / "stores").glob("*/*.db")):
    label = store.parent.name + "-" + store.stem
    add("sidecar", label, store.with_name(store.name + "-sidecar").read_bytes())
    add("key-log", label, store.with_name(store.name + "-keylog").read_bytes())
    add("header", label, store.read_bytes()[:512])
for fixture in sorted((keys / "fixtures").glob("*.db")):
    add("header", fixture.stem, fixture.read_bytes()[:512])
# Its pages are not encrypted: a tree as SQLite writes it.
add("tree", "plain", (keys / "fixtures" / "plain.db").read_bytes())

slots = vectors("slots")
for number, vector in enumerate(slots["vectors"] + slots["direct"]):
    add("sidecar", f"slots-{number}", vector["sidecar"].encode())
for number, vector in enumerate(slots["recovery"]):
    add("recovery-key", f"key-{number}", vector["text"].encode())



def examples(document: str):
    """The names and bytes of the examples of a document: lines of an offset and 16 bytes under a comment with the name."""
    text = (keys.parent / "Docs" / "Formats" / document).read_text()
    for name, block in re.findall(r"<!-- ([\w-]+) -->\n```\n(.*?)```", text, re.DOTALL):
        rows = re.findall(r"^ *\d+  ((?:[0-9a-f]{2} ?)+)$", block, re.MULTILINE)
        if rows:
            yield name, bytes.fromhex(" ".join(rows))


SYNC_EXAMPLES = {
    "Commit.md": "commit", "Segment.md": "segment", "Members.md": "member-record", "Snapshot.md": "snapshot",
}
for document, target in SYNC_EXAMPLES.items():
    for name, content in examples(document):
        # The first four bytes tell a sealed object.
        sealed = content[:4] == b"CSO2"
        add("object" if sealed else target, name, content[5:6] + content if sealed else content)
add("object-name", "segment", b"c/b35b38f8e5d0458c-1-1-6e2ce98b5ae55045-1-1-61bdf9c4193fdde95bbb0885ce318f7d")
add("invitation", "header", b"CSI2\x01\x01" + bytes(12 + 2) + bytes(range(16 + 16 + 12)) + bytes(64))
add("key-source", "raw", bytes(range(32)))
add("key-source", "passphrase", "sesame street\n".encode())
for number, url in enumerate(
    ["dir:/mnt/share", "postgresql://user@host:5432/name?sslmode=verify-full", "postgresql://a,b/c?host=%2Frun"]
):
    add("remote-address", str(number), url.encode())
# Two frames, one commit; and changes of single bytes.
add("log", "commit", bytes([0]) + bytes(range(8)) + bytes([1, 3, 1, 0, 65, 2, 1, 2, 66, 3, 0, 67]))
add("pages", "changed-bytes", bytes([0, 2, 0, 0, 100, 1, 1, 3, 4, 0, 0]))
