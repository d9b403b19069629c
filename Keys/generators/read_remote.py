#!/usr/bin/env python3
"""Reads a whole remote of a repository without any code of CipherStore, and prints the rows of its newest state.

Written from Docs/Formats/Envelope.md, Changeset.md, Invitation.md and PostgreSQL.md alone, with Python and PyPI's
`cryptography`. It decrypts every object, verifies its identifier and that its header says what it contains, orders the commits,
and applies their deltas from parent to child. Each value that a delta says was there must be there, the deltas of a merge must
meet in one state, and the digests of each commit must be those of the rows. Where replicas announce a checkpoint, the rows of
its parts stand for the commits that it has replaced. Nothing is written.

Usage: read_remote.py FOLDER INVITATION --key-file F | --raw-key-file F
       read_remote.py FOLDER --secret-file F --repository HEX [--epoch N]

FOLDER is a directory remote, or a file that pg_dump has made of a PostgreSQL remote. --commit prints another state. A column that
was added with a default is in no delta of older rows: --default player.score=0, in JSON.

The exit code is 1 where something is refused, 3 where there are several newest states; then only their commits are printed.
"""

import argparse
import json
import re
import struct
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True

from read_changeset import DELETE, INSERT, UNDEFINED, Reader, Text, cell, read_commit, read_delta, write_commit, write_delta
from read_envelopes import CHUNK, COMMIT, Key, Refused
from read_invitation import read as read_invitation

MERGE, CHECKPOINT = 1, 2
NOBODY = bytes(16)
LATEST_CLOCK = 1 << 62


# Objects

class Folder:
    """A directory remote. Other names than those of the document are ignored, symbolic links too."""

    def __init__(self, folder: Path, repository: bytes):
        self.folder = folder / repository.hex()
        if (self.folder / "format").read_bytes() != b"cipherstore-remote 1\n":
            raise Refused("another version of the folder")

    @staticmethod
    def names(folder: Path, pattern: str) -> list:
        found = folder.iterdir() if folder.is_dir() else []
        return sorted(f.name for f in found if re.fullmatch(pattern, f.name) and not f.is_symlink())

    def objects(self) -> dict:
        shards = self.names(self.folder / "objects", "[0-9a-f]{2}")
        return {bytes.fromhex(name): (self.folder / "objects" / shard / name).read_bytes()
                for shard in shards for name in self.names(self.folder / "objects" / shard, shard + "[0-9a-f]{62}")}

    def logs(self) -> dict:
        logs = {}
        for author in self.names(self.folder / "log", "[0-9a-f]{32}"):
            folder = self.folder / "log" / author
            logs[author] = {int(n): (folder / n).read_bytes() for n in self.names(folder, "[1-9][0-9]*")}
            for number, entry in logs[author].items():
                if not re.fullmatch(b"[0-9a-f]{64}\n", entry):
                    raise Refused(f"entry {number} of {author} is damaged")
                logs[author][number] = bytes.fromhex(entry.decode())
        return logs

    def acknowledgements(self) -> dict:
        return {bytes.fromhex(author): (self.folder / "ack" / author).read_bytes()
                for author in self.names(self.folder / "ack", "[0-9a-f]{32}")}


class Dump:
    """What pg_dump has written of the tables of a PostgreSQL remote."""

    def __init__(self, file: Path, repository: bytes):
        self.repository, table = repository, None
        self.rows = {"repository": [], "object": [], "log": [], "acknowledgement": []}
        for line in file.read_text().splitlines():
            if begins := re.match(r"COPY cipherstore\.(\w+) \((.*)\) FROM stdin;", line):
                table, columns = begins[1], begins[2].split(", ")
            elif line == "\\.":
                table = None
            elif table in self.rows:
                row = dict(zip(columns, line.split("\t")))
                self.rows[table].append({name: bytes.fromhex(value[3:]) if value.startswith("\\\\x") else int(value)
                                         for name, value in row.items()})
        if [row["layout"] for row in self.own("repository")] != [1]:
            raise Refused("another version of the tables, or none of this repository")

    def own(self, table: str) -> list:
        return [row for row in self.rows[table] if row["repo"] == self.repository]

    def objects(self) -> dict:
        return {row["id"]: row["body"] for row in self.own("object")}

    def logs(self) -> dict:
        logs = {}
        for row in self.own("log"):
            logs.setdefault(row["author"].hex(), {})[row["push_seq"]] = row["id"]
        return logs

    def acknowledgements(self) -> dict:
        return {row["author"]: row["body"] for row in self.own("acknowledgement") if len(row["author"]) == 16}


