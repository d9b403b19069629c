#!/usr/bin/env python3
"""Prints random runs of the model as JSON lines: each event, and the state of its replica after it.

The tests of the engine replay the events on stores and compare the states (Tests/Unit/ChangesetSync).
"""
import argparse
import json
import random
import sys

import base
import random_runs
import replica as replicas
from knowledge import Write, covers
from program import run as plain_transaction
from replica import Replica
from rows import branch_of, merged
from schema import Check, Column, Schema, Table
from worlds import at_most

FEATURES = ['deletes', 'unique', 'check', 'foreign', 'counters', 'snapshots', 'slices', 'versions', 'clocks', 'members',
            'lies', 'restores']


class Skip(Exception):
    """The run compares two contents of one number, which the engine orders by their hashes."""


class Path(str):
    """A path ordered as the engine orders commits: by its number first."""

    def __lt__(self, other):
        if len(self) == len(other) and str(self) != str(other):
            raise Skip
        return (len(self), str(self)) < (len(other), str(other))

    def __gt__(self, other):
        return Path.__lt__(other, self)

    def __le__(self, other):
        return not Path.__lt__(other, self)

    def __ge__(self, other):
        return not Path.__lt__(self, other)

    def __add__(self, letter):
        return Path(str(self) + letter)

    __hash__ = str.__hash__


class SortedSet(set):
    """A set of places in an order that does not depend on hashes: a revival of two places has the age of the last one."""

    def __iter__(self):
        return iter(sorted(super().__iter__()))


class Trace:
    """Where events go. Only the outermost call of a replica is an event."""

    def __init__(self):
        self.lines, self.depth, self.snapshots, self.saves, self.made = [], 0, 0, 0, []

    def event(self, kind, r, **values):
        self.lines.append({'e': kind, 'r': r.name, 'clock': r.clock, **values})

    def state(self, r):
        self.lines[-1] |= {'made': self.made, 'state': state(r)}
        self.made = []


TRACE = Trace()


def traced(function):
    def call(self, *arguments):
        outermost = TRACE.depth == 0
        TRACE.depth += 1
        try:
            result = getattr(Replica, function.__name__)(self, *arguments)
        finally:
            TRACE.depth -= 1
        if outermost:
            function(self, result, *arguments)
            TRACE.state(self)
        return result
    return call


class TracedReplica(Replica):
    save = None                 # the number of a saved copy, until it is restored

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.deleted = SortedSet()
        TRACE.event('new', self, schema=self.schema.name, slices=self.slice_rows)

    def copy(self):
        other = Replica.copy(self)
        other.__class__ = TracedReplica
        other.deleted = SortedSet(self.deleted)
        other.save = TRACE.saves
        TRACE.saves += 1
        TRACE.event('save', self, id=other.save)
        return other

    def own_tip(self):
        tips = self.vector.get(self.name, ('',))
        if len(tips) > 1 and not [t for t in tips if t.endswith(self.letter)]:
            raise Skip
        return Path(Replica.own_tip(self))

    def step_snapshot(self, snapshot, last):
        """A slice has whole keys, as the engine's."""
        last = last and (last[0], ('\uffff', ''))      # also incarnations that a revival has added to the last key
        places = [p for p in self.base.places(snapshot.base) if last is None or p > last]
        keys = sorted({p[0] for p in places})[:self.slice_rows or None]
        rows, self.slice_rows = self.slice_rows, len([p for p in places if p[0] in keys])
        try:
            Replica.step_snapshot(self, snapshot, last)
        finally:
            self.slice_rows = rows

    def commit(self, writes):
        commit = Replica.commit(self, writes)
        TRACE.made.append(commit_value(commit))
        if TRACE.depth == 0:
            TRACE.event('remove', self, member=writes[0].key[1])
            TRACE.state(self)
        return commit

    @traced
    def begin(self, _, commit):
        TRACE.event('begin', self, dot=dot(commit.dot))

    @traced
    def step(self, _):
        TRACE.event('step', self)

    def kill(self):
        Replica.kill(self)
        if self.save is None:
            TRACE.event('kill', self)
            TRACE.state(self)

    @traced
    def begin_snapshot(self, _, snapshot):
        TRACE.event('join', self, id=snapshot.id)

    @traced
    def snapshot(self, snapshot, reader=False):
        if snapshot:
            snapshot.id = TRACE.snapshots
            TRACE.snapshots += 1
        TRACE.event('snapshot', self, id=snapshot.id if snapshot else None)

    @traced
    def forget(self, _, tombstones=True):
        TRACE.event('forget', self, tombstones=tombstones)

    def forget_base(self):
        self.base.forget()
        TRACE.event('grace', self)
        TRACE.state(self)

    def fetch(self, commit):
        if not covers(self.vector, commit.dot) and commit.dot not in self.inbox:
            TRACE.event('fetch', self, dot=dot(commit.dot))
        Replica.fetch(self, commit)


