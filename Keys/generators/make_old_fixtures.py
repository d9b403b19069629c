#!/usr/bin/env python3
"""Adds fixtures to Keys/fixtures/ that other builds of SQLCipher have made, and their entries to Keys/manifest.json:
SQLCipher 3.4.1 of Debian 12 (its packages sqlcipher and libsqlcipher0) and SQLCipher 4.12.0
of PyPI's sqlcipher3-wheels. Neither is installed: both are unpacked into a temporary folder.

SQLCipher draws new salts and initialization vectors at each run, so run this only to change the fixtures, after
make_fixtures.py. Usage: Keys/generators/make_old_fixtures.py (needs apt of Debian 12, pip and a network)
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import make_manifest
from make_fixtures import CONTENT, KEYS, entry, keyed

PACKAGES = ["sqlcipher=3.4.1-2+b1", "libsqlcipher0=3.4.1-2+b1"]
WHEEL = "sqlcipher3-wheels==0.5.7"
OLD, NEW = "3.4.1", "4.12.0"


def make_with_shell(folder: Path, work: Path) -> str:
    subprocess.run(["apt-get", "-qq", "download", *PACKAGES], cwd=work, check=True)
    for package in work.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, work / "root"], check=True)
    library = next(work.glob("root/usr/lib/*/libsqlcipher.so.0")).parent
    command = [work / "root/usr/bin/sqlcipher", "-batch", "-bail"]
    environment = os.environ | {"LD_LIBRARY_PATH": str(library)}

    def run(name: str, script: str) -> str:
        result = subprocess.run([*command, name], input=script, cwd=folder, env=environment, text=True,
                                capture_output=True, check=True)
        if result.stderr:
            raise SystemExit(result.stderr)
        return result.stdout.strip()

    run(f"sqlcipher-{OLD}.db", keyed(False) + CONTENT)
    return run(":memory:", "PRAGMA cipher_version;")


# Runs in a process of its own, with the module of the wheel.
SCRIPT = """
import json, sqlcipher3, sys
scripts = json.load(sys.stdin)
for name, (key, content) in scripts.items():
    db = sqlcipher3.connect(name)
    for statement in key:
        db.execute(statement)
    db.executescript(content)
    db.close()
print(sqlcipher3.connect(":memory:").execute("PRAGMA cipher_version").fetchone()[0])
"""


def make_with_wheel(folder: Path, work: Path) -> str:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:",
                    "--target", work / "python", WHEEL], check=True)

    def key(header: bool) -> list:
        return [statement for statement in keyed(header).split(";") if statement.strip()]

    scripts = {f"sqlcipher-{NEW}-standard.db": (key(False), CONTENT),
               f"sqlcipher-{NEW}-header32.db": (key(True), CONTENT)}
    result = subprocess.run([sys.executable, "-c", SCRIPT], input=json.dumps(scripts), cwd=folder, text=True,
                            env=os.environ | {"PYTHONPATH": str(work / "python")}, stdout=subprocess.PIPE, check=True)
    return result.stdout.strip()


def entries(folder: Path, versions: dict) -> list:
    made = [
        (OLD, entry(folder, f"sqlcipher-{OLD}.db", f"a file that SQLCipher {OLD} has made", "opaque", "sqlCipher3", 1024)),
        (NEW, entry(folder, f"sqlcipher-{NEW}-standard.db", f"a file that SQLCipher {NEW} has made", "opaque",
                    "sqlCipher4", 4096)),
        (NEW, entry(folder, f"sqlcipher-{NEW}-header32.db",
                    f"a file with 32 readable header bytes that SQLCipher {NEW} has made", "plaintextHeader",
                    "plaintextHeader", 4096, salt=True)),
    ]
    return [item | {"madeWith": "SQLCipher " + versions[version]} for version, item in made]


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        work, folder = Path(temporary), Path(temporary) / "files"
        folder.mkdir()
        versions = {OLD: make_with_shell(folder, work), NEW: make_with_wheel(folder, work)}
        for version, said in versions.items():
            if not said.startswith(version):
                raise SystemExit(f"not SQLCipher {version}, but {said}")
        for path in folder.iterdir():
            shutil.copyfile(path, KEYS / "fixtures" / path.name)
        manifest = json.loads((KEYS / "manifest.json").read_text())
        new = entries(folder, versions)
        names = {item["file"] for item in new}
        manifest["entries"] = [item for item in manifest["entries"] if item["file"] not in names] + new
        (KEYS / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    make_manifest.main()


if __name__ == "__main__":
    main()