# Checkpoints

class Checkpoint:
    """The checkpoint that the acknowledgements announce, read from its manifest and its parts."""

    def __init__(self, key: Key, announced: dict, objects: dict):
        self.key, self.id, self.replaced, self.objects = key, announced["manifest"], announced["replaced"], {announced["manifest"]}
        reader = Reader(self.read(self.id, b"CSCM", objects))
        self.commit = reader.take(32)
        anchor = reader.take(reader.number(">I"))
        self.anchor = read_commit(anchor)
        authors = [(reader.take(16), reader.number(">Q")) for _ in range(reader.number(">I"))]
        self.authors, self.row_count = dict(authors), reader.number(">Q")
        self.parts = [reader.take(32) for _ in range(reader.number(">I"))]
        if self.anchor["kind"] != CHECKPOINT or self.anchor["parents"] or self.anchor["deltas"] != [write_delta([])] \
                or write_commit(self.anchor) != anchor or reader.at != len(reader.data) or authors != sorted(self.authors.items()):
            raise Refused("the manifest of the checkpoint is not the canonical form")
        if (self.commit, self.anchor["generation"]) != (announced["commit"], announced["generation"]):
            raise Refused("the checkpoint is of another commit than announced")
        self.anchor["pseudonym"] = NOBODY if self.anchor["author"] == NOBODY else key.pseudonym(self.anchor["author"])
        self.rows = [self.part(number, part, objects) for number, part in enumerate(self.parts)]

    def read(self, identifier: bytes, magic: bytes, objects: dict) -> bytes:
        """The content of an object after magic and version."""
        self.objects.add(identifier)
        try:
            header, canonical = checkpoint_content(self.key, identifier, objects)
        except Refused as reason:
            raise Refused(f"object {identifier.hex()}: {reason}") from None
        if not header or canonical[:5] != magic + b"\x01":
            raise Refused(f"object {identifier.hex()} is another one than the checkpoint needs")
        return canonical[5:]

    def part(self, number: int, identifier: bytes, objects: dict) -> bytes:
        reader = Reader(self.read(identifier, b"CSCP", objects))
        if (reader.take(32), reader.number(">I")) != (self.commit, number):
            raise Refused(f"object {identifier.hex()} is another part than the checkpoint needs")
        delta = reader.data[reader.at:]
        if any(change[0] != INSERT for _, _, _, changes in read_delta(delta) for change in changes) \
                or write_delta(read_delta(delta)) != delta:
            raise Refused(f"object {identifier.hex()} has something else than rows")
        return delta

    def state(self, defaults: dict) -> dict:
        """The rows of the commit. Every table that has some has a digest."""
        state = {}
        for rows in self.rows:
            applied(state, rows, self.key, self.anchor["schema"], defaults)
        digests = {name: table.digest for name, table in state.items()}
        if dict(self.anchor["digests"]) != digests or sum(len(t.rows) for t in state.values()) != self.row_count:
            raise Refused("the checkpoint has other rows than its manifest says")
        verify_digests(state, self.anchor)
        return state


def checkpoint_content(key: Key, identifier: bytes, objects: dict) -> tuple:
    """Whether the header is one of a checkpoint's objects, and the content."""
    if identifier not in objects:
        raise Refused("it is missing")
    parents, author, generation, canonical = key.content(identifier, lambda name: objects.get(name, b""))
    return (parents, author, generation) == ([], NOBODY, 0), canonical


