"""Larger runs by seed: 2 to 5 replicas, several remotes, slices and kills, wrong clocks, older schemas, lies, removals, and
stores and remotes that are set back."""
import random

from explore import Run
from knowledge import Write, covers
from program import run as transaction
from properties import EACH_STATE, SETTLED, check
from remote import Remote
from replica import Replica
from schema import Check, Column, Schema, Table
from worlds import at_most

LAWS = [p for p in EACH_STATE if 'join_is' in p.__name__]
CHEAP = [p for p in EACH_STATE if p not in LAWS]


def schemas(rng):
    """A newer and an older schema; the older one lacks a column and calls another by its former name."""
    on_delete = rng.choice(['restrict', 'cascade', 'set null', 'set default'])
    parent = Column('parent', parent='p', on_delete=on_delete, not_null=rng.random() < 0.2, default=rng.choice([None, '1']))
    child = Table('c', (parent, Column('x')))
    x, y, n = Column('x'), Column('y'), Column('n', counter=True)
    new = Table('t', (x, y, n, Column('u', unique=True), Column('z', default='d'), Column('name', identity='title')),
                (Check(('x', 'y'), at_most(10)),))
    old = Table('t', (x, y, n, Column('u', unique=True), Column('title')), (Check(('x', 'y'), at_most(10)),))
    p = Table('p', (Column('x'),))
    return Schema(new, child, p), Schema(old, child, p)


