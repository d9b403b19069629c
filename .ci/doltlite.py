#!/usr/bin/env python3
"""Measures DoltLite with the work of `make bench-sync`: SQLite with Dolt's commits and merges, without encryption.

Usage: doltlite.py ROWS. Prints one JSON object: times in milliseconds, bytes of a commit, and the version. The package comes
from PyPI into .build/doltlite; exit code 3 says that it is not available here.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

VERSION = "0.51.3"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / ".build" / "doltlite"
INSERTION = "INSERT INTO t VALUES (%s)" % ", ".join("?" * 11)
UPDATE = "UPDATE t SET c1 = c1 + 1 WHERE id = ?"


def load():
    """The module sqlite3 with DoltLite in the place of SQLite, which must be loaded first."""
    if not (FOLDER / "doltlite").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += ["--root-user-action", "ignore", "--only-binary", ":all:", "--target", str(FOLDER)]
        if subprocess.run(pip + ["doltlite==" + VERSION], stdout=sys.stderr).returncode != 0:
            sys.exit(3)
    sys.path.insert(0, str(FOLDER))
    import doltlite  # noqa: F401

    import sqlite3

    return sqlite3


def row(number):
    return [number + 1 + offset for offset in range(11)]


def milliseconds(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


class Repository:
    def __init__(self, sqlite3, path, rows):
        self.path, self.rows = path, rows
        self.db = sqlite3.connect(path, isolation_level=None)
        # As a WAL of SQLite with this setting: no fsync for each commit, where the peer has such a thing.
        self.db.execute("PRAGMA synchronous = NORMAL")
        columns = ", ".join("c%d" % number for number in range(10))
        self.db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, %s)" % columns)
        self.transaction(INSERTION, (row(number) for number in range(rows)))
        self.commit()

    def call(self, function, *arguments):
        marks = ", ".join("?" * len(arguments))
        return self.db.execute("SELECT %s(%s)" % (function, marks), arguments).fetchone()

    def commit(self):
        self.call("dolt_commit", "-A", "-m", "rows")

    def transaction(self, sql, arguments):
        self.db.execute("BEGIN")
        self.db.executemany(sql, arguments)
        self.db.execute("COMMIT")

    def commits(self, count=51):
        """A row and its commit, and what the file grows by for each."""
        size = os.path.getsize(self.path)

        def one(number):
            self.db.execute(INSERTION, row(self.rows + number))
            self.commit()

        times = [milliseconds(lambda: one(number)) for number in range(count)]
        return statistics.median(times), (os.path.getsize(self.path) - size) / count

    def merges(self):
        """1,000 changed rows a side, of rows of its own."""
        times = []
        for run in range(7):
            branch = "side%d" % run
            self.call("dolt_branch", branch)
            for side, name in enumerate(["main", branch]):
                self.call("dolt_checkout", name)
                keys = [1 + (number * 997 + side + run * 2) % self.rows for number in range(1000)]
                self.transaction(UPDATE, ([key] for key in keys))
                self.commit()
            self.call("dolt_checkout", "main")
            times.append(milliseconds(lambda: self.call("dolt_merge", branch)))
        added = self.db.execute("SELECT sum(c1 - id - 2) FROM t").fetchone()[0]
        if added != 14_000:
            sys.exit("doltlite.py: the merges have %d changes instead of 14,000" % added)
        return statistics.median(times)


def main():
    sqlite3 = load()
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository(sqlite3, os.path.join(folder, "peer.db"), int(sys.argv[1]))
        commit, size = repository.commits()
        merge = repository.merges()
    print(json.dumps({"commit": commit, "commitBytes": size, "merge": merge, "version": VERSION}))


if __name__ == "__main__":
    main()