# values

def dot(value):
    return '%s:%s' % (value[0], value[1])


def stamp(value):
    return [value[0], value[1], dot(value[2:])]


def row_value(row):
    sums = [[c, dot(o), dot((a, b)), dot((a, p)), total] for c, s in sorted(row.counters.items())
            for (o, a, b), (p, total) in sorted(s.items())]
    return {'born': stamp(row.born), 'cells': {c: [stamp(s), v] for c, (s, v) in row.cells.items()}, 'sums': sums}


def write_value(w):
    return {'kind': w.kind, 'key': list(w.key), 'incarnation': w.incarnation and dot(w.incarnation),
            'cells': dict(w.cells), 'steps': dict(w.steps), 'seen': sorted(dot(d) for d in w.seen), 'era': w.era,
            'revives': sorted(dot(i) for _, i in w.revives), 'copied': w.copied and row_value(base.Row.thawed(w.copied))}


def commit_value(commit):
    return {'dot': dot(commit.dot), 'time': commit.time, 'writes': [write_value(w) for w in commit.writes]}


def vector_value(vector):
    return sorted(dot((a, t)) for a, tips in vector.items() for t in tips)


def state(r):
    shown, hidden = r.shown()
    return {
        'shown': sorted([k[0], k[1], dict(v)] for k, v in shown.items()),
        'hidden': sorted([k[0], k[1], reason.split(' ')[0]] for k, reason in hidden.items()),
        'rows': sorted(([k[0], k[1], dot(i), row_value(row)] for (k, i), row in r.base.rows.items()), key=lambda x: x[:3]),
        'dead': sorted(([k[0], k[1], dot(i), sorted(dot(d) for d in t.owed)] for (k, i), t in r.base.dead.items()),
                       key=lambda x: x[:3]),
        'grave': sorted([k[0], k[1], dot(i), row_value(row), (k, i) in r.deleted] for (k, i), row in r.grave.items()),
        'vector': vector_value(r.vector), 'ahead': r.is_ahead(), 'time': r.time,
        'ready': sorted(dot(c.dot) for c in r.inbox.values() if r.ready(c))}


# the program

def transaction(r, actions):
    """The program's transaction, without writes that change nothing: a capture cannot see them."""
    shown = {k: dict(v) for k, v in r.shown()[0].items()}
    told = []
    for verb, table, pk, values in actions:
        row = shown.get((table, pk))
        if verb == 'set' and row:
            values = {n: v for n, v in values.items() if row[n] != v}
            if not values:
                continue
        told.append((verb, table, pk, full(r, table, pk, values) if verb == 'insert' else values))
    if not told:
        return None
    TRACE.depth += 1
    try:
        commit = plain_transaction(r, told)
    finally:
        TRACE.depth -= 1
    TRACE.event('act', r, actions=[list(a) for a in told], refused=commit is None)
    TRACE.state(r)
    return commit


def full(r, table, pk, values):
    hidden = [row for (k, _), row in r.base.rows.items() if k == (table, pk)]
    totals = merged(hidden)[2] if hidden else {}
    return {c.name: totals.get(c.id, 0) if c.counter else c.default for c in r.schema[table].columns} | values


# runs