class RandomRun:
    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.newer, self.older = schemas(rng)
        self.slices = rng.choice([0, 0, 1, 2])
        self.steps, self.total_steps = 0, 0
        self.run = Run([], immutable=False)
        self.remotes = [Remote() for _ in range(rng.choice([1, 1, 2, 3]))]
        self.places, self.rows_of = {}, {}
        self.mixed = rng.random() < 0.4
        self.far_clock = rng.random() < 0.4      # then nobody forgets: see 'what is left' in FINDINGS.md
        for name in 'abcde'[:rng.randint(2, 5)]:
            self.newcomer(name)
        self.removed, self.saved, self.backup, self.letters = None, None, None, list('tsr')

    def newcomer(self, name):
        schema = self.older if self.mixed and self.rng.random() < 0.4 else self.newer
        self.run.replicas.append(Replica(name, schema, self.slices))
        self.places[name] = [m for m in self.remotes if self.rng.random() < 0.7] or [self.remotes[0]]

    def actions(self, r):
        """One to three random actions; values are unique where the schema lets them."""
        rng, number = self.rng, len(self.run.history)
        made = []
        for _ in range(rng.randint(1, 3)):
            table, pk = rng.choice('ttpc'), rng.choice('12')
            names = [c.name for c in r.schema[table].columns if not c.counter]
            values = {n: self.value(n, '%s%d%s' % (r.name, number, n)) for n in names if rng.random() < 0.5}
            verb = rng.choice(['insert', 'insert', 'set', 'set', 'delete', 'step'])
            if verb == 'step':
                if (table, pk) in r.shown()[0] and table == 't' and self.total_steps < 200:
                    made.append(('step', table, pk, {'n': 10 ** self.total_steps}))
                    self.total_steps += 1
            elif values or verb != 'set':
                made.append((verb, table, pk, values))
        return made

    def value(self, name, unique):
        rng = self.rng
        return {'x': rng.randint(0, 9), 'y': rng.randint(0, 9), 'u': rng.choice([None, 1, 2, 3]),
                'parent': rng.choice([None, '1', '2'])}.get(name, unique)

    def act(self, r):
        shown = r.shown()[0]
        for action in self.actions(r):
            verb, table, pk, _ = action
            if ((table, pk) in shown) == (verb == 'insert'):
                continue
            transaction(r, [action] if not self.slices else self.grown(r, action))

    def grown(self, r, action):
        """A commit of two rows, so that slices have something to cut."""
        verb, table, pk, values = action
        other = '2' if pk == '1' else '1'
        same = ((table, other) in r.shown()[0]) == (verb != 'insert')
        unique = values.get('u') is not None
        return [action, (verb, table, other, values)] if same and not unique and verb != 'step' else [action]

    def exchange(self, r):
        rng, remote = self.rng, self.rng.choice(self.places[r.name])
        if r.joining and rng.random() < 0.5:
            r.step() if rng.random() < 0.7 else r.kill()
            return
        while r.joining:
            r.step()
        remote.give(r, lambda c: rng.random() < 0.9)
        self.publish(r, remote)
        if rng.random() < 0.15 and r.inbox and not r.joining:
            self.interrupt(r)

    def interrupt(self, r):
        """Begins to join and stops after a slice."""
        for commit in r.waiting()[:1]:
            r.begin(commit)
            if r.joining:
                r.step()

    def publish(self, r, remote):
        lacking = remote.put_commits(r)
        if lacking or self.rng.random() < 0.08 and not self.far_clock:
            if self.rng.random() < 0.5 and not r.is_ahead():
                r.base.forget()
            snapshot = r.snapshot()
            if snapshot:
                remote.put_snapshot(snapshot)
                self.run.snapshots = (self.run.snapshots + [snapshot])[-2:]
                r.forget(self.rng.random() < 0.5)

    def remove_member(self):
        """The first replica removes the last one, which is gone from then on."""
        self.run.collect()
        r, m = self.run.replicas[0], self.run.replicas[-1]
        self.removed = m.name
        r.commit([Write('remove', ('member', m.name))])
        self.run.replicas.remove(m)

    def lie(self):
        """A liar gives two remotes two commits with one number, and is gone."""
        self.liar = 'z'
        for letter, remote in zip('pq', self.rng.choices(self.remotes, k=2)):
            liar = Replica('z', self.newer)
            liar.letter = letter
            transaction(liar, [('insert', 't', '1', {'z': letter, 'u': None})])
            self.run.history += tuple(liar.made)
            remote.put_commits(liar)

    def rewind(self):
        """A remote is set back to an earlier state, or emptied."""
        remote, commits, snapshots = self.saved or (self.rng.choice(self.remotes), {}, [])
        remote.commits, remote.snapshots, self.saved = dict(commits), list(snapshots), None

    def save(self):
        remote, r = self.rng.choice(self.remotes), self.rng.choice(self.run.replicas)
        self.saved = (remote, dict(remote.commits), list(remote.snapshots))
        self.backup = r.copy()
        self.backup.kill()

    def restore(self):
        """A store is restored from its backup and goes on under its name: what it wrote since comes back from the others."""
        names = [r.name for r in self.run.replicas]
        if self.backup and self.backup.name in names and self.letters:
            self.run.collect()
            self.backup.letter = self.letters.pop()
            self.run.replicas[names.index(self.backup.name)] = self.backup
            self.backup = None

    def tick(self):
        self.steps += 1
        for r in self.run.replicas:
            skew = {'b': 300, 'c': 100000 if self.far_clock else 0}.get(r.name, 0) if self.steps % 40 < 10 else 0
            r.clock = self.steps + skew

    def play(self):
        """Runs and settles. Returns (property, sentence) that fails, or None."""
        rng = self.rng
        for _ in range(rng.randint(10, 70)):
            self.tick()
            r = rng.choice(self.run.replicas)
            self.act(r) if rng.random() < 0.5 else self.exchange(r)
            if rng.random() < 0.02 and len(self.run.replicas) < 6 and not self.removed:
                self.newcomer('new%d' % self.steps)
            if rng.random() < 0.005 and len(self.run.replicas) > 2 and not self.removed:
                self.remove_member()
            if rng.random() < 0.005 and not hasattr(self, 'liar'):
                self.lie()
            if rng.random() < 0.05:
                rng.choice([self.save, self.save, self.rewind, self.restore])()
            self.run.collect()
            problem = check(self.run, CHEAP) or self.steps % 8 == 0 and check(self.run, LAWS)
            if problem:
                return problem
        return self.settle()

    def kept(self, commit):
        """Whether the author of a commit is there and has not been restored from before it."""
        return any(r.name == commit.author and commit.path.endswith(r.letter) for r in self.run.replicas)

    def settle(self):
        for _ in range(12):
            for r in self.run.replicas:
                for remote in self.remotes:
                    while r.joining:
                        r.step()
                    remote.give(r)
                    if remote.put_commits(r) and not r.is_ahead():
                        remote.put_snapshot(r.snapshot())
                    self.run.collect()
        have = self.run.replicas[0].vector
        self.run.history = tuple(c for c in self.run.history if covers(have, c.dot) or self.kept(c))
        return check(self.run, EACH_STATE + SETTLED)


def run_seeds(first, count, stop=None):
    """Plays seeds. Returns (number played, [(seed, property, sentence)])."""
    failures, played = [], 0
    for seed in range(first, first + count):
        if stop and stop():
            break
        played += 1
        problem = RandomRun(seed).play()
        if problem:
            failures.append((seed,) + problem)
    return played, failures
