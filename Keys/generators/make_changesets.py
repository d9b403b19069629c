#!/usr/bin/env python3
"""Writes Keys/vectors/changesets.json: changesets that the session extension of SQLite made, their inverses and
compositions by the extension, and the rows before and after; deltas and commits in canonical form by read_changeset.py;
and the examples of Docs/Formats/Changeset.md.

The output is the same at every run, but for the order in which the extension writes rows.
Usage: pip install apsw && Keys/generators/make_changesets.py
"""

import hashlib
import hmac
import io
import random
import re
from pathlib import Path

import apsw

from make_vectors import stream, write
from read_changeset import (UNDEFINED, Text, read_commit, read_delta, read_session, record, write_commit, write_delta,
                            write_session)

DOCUMENT = Path(__file__).resolve().parents[2] / "Docs/Formats/Changeset.md"

SCHEMA = '''
create table player(id integer primary key, name text, score integer);
create table Pair(a text, "b ""quoted""" , c real, d blob, primary key(c, a));
create table "Größe"(x, y, z, primary key(x, z)) without rowid;
create table apart(v blob, k1 text not null, w text, k2 integer not null, primary key(k2, k1));
'''
TABLES = {"player": ["id", "name", "score"], "Pair": ["a", 'b "quoted"', "c", "d"], "Größe": ["x", "y", "z"],
          "apart": ["v", "k1", "w", "k2"]}
EXTREMES = [None, 0, 1, -1, 127, 128, 2 ** 63 - 1, -2 ** 63, 0.5, -2.75, 1e308, 5e-324, float("inf"), "", "a", "Ω and ß",
            "with\0zero", "e\u0301", b"", b"\0", bytes(range(256))]


def rows(db, table):
    """The rows of a table as encoded records. SQLite gives a text as bytes when it is cast to a blob."""
    names = ['"' + name.replace('"', '""') + '"' for name in TABLES[table]]
    parts = ", ".join(f"typeof({n}), iif(typeof({n}) = 'text', cast({n} as blob), {n})" for n in names)
    found = []
    for row in db.execute(f'select {parts} from "{table}"'):
        values = [Text(value) if kind == "text" else value for kind, value in zip(row[::2], row[1::2])]
        found.append(record(values))
    return sorted(found)


def state(db):
    return {name: [row.hex() for row in rows(db, name)] for name in TABLES}


def value(rng):
    if rng.random() < 0.5:
        return rng.choice(EXTREMES)
    return rng.choice([rng.randrange(-9, 10), rng.random(), "text " * rng.randrange(3), bytes(rng.randrange(4))])


def edit(db, rng, count):
    for _ in range(count):
        key, other = rng.randrange(5), rng.choice("xyz")
        statement, values = rng.choice([
            ("insert or ignore into player values(?, ?, ?)", (key, value(rng), value(rng))),
            ("replace into player values(?, ?, ?)", (key - 2, other, value(rng))),
            ("update player set name = cast(? as text) where id = ?", (rng.choice([b"\xff\xfe", b"ok"]), key)),
            ("update player set score = ?, name = ? where id = ?", (value(rng), value(rng), key)),
            ("update or ignore player set id = ? where id = ?", (rng.randrange(5), key)),
            ("delete from player where id = ?", (key,)),
            ('insert or replace into Pair values(?, ?, ?, ?)', (other, value(rng), key / 2, value(rng))),
            ('update Pair set d = ? where a = ?', (value(rng), other)),
            ("delete from Pair where c = ?", (key / 2,)),
            ('insert or replace into "Größe" values(?, ?, ?)', (key, value(rng), rng.choice([other, float(key)]))),
            ('update or ignore "Größe" set z = ? where x = ?', (rng.choice([1, 1.5, "1"]), key)),
            ('update "Größe" set y = ? where x = ?', (value(rng), key)),
            ("insert or replace into apart values(?, ?, ?, ?)", (value(rng), other, value(rng), key)),
            ("update apart set v = ?, w = ? where k1 = ?", (value(rng), value(rng), other)),
            ("delete from apart where k2 = ?", (key,)),
        ])
        db.execute(statement, values)


def recorded(db, work) -> bytes:
    session = apsw.Session(db, "main")
    session.attach()
    work()
    return session.changeset()


def inverted(changeset: bytes) -> bytes:
    return apsw.Changeset.invert(changeset)


def canonical(changeset: bytes) -> bytes:
    return write_session(read_session(changeset))


