"""Exhaustive exploration of a world: all transactions of the menu, all interleavings, a snapshot and a kill at any point."""
from dataclasses import dataclass, field, replace
import time

from knowledge import frozen, includes
from program import run as transaction
from properties import CHECKED, EACH_STATE, SETTLED, check, digest
from replica import Replica


@dataclass
class Run:
    replicas: list
    history: tuple = ()
    snapshots: list = field(default_factory=list)
    events: tuple = ()
    left: int = 0
    kills: int = 1
    immutable: bool = True            # whether replicas are copied before they change
    received: bool = False            # whether the last step received something
    void: frozenset = frozenset()     # commits that no member may take

    def copy(self, event, changed=None):
        """A copy in which one replica (or each) may change; the others are shared."""
        replicas = [r.copy() if changed in (None, i) else r for i, r in enumerate(self.replicas)]
        return replace(self, replicas=replicas, snapshots=list(self.snapshots), events=self.events + (event,), received=False)

    def collect(self):
        """Takes the commits that the last step has made into the history."""
        for r in self.replicas:
            if r.made:
                self.history += tuple(r.made)
                r.made = []

    def key(self):
        return hash((tuple(digest(r) for r in self.replicas), frozenset(self.history),
                     tuple(digest(s.base) for s in self.snapshots), self.left, self.kills))


def begin(world, commits):
    replicas = [Replica(name, schema, world.slice_rows) for name, schema in zip('abcd', world.schemas)]
    for actions in world.start:
        commit = transaction(replicas[0], actions)
        for other in replicas[1:]:
            other.join_writes(commit, commit.writes)
            other.end_commit(commit)
    run = Run(replicas, left=commits)
    run.collect()
    return run


def moves(run, world):
    """All states that follow."""
    for i, r in enumerate(run.replicas):
        if run.left:
            number = sum(c.author == r.name for c in run.history) + 1
            for choice, actions in enumerate(world.menu(r.name, number)):
                after = run.copy('%s commits %s' % (r.name, actions), i)
                if transaction(after.replicas[i], actions):
                    after.left -= 1
                    yield after
        for after in receptions(run, i):
            after.received = True
            yield after
        if not run.snapshots and run.history:
            for tombstones in (False, True):
                event = '%s makes a snapshot and forgets %s' % (r.name, 'tombstones too' if tombstones else 'commits')
                after = run.copy(event, i)
                if tombstones and not r.is_ahead():
                    after.replicas[i].forget()
                snapshot = after.replicas[i].snapshot()
                if snapshot:
                    after.snapshots.append(snapshot)
                    after.replicas[i].forget(tombstones)
                    yield after


def receptions(run, i):
    r = run.replicas[i]
    if r.joining:
        after = run.copy('%s joins the next slice' % r.name, i)
        after.replicas[i].step()
        yield after
        if run.kills:
            after = run.copy('%s is killed' % r.name, i)
            after.replicas[i].kill()
            after.kills -= 1
            yield after
        return
    for other in run.replicas:
        for commit in other.log.values():
            if other is not r and r.ready(commit):
                after = run.copy('%s receives %s' % (r.name, commit.dot), i)
                after.replicas[i].begin(commit)
                yield after
    for snapshot in run.snapshots:
        if not includes(r.vector, snapshot.base.vector):
            after = run.copy('%s joins the snapshot' % r.name, i)
            after.replicas[i].begin_snapshot(snapshot)
            yield after


def settle(run):
    """Everybody exchanges everything until nothing changes."""
    run = run.copy('settled')
    run.immutable = False
    for _ in range(60):
        before = [(frozen(r.vector), r.joining is None) for r in run.replicas]
        for r in run.replicas:
            exchange(run, r)
        if before == [(frozen(r.vector), r.joining is None) for r in run.replicas]:
            return run
    run.events += ('never settles',)
    return run


def exchange(run, r):
    while r.joining:
        r.step()
    for snapshot in run.snapshots:
        if r.lacks(snapshot):
            r.begin_snapshot(snapshot)
            while r.joining:
                r.step()
    for other in run.replicas:
        for commit in other.log.values():
            r.fetch(commit)
    for commit in r.waiting():
        if r.ready(commit):
            r.begin(commit)
            while r.joining:
                r.step()
    run.collect()


class Result:
    def __init__(self):
        self.states, self.ends, self.seconds, self.failure, self.complete = 0, 0, 0.0, None, True


def explore(world, commits=None, seconds=None, only=None):
    """Depth first over canonical states. The failure is (property, sentence, events)."""
    always, ends = properties_of(only)
    found, started = Result(), time.monotonic()
    first = begin(world, world.commits if commits is None else commits)
    CHECKED.clear()
    seen, stack = {first.key()}, [first]
    while stack:
        run = stack.pop()
        found.states += 1
        problem = check(run, always)
        following = list(moves(run, world)) if not problem else []
        if not problem and not run.left and not any(after.received for after in following):
            found.ends += 1
            problem = check(settle(run), ends)
        if problem:
            found.failure = problem + (run.events,)
            break
        if seconds and time.monotonic() - started > seconds:
            found.complete = False
            break
        for after in following:
            after.collect()
            key = after.key()
            if key not in seen:
                seen.add(key)
                stack.append(after)
    found.seconds = time.monotonic() - started
    return found


def properties_of(only):
    """The properties to check at each state and at the ends: all, or one."""
    if only is None:
        return EACH_STATE, EACH_STATE + SETTLED
    return [only] if only in EACH_STATE else [], [only]


def smallest(world, commits, only=None, limit=30000):
    """Breadth first: the shortest sequence of events that breaks a property."""
    first = begin(world, commits)
    CHECKED.clear()
    always, ends = properties_of(only)
    seen, line = {first.key()}, [first]
    for run in line:
        problem = check(run, always) or check(settle(run), ends)
        if problem:
            return problem + (run.events,)
        if len(line) > limit:
            return None
        for after in moves(run, world):
            after.collect()
            key = after.key()
            if key not in seen:
                seen.add(key)
                line.append(after)
    return None