def schemas(rng, features):
    """As in random_runs, without what the features leave out."""
    on_delete = rng.choice(['restrict', 'cascade', 'set null', 'set default'])
    not_null, default = rng.random() < 0.2, rng.choice([None, '1'])
    parent = Column('parent', parent='p' if 'foreign' in features else None, on_delete=on_delete, not_null=not_null,
                    default=default)
    child, p = Table('c', (parent, Column('x'))), Table('p', (Column('x'),))
    unique = Column('u', unique='unique' in features)
    shared = (Column('x'), Column('y'), Column('n', counter='counters' in features, default=None), unique)
    checks = (Check(('x', 'y'), at_most(10)),) if 'check' in features else ()
    new = Table('t', shared + (Column('z', default='d'), Column('name', identity='title')), checks)
    old = Table('t', shared + (Column('title'),), checks)
    newer, older = Schema(new, child, p), Schema(old, child, p)
    newer.name, older.name = 'newer', 'older'
    return newer, older


class TracedRun(random_runs.RandomRun):
    def __init__(self, seed, features):
        global TRACE
        TRACE = Trace()
        self.features = features
        random_runs.schemas = lambda rng: schemas(rng, features)
        random_runs.Replica, random_runs.transaction = TracedReplica, transaction
        super().__init__(seed)
        c = self.newer['c'].columns[0]
        TRACE.lines.insert(0, {'e': 'run', 'seed': seed, 'on_delete': c.on_delete if c.parent else None,
                               'not_null': c.not_null, 'default': c.default, 'unique': 'unique' in features,
                               'check': 'check' in features, 'counters': 'counters' in features})

    def newcomer(self, name):
        if 'slices' not in self.features:
            self.slices = 0
        if 'versions' not in self.features:
            self.mixed = False
        if 'clocks' not in self.features:
            self.far_clock = False
        super().newcomer(name)

    def actions(self, r):
        made = []
        for verb, table, pk, values in super().actions(r):
            if verb == 'step':
                values = {'n': self.rng.randint(-1000, 1000) or 1}
            if verb == 'step' and 'counters' not in self.features or verb == 'delete' and 'deletes' not in self.features:
                continue
            made.append((verb, table, pk, values))
        return made

    def tick(self):
        super().tick()
        if 'clocks' not in self.features:
            for r in self.run.replicas:
                r.clock = self.steps

    def publish(self, r, remote):
        lacking = remote.put_commits(r)
        if 'snapshots' in self.features and (lacking or self.rng.random() < 0.08 and not self.far_clock):
            if self.rng.random() < 0.5 and not r.is_ahead():
                r.forget_base()
            snapshot = r.snapshot()
            if snapshot:
                remote.put_snapshot(snapshot)
                self.run.snapshots = (self.run.snapshots + [snapshot])[-2:]
                r.forget(self.rng.random() < 0.5)

    def remove_member(self):
        if 'members' in self.features:
            super().remove_member()

    def lie(self):
        """The liars' clocks differ, so that no two contents of one number have one time."""
        if 'lies' not in self.features:
            return
        self.liar = 'z'
        for clock, letter, remote in zip((1, 2), 'pq', self.rng.choices(self.remotes, k=2)):
            liar = TracedReplica('z', self.newer)
            liar.letter, liar.clock = letter, clock
            transaction(liar, [('insert', 't', '1', {'z': letter, 'u': None})])
            self.run.history += tuple(liar.made)
            remote.put_commits(liar)

    def rewind(self):
        if 'snapshots' in self.features and 'restores' in self.features:
            super().rewind()

    def save(self):
        if 'restores' in self.features:
            super().save()

    def restore(self):
        former = self.backup
        if 'restores' not in self.features or not former:
            return
        super().restore()
        if self.backup is None:
            former.clock = self.steps
            TRACE.event('restore', former, id=former.save)
            former.save = None


def play(seed, features):
    """The lines of a run; none if the engine would order its commits otherwise."""
    random_runs.check = lambda run, properties: None       # check.py checks the properties
    run = TracedRun(seed, features)
    try:
        run.play()
    except Skip:
        return []
    return TRACE.lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--runs', type=int, default=10)
    parser.add_argument('--features', default=','.join(FEATURES), help='a comma between them; "none" for none')
    chosen = parser.parse_args()
    features = set(chosen.features.split(',')) - {'none', ''}
    assert features <= set(FEATURES), features - set(FEATURES)
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        for line in play(seed, features):
            sys.stdout.write(json.dumps(line, separators=(',', ':')) + '\n')


if __name__ == '__main__':
    main()