def session_cases():
    cases = []
    for number in range(12):
        rng = random.Random(number)
        db = apsw.Connection(":memory:")
        db.execute(SCHEMA)
        edit(db, rng, 8)
        states = [state(db)]
        changesets = []
        for _ in range(2):
            changesets.append(recorded(db, lambda: edit(db, rng, 6 + number)))
            states.append(state(db))
        cases.append({
            "name": f"random {number}", "states": states, "changesets": [c.hex() for c in changesets],
            "canonical": [canonical(c).hex() for c in changesets],
            "inverted": [canonical(inverted(c)).hex() for c in changesets],
            "composed": canonical(apsw.Changeset.concat(*changesets)).hex(),
        })
    return cases


def with_columns(changeset: bytes):
    return [(name, TABLES[name], ordinals, changes) for name, ordinals, changes in read_session(changeset)]


def delta_cases(sessions):
    chosen = [bytes.fromhex(case["changesets"][0]) for case in sessions[:4]]
    bodies = [write_delta([])] + [write_delta(with_columns(changeset)) for changeset in chosen]
    for body in bodies:
        assert write_delta(read_delta(body)) == body
    return [{"name": f"delta {number}", "bytes": body.hex()} for number, body in enumerate(bodies)]


def commit_cases(deltas):
    bodies = [bytes.fromhex(case["bytes"]) for case in deltas]
    key, author, schema = stream("changeset id key", 32), stream("changeset author", 16), stream("changeset schema", 16)
    first = {"kind": 0, "parents": [], "generation": 1, "author": author, "authorSequence": 1,
             "time": 1_700_000_000_000 << 16, "schema": schema, "meta": '{"by": "Ω"}',
             "digests": [("Größe", stream("changeset digest", 16)), ("player", bytes(16))], "deltas": [bodies[1]]}
    identify = lambda commit: hmac.new(key, write_commit(commit), hashlib.sha256).digest()
    second = dict(first, parents=[identify(first)], generation=2, authorSequence=2, time=first["time"] + 1,
                  meta="", deltas=[bodies[2]])
    other = dict(second, author=stream("changeset other author", 16), authorSequence=1, deltas=[bodies[3]], digests=[])
    merge = dict(first, kind=1, parents=sorted([identify(second), identify(other)]), generation=3, author=bytes(16),
                 authorSequence=0, time=second["time"], meta="", deltas=[bodies[0], bodies[4]])
    checkpoint = dict(first, kind=2, generation=7, authorSequence=9, deltas=[bodies[4]])
    cases = []
    for name, commit in [("first", first), ("second", second), ("other", other), ("merge", merge),
                         ("checkpoint", checkpoint)]:
        data = write_commit(commit)
        assert read_commit(data) == commit, name
        cases.append({"name": name, "key": key.hex(), "bytes": data.hex(), "id": identify(commit).hex()})
    return cases


def example():
    """A changeset of three changes, the delta and the commit with it."""
    db = apsw.Connection(":memory:")
    db.execute("create table player(id integer primary key, name text, score integer);"
               "insert into player values(1, 'Anna', 10), (2, 'Ben', 20)")
    changeset = recorded(db, lambda: db.execute(
        "insert into player values(3, 'Zoë', NULL); update player set score = 11 where id = 1;"
        "delete from player where id = 2"))
    delta = write_delta(with_columns(changeset))
    commit = {"kind": 0, "parents": [], "generation": 1, "author": bytes(range(0xA0, 0xB0)), "authorSequence": 1,
              "time": 1_700_000_000_000 << 16, "schema": bytes(range(0xB0, 0xC0)), "meta": "{}",
              "digests": [("player", bytes(range(0xC0, 0xD0)))], "deltas": [delta]}
    data = write_commit(commit)
    return delta, data, hmac.new(bytes(range(32)), data, hashlib.sha256).digest()


def write_document() -> None:
    delta, commit, name = example()
    values = {"delta": delta, "commit": commit, "identifier": name}
    text = DOCUMENT.read_text()
    for title, data in values.items():
        lines = "\n".join(data.hex()[start:start + 64] for start in range(0, len(data.hex()), 64))
        text, count = re.subn(rf"(<!-- {title} -->\n```\n)[^`]*(```)", rf"\g<1>{lines}\n\g<2>", text)
        assert count == 1, title
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    sessions = session_cases()
    deltas = delta_cases(sessions)
    write("changesets.json", {"sessions": sessions, "deltas": deltas, "commits": commit_cases(deltas)})
    if DOCUMENT.exists():
        write_document()