def read_announcement(reader: Reader):
    if not reader.take(1)[0]:
        return None
    found = {"manifest": reader.take(32), "commit": reader.take(32), "generation": reader.number(">Q")}
    cursor = Reader(reader.take(reader.number(">I")))
    if cursor.take(1) != b"\x01":
        raise ValueError("another version of a cursor")
    found["replaced"] = {cursor.take(16).hex(): cursor.number(">Q") for _ in range((len(cursor.data) - 1) // 24)}
    return found


def read_acknowledgement(key: Key, author: bytes, data: bytes) -> dict:
    """The acknowledgement in the place of an author; None for what is not authentic, or another author's."""
    try:
        kind, parents, pseudonym, generation, canonical = key.open(data, data[32:64])
        if (kind, parents, pseudonym, generation) != (COMMIT, [], author, 0) or key.commit_id(canonical) != data[32:64]:
            return None
        reader = Reader(canonical)
        if reader.take(5) != b"CSAK\x01" or key.pseudonym(canonical[5:21]) != author:
            return None
        found = {"author": reader.take(16), "number": reader.number(">Q"), "pusher": reader.take(16),
                 "pushed": reader.number(">Q"), "time": reader.number(">Q")}
        found["head"] = reader.take(32) if reader.take(1)[0] else None
        found["retired"] = [reader.take(16) for _ in range(reader.number(">I"))]
        found["checkpoint"], found["prepared"] = read_announcement(reader), read_announcement(reader)
        return found if reader.at == len(canonical) else None
    except (Refused, ValueError, IndexError, struct.error):
        return None


def announced_checkpoint(acknowledgements: list):
    """The one with the greatest generation, then manifest; with the greatest entry of each log that is named with it."""
    all_of_them = [a["checkpoint"] for a in acknowledgements if a["checkpoint"]]
    if not all_of_them:
        return None
    best = max(all_of_them, key=lambda c: (c["generation"], c["manifest"]))
    replaced = {}
    for other in all_of_them:
        if other["manifest"] == best["manifest"]:
            for log, sequence in other["replaced"].items():
                replaced[log] = max(sequence, replaced.get(log, 0))
    return best | {"replaced": replaced}


# Commits

def listed_objects(logs: dict, replaced: dict) -> set:
    """What the logs name after the entries that a checkpoint has replaced. The last of these stays, without its object."""
    listed = set()
    for author in logs.keys() | replaced.keys():
        entries, last = logs.get(author, {}), replaced.get(author, 0)
        if last and last not in entries:
            raise Refused(f"entry {last} of {author} is gone, which a checkpoint leaves")
        after = sorted(number for number in entries if number > last)
        if after != list(range(last + 1, last + 1 + len(after))):
            raise Refused(f"the log of {author} has a gap")
        listed |= {entries[number] for number in after}
    return listed


def read_objects(key: Key, objects: dict, logs: dict, checkpoint) -> tuple:
    """The commits that the logs name, by identifier, and the identifiers of all others. Each object is verified."""
    listed = listed_objects(logs, checkpoint.replaced if checkpoint else {})
    if missing := listed - objects.keys():
        raise Refused(f"object {min(missing).hex()} is missing")
    commits, others = {}, set()
    for identifier, data in objects.items():
        try:
            kind, parents, author, generation, body = key.open(data, identifier)
            if kind == CHUNK:
                if author != NOBODY or len(parents) != 1 or key.chunk_id(parents[0], generation, body) != identifier:
                    raise Refused("the identifier is wrong")
                continue
            parents, author, generation, canonical = key.content(identifier, lambda name: objects.get(name, b""))
            if canonical[:4] in (b"CSCM", b"CSCP"):
                others.add(identifier)
                continue
            commit = read_commit(canonical)
            pseudonym = NOBODY if commit["author"] == NOBODY else key.pseudonym(commit["author"])
            if (parents, author, generation) != (commit["parents"], pseudonym, commit["generation"]):
                raise Refused("the header does not say what the commit contains")
            if commit["kind"] == CHECKPOINT:
                raise Refused("the commit of a checkpoint is not in its manifest")
            if write_commit(commit) != canonical or any(write_delta(read_delta(d)) != d for d in commit["deltas"]):
                raise Refused("not the canonical form")
            commits[identifier] = commit | {"pseudonym": author}
        except (Refused, ValueError, IndexError) as reason:
            raise Refused(f"object {identifier.hex()}: {reason}") from None
    if others & listed:
        raise Refused(f"object {min(others & listed).hex()} of a checkpoint is in a log")
    unused = others - (checkpoint.objects if checkpoint else set())
    unlisted = sorted(i.hex() for i in (commits.keys() - listed) | unused)
    return {i: commit for i, commit in commits.items() if i in listed}, unlisted


def build_on(commits: dict, checkpoint) -> list:
    """Removes the commits that do not build on the checkpoint, which nobody uses, and adds that which it stands for."""
    superseded = []
    floor = checkpoint.anchor["generation"]
    commits.pop(checkpoint.commit, None)
    for identifier in sorted(commits, key=lambda i: (commits[i]["generation"], i)):
        commit = commits[identifier]
        missing = [p for p in commit["parents"] if p != checkpoint.commit and p not in commits]
        is_old = commit["generation"] <= floor or not commit["parents"] or any(p.hex() in superseded for p in missing)
        if is_old or missing and commit["kind"] == MERGE:
            superseded.append(identifier.hex())
            del commits[identifier]
    commits[checkpoint.commit] = checkpoint.anchor
    return superseded


# The graph

def ordered(commits: dict) -> list:
    """The identifiers by generation, so parents come before children."""
    for identifier, commit in commits.items():
        name = f"commit {identifier.hex()}"
        if missing := [p.hex() for p in commit["parents"] if p not in commits]:
            raise Refused(f"{name} has no parent {missing[0]}")
        parents = [commits[p] for p in commit["parents"]]
        latest = max([p["time"] for p in parents], default=None)
        if commit["kind"] == CHECKPOINT:
            continue
        if commit["generation"] != 1 + max([p["generation"] for p in parents], default=0):
            raise Refused(f"{name} has the wrong generation")
        follows = commit["time"] <= LATEST_CLOCK or latest is not None and commit["time"] == latest + 1
        if commit["time"] != latest if commit["kind"] == MERGE else not (commit["time"] > (latest or -1) and follows):
            raise Refused(f"{name} has a time that does not follow those of its parents")
    return sorted(commits, key=lambda i: (commits[i]["generation"], i))


def ordinary_under(commits: dict, leaf: bytes) -> set:
    """The ordinary commits under one, itself included."""
    found, open_ones = {leaf}, [leaf]
    while open_ones:
        new = set(commits[open_ones.pop()]["parents"]) - found
        found |= new
        open_ones += new
    return {i for i in found if commits[i]["kind"] != MERGE}


def heads(commits: dict, order: list) -> list:
    """The leaves that no other leaf covers."""
    inner = {p for commit in commits.values() for p in commit["parents"]}
    leaves = [identifier for identifier in order if identifier not in inner]
    under = {leaf: ordinary_under(commits, leaf) for leaf in leaves}

    def covers(one: bytes, other: bytes) -> bool:
        if under[one] == under[other]:
            return leaves.index(one) < leaves.index(other)
        return under[other] < under[one]

    return [leaf for leaf in leaves if not any(covers(other, leaf) for other in leaves)]


def gaps(commits: dict, checkpoint) -> list:
    """Numbers that an author must have given to commits that are not here, and for which no checkpoint stands."""
    numbers, first = {}, {}
    if checkpoint:
        first = {checkpoint.key.pseudonym(author).hex(): number + 1 for author, number in checkpoint.authors.items()}
    for commit in commits.values():
        if commit["kind"] not in (MERGE, CHECKPOINT):
            numbers.setdefault(commit["pseudonym"].hex(), set()).add(commit["authorSequence"])
    return [{"author": author, "number": n} for author, known in sorted(numbers.items())
            for n in sorted(set(range(first.get(author, 1), max(known))) - known)]


# Rows

class Table:
    """The rows of a table by the cells of their keys, each a list of encoded cells, and the sum that is their digest."""

    def __init__(self, key: Key, columns: list, ordinals: tuple, defaults: dict):
        self.key, self.columns, self.ordinals, self.defaults = key, columns, ordinals, defaults
        self.rows, self.sum, self.schema, self.is_verified = {}, 0, None, False

    def copy(self):
        other = Table(self.key, self.columns, self.ordinals, self.defaults)
        other.__dict__.update(self.__dict__, rows=dict(self.rows))
        return other

    def row_key(self, row: list) -> bytes:
        return b"".join(c for c, ordinal in zip(row, self.ordinals) if ordinal)

    def take(self, row: list) -> None:
        if self.rows.pop(self.row_key(row), None) != row:
            raise Refused("a row is not what the delta says it was")
        self.sum -= self.key.row_number(b"".join(row))

    def put(self, row: list) -> None:
        if self.rows.setdefault(self.row_key(row), row) is not row:
            raise Refused("a row that is inserted is there already")
        self.sum += self.key.row_number(b"".join(row))

    @property
    def digest(self) -> bytes:
        return (self.sum % (1 << 128)).to_bytes(16, "big")

    def laid_out(self, row: list, source: list, missing=None) -> list:
        """A row of other columns, with defaults for those that it does not have."""
        cells = dict(zip(map(str.lower, source), row))
        return [cells.get(name.lower(), missing or self.defaults.get(name.lower(), cell(None))) for name in self.columns]

    def extend(self, columns: list, ordinals: tuple) -> None:
        """Takes the columns of a delta where it has more of them."""
        if {c.lower() for c in columns} > {c.lower() for c in self.columns}:
            old, former = self.columns, list(self.rows.values())
            self.columns, self.ordinals, self.rows, self.sum = columns, ordinals, {}, 0
            for row in former:
                self.put(self.laid_out(row, old))
        elif not {c.lower() for c in columns} <= {c.lower() for c in self.columns}:
            raise Refused("a table lost columns")

    def apply(self, columns: list, changes: list) -> None:
        for operation, _, old, new in changes:
            missing = cell(UNDEFINED) if operation not in (DELETE, INSERT) else None
            old, new = ([cell(v) for v in r] if r else None for r in (old, new))
            old, new = (self.laid_out(r, columns, missing) if r else None for r in (old, new))
            if operation == INSERT:
                self.put(new)
            elif operation == DELETE:
                self.take(old)
            else:
                row = self.rows.get(self.row_key(old))
                if row is None or any(o not in (cell(UNDEFINED), r) for o, r in zip(old, row)):
                    raise Refused("a row is not what the delta says it was")
                self.take(row)
                self.put([r if n == cell(UNDEFINED) else n for r, n in zip(row, new)])


def applied(state: dict, delta: bytes, key: Key, schema: bytes, defaults: dict) -> dict:
    for name, columns, ordinals, changes in read_delta(delta):
        if name not in state:
            state[name] = Table(key, columns, ordinals, defaults.get(name.lower(), {}))
        state[name].extend(columns, ordinals)
        state[name].schema = schema
        state[name].apply(columns, changes)
    return state


def verify_digests(state: dict, commit: dict) -> None:
    """Digests before the first delta with the columns of a new schema are of rows that nobody can know from here."""
    for name, digest in commit["digests"]:
        if name not in state:
            if digest != bytes(16):
                raise Refused(f"{name} has a digest and no rows")
            continue
        table = state[name]
        table.is_verified = table.digest == digest
        if table.is_verified:
            table.schema = commit["schema"]
        elif table.schema == commit["schema"]:
            raise Refused(f"the digest of {name} is wrong")


def verify_equal(one: dict, other: dict) -> None:
    """Both deltas of a merge lead to its state. Where one side has not named a new column yet, its rows are shorter."""
    for name in one.keys() | other.keys():
        tables = [state[name] for state in (one, other) if name in state]
        if len({tuple(table.columns) for table in tables}) == 1 and any(t.rows != tables[0].rows for t in tables) \
                or len(tables) == 1 and tables[0].rows:
            raise Refused("the deltas of the merge do not meet in one state")


def replay(commits: dict, order: list, key: Key, wanted: list, defaults: dict, checkpoint) -> dict:
    """The states of some commits. Others are kept for as long as they have children to come."""
    uses, states = Counter(p for commit in commits.values() for p in commit["parents"]) + Counter(wanted), {}

    def state(identifier: bytes) -> dict:
        uses[identifier] -= 1
        if not uses[identifier]:
            return states.pop(identifier)
        return {name: table.copy() for name, table in states[identifier].items()}

    for identifier in order:
        commit = commits[identifier]
        try:
            if commit["kind"] == CHECKPOINT:
                states[identifier] = checkpoint.state(defaults)
                continue
            found = [applied(before, delta, key, commit["schema"], defaults) for before, delta in
                     zip([state(p) for p in commit["parents"]] or [{}], commit["deltas"])]
            for result in found:
                verify_digests(result, commit)
            for one, other in zip(found, found[1:]):
                verify_equal(one, other)
        except Refused as reason:
            raise Refused(f"commit {identifier.hex()}: {reason}") from None
        states[identifier] = found[0]
    return {i: states[i] for i in wanted}


# The report

def printable(encoded: bytes):
    value = Reader(encoded).value()
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return {"real": str(value)}
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode() if isinstance(value, Text) else {"blob": value.hex().upper()}
    except UnicodeDecodeError:
        return {"text": value.hex().upper()}


def printable_table(table: Table) -> dict:
    total = sum(table.key.row_number(b"".join(row)) for row in table.rows.values())
    if total % (1 << 128) != table.sum % (1 << 128):
        raise Refused("the sum is wrong")
    return {"columns": table.columns, "digest": table.digest.hex(), "verified": table.is_verified,
            "rows": [[printable(c) for c in table.rows[k]] for k in sorted(table.rows)]}


def report(remote, key: Key, commit: bytes, defaults: dict) -> dict:
    objects, logs = remote.objects(), remote.logs()
    read = [read_acknowledgement(key, author, data) for author, data in sorted(remote.acknowledgements().items())]
    acknowledgements = [a for a in read if a]
    announced = announced_checkpoint(acknowledgements)
    checkpoint = Checkpoint(key, announced, objects) if announced else None
    commits, unlisted = read_objects(key, objects, logs, checkpoint)
    superseded = build_on(commits, checkpoint) if checkpoint else []
    order = ordered(commits)
    found = [commit] if commit else heads(commits, order)
    if commit and commit not in commits:
        raise Refused("there is no such commit")
    states = replay(commits, order, key, found, defaults, checkpoint)
    result = {
        "repository": key.repository.hex(), "epoch": key.epoch, "objects": len(objects), "unlisted": unlisted,
        "gaps": gaps(commits, checkpoint), "heads": [i.hex() for i in found], "superseded": superseded,
        "replicas": [{"replica": a["author"].hex(), "commit": a["head"] and a["head"].hex(), "time": a["time"]}
                     for a in acknowledgements],
        "checkpoint": checkpoint and {"commit": checkpoint.commit.hex(), "manifest": checkpoint.id.hex(),
                                      "parts": len(checkpoint.parts), "rows": checkpoint.row_count},
        "commits": [{"id": i.hex(), "parents": [p.hex() for p in commits[i]["parents"]],
                     "generation": commits[i]["generation"], "author": commits[i]["pseudonym"].hex(),
                     "time": commits[i]["time"] >> 16, "meta": commits[i]["meta"]} for i in order]}
    if len(found) == 1:
        result["tables"] = {name: printable_table(t) for name, t in sorted(states[found[0]].items())}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("remote", type=Path)
    parser.add_argument("invitation", type=Path, nargs="?")
    parser.add_argument("--key-file", type=Path, help="the passphrase of the invitation")
    parser.add_argument("--raw-key-file", type=Path, help="the raw key of the invitation")
    parser.add_argument("--secret-file", type=Path, help="the 32 bytes of the repository's secret")
    parser.add_argument("--repository", type=bytes.fromhex)
    parser.add_argument("--epoch", type=int, default=1)
    parser.add_argument("--commit", type=bytes.fromhex)
    parser.add_argument("--default", action="append", default=[], metavar="TABLE.COLUMN=JSON")
    given = parser.parse_args()
    if given.invitation and (given.key_file or given.raw_key_file):
        secret = (given.raw_key_file or given.key_file).read_bytes()
        if given.key_file:
            secret = secret.removesuffix(b"\n").removesuffix(b"\r")
        opened = read_invitation(given.invitation.read_bytes(), secret)
        key = Key(bytes.fromhex(opened["repository"]), bytes.fromhex(opened["secret"]), opened["epoch"])
    elif given.secret_file and given.repository:
        key = Key(given.repository, given.secret_file.read_bytes(), given.epoch)
    else:
        parser.error("an invitation with its key is needed, or --secret-file and --repository")
    defaults = {}
    for text in given.default:
        table, column, value = re.fullmatch(r"(.+)\.(.+?)=(.*)", text).groups()
        defaults.setdefault(table.lower(), {})[column.lower()] = cell(json.loads(value))
    try:
        remote = (Folder if given.remote.is_dir() else Dump)(given.remote, key.repository)
        result = report(remote, key, given.commit, defaults)
    except Refused as reason:
        sys.exit(f"refused: {reason}")
    print(json.dumps(result, ensure_ascii=False))
    sys.exit(0 if "tables" in result or not result["heads"] else 3)


if __name__ == "__main__":
    main()
