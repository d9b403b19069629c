"""The base: what the joined commits give. It joins commits write by write, and snapshots place by place.

A place is (key, incarnation). It is living (in rows), dead (in dead), or absent. Absent with a vector that covers its insertion
means that it is dead and its tombstone is forgotten.
"""
from knowledge import Knowledge, covers, frozen, union
from rows import Row
from rules import on


class Tombstone:
    """What the deletions of an incarnation knew, and the updates that none of them knew."""

    def __init__(self, known=(), seen=frozenset(), owed=frozenset(), row=None):
        self.known, self.seen, self.owed = dict(known), frozenset(seen), frozenset(owed)
        self.row = row          # in a snapshot: the row with what is owed, for the author of the deletion
        self.late = ()          # updates that arrived after the deletion: (commit, write)

    def knows(self, dot):
        return covers(self.known, dot) or dot in self.seen

    def merged(self, other, owed):
        both = Tombstone(union(self.known, other.known), self.seen | other.seen)
        both.owed = frozenset(d for d in owed if not both.knows(d)) if on('owed') else frozenset()
        both.row = self.row or other.row
        both.late = tuple((c, w) for c, w in {**dict(self.late), **dict(other.late)}.items() if c.dot in both.owed)
        return both

    def copy(self):
        other = Tombstone(self.known, self.seen, self.owed, self.row)
        other.late = self.late
        return other

    def frozen(self):
        return (frozen(self.known), self.seen, frozenset(self.owed), self.row and self.row.frozen())


class Lost:
    """An update that a deletion did not know: input of the revival. The row is as this store last had it, if it had it."""

    def __init__(self, place, row, dots, late=None):
        self.place, self.row, self.dots = place, row, dots
        self.late = late        # (commit, write) of an update that arrives after the deletion, to be applied to the row

    def onto(self, former):
        """The row as it was at its death, with what is lost."""
        row = former.copy()
        if self.late:
            commit, write = self.late
            row.write(commit.stamp(write), write.cells, write.steps, self.place[1])
        else:
            row.join(self.row)
        return row


def late_update(place, dots, commit, write):
    late = Lost(place, None, dots, (commit, write))
    late.row = late.onto(Row(commit.stamp(write)))
    return late


class Base:
    def __init__(self):
        self.vector, self.rows, self.dead = {}, {}, {}
        self.removed = {}       # member -> what the removals knew of its commits

    def copy(self):
        other = Base()
        other.vector, other.removed = dict(self.vector), dict(self.removed)
        other.rows = {p: r.copy() for p, r in self.rows.items()}
        other.dead = {p: t.copy() for p, t in self.dead.items()}
        return other

    def frozen(self):
        return (frozen(self.vector), self.frozen_rows(), frozenset((p, t.frozen()) for p, t in self.dead.items()),
                frozenset((m, frozen(v)) for m, v in self.removed.items()))

    def frozen_rows(self):
        return frozenset((p, r.frozen()) for p, r in self.rows.items())

    def incarnations(self, key):
        return sorted(i for k, i in self.rows if k == key)

    # commits

    def apply(self, commit, write, lost):
        """Joins one write. May be repeated."""
        place = commit.place(write)
        if write.kind == 'insert':
            self.insert(commit, write, place)
        elif write.kind == 'update':
            self.update(commit, write, place, lost)
        elif write.kind == 'delete':
            self.kill(place, Tombstone(commit.context, write.seen | {commit.dot}), frozenset(), lost)
        elif write.kind == 'remove':
            self.removed[write.key[1]] = union(self.removed.get(write.key[1], {}), dict(commit.context))

    def insert(self, commit, write, place):
        knowledge = Knowledge(commit.context, write.seen)
        had = Row.thawed(write.copied).dots() if write.copied else ()
        for revived in write.revives:
            if revived in self.dead:
                tombstone = self.dead[revived]
                tombstone.owed = frozenset(d for d in tombstone.owed if d not in knowledge and d not in had)
        if place in self.dead and on('insert-respects-tombstone'):
            return
        if place not in self.rows:
            self.rows[place] = Row.thawed(write.copied) if write.copied else Row(commit.stamp(write))
        self.rows[place].write(commit.stamp(write), write.cells, write.steps, place[1])

    def update(self, commit, write, place, lost):
        if place in self.rows:
            self.rows[place].write(commit.stamp(write), write.cells, write.steps, place[1])
        elif place in self.dead:
            tombstone = self.dead[place]
            unknown = set() if tombstone.knows(commit.dot) else {commit.dot}
            if on('owed'):
                tombstone.owed |= unknown
            if tombstone.row:
                tombstone.row = Lost(place, None, None, (commit, write)).onto(tombstone.row)
            elif unknown and on('owed-has-row'):
                tombstone.late += ((commit, write),)
            lost.append(late_update(place, unknown, commit, write))     # also a known one: the history follows
        elif covers(self.vector, place[1]) and on('owed'):
            self.dead[place] = Tombstone(owed={commit.dot})
            if on('owed-has-row'):
                self.dead[place].late = ((commit, write),)

    def kill(self, place, tombstone, owed_there, lost, covered_there=lambda dot: False):
        """Joins a tombstone of the other side to whatever is here."""
        row, former = self.rows.pop(place, None), self.dead.get(place, Tombstone())
        owed_here = former.owed | (row.dots() if row else frozenset())
        owed = {d for d in owed_here if d in owed_there or not covered_there(d) or not on('owed')}
        owed |= {d for d in owed_there if d in owed_here or not covers(self.vector, d)}
        both = former.merged(tombstone, owed)
        self.dead[place] = both
        unknown = {d for d in owed if not both.knows(d)}
        known_row = row or tombstone.row
        if known_row and unknown:
            lost.append(Lost(place, known_row.copy(), unknown))
        lost += [late_update(place, {c.dot}, c, w) for c, w in tombstone.late if c.dot in unknown and not row]

    # snapshots

    def join_place(self, place, other, lost):
        """Joins what a snapshot says of one place."""
        here, there = lambda d: covers(self.vector, d), lambda d: covers(other.vector, d)
        if place in other.dead:
            self.kill(place, other.dead[place], other.dead[place].owed, lost, there)
        elif place in other.rows:
            self.join_living(place, other.rows[place], here, there, lost)
        elif place in self.rows:
            if there(place[1]) and on('absence-is-deletion'):
                row = self.rows.pop(place)
                self.forgotten(place, row, other.vector, there, lost)
        elif place in self.dead and there(place[1]):
            self.dead[place].owed = frozenset(d for d in self.dead[place].owed if not there(d))

    def join_living(self, place, row, here, there, lost):
        if place in self.dead:
            tombstone = self.dead[place]
            late = {d for d in row.dots() if not tombstone.knows(d) and (d in tombstone.owed or not here(d))}
            kept = {d for d in tombstone.owed if d in row.dots() or not there(d)}
            new = late - tombstone.owed
            tombstone.owed = frozenset(late | kept) if on('owed') else frozenset()
            if new:
                lost.append(Lost(place, row.copy(), new))
        elif place in self.rows:
            self.rows[place].join(row)
        elif covers(self.vector, place[1]) and on('absence-here-is-deletion'):
            self.forgotten(place, row, self.vector, here, [])
        else:
            self.rows[place] = row.copy()

    def forgotten(self, place, row, vector, covered, lost):
        """One side has forgotten the row, the other has it: the updates that the forgetting side lacks are owed."""
        owed = {d for d in row.dots() if not covered(d)}
        if owed:
            if on('owed'):
                self.dead[place] = Tombstone(vector, owed=owed)
            lost.append(Lost(place, row, owed))

    def places(self, other):
        """The places that a join of a snapshot visits, in order."""
        return sorted(set(other.rows) | set(other.dead) | set(self.rows) | set(self.dead))

    def cover(self, other):
        """The end of a join of a snapshot."""
        self.vector = union(self.vector, other.vector)
        for member, known in other.removed.items():
            self.removed[member] = union(self.removed.get(member, {}), known)

    def snapshot(self):
        other = self.copy()
        if not on('snapshot-has-tombstones'):
            other.dead = {}
        return other

    def lacks_values(self):
        return any(row.unknown for row in self.rows.values())

    def forget_oldest(self, key, most):
        """Forgets the oldest deletions of a key that is deleted and inserted again and again. Returns their places."""
        places = [p for p in self.dead if p[0] == key]
        gone = [p for p in places[:-most] if not (self.dead[p].owed and on('oldest-dead-owe-nothing'))
                and (covers(self.vector, p[1]) or not on('oldest-dead-are-covered'))]
        for place in gone:
            del self.dead[place]
        return gone

    def forget(self):
        """The grace period is over: tombstones go, except those that owe a revival or precede their insertion."""
        self.dead = {p: t for p, t in self.dead.items() if t.owed or not covers(self.vector, p[1])}


def joined(one, other):
    """The join of two states as a function: for the laws of the join."""
    result, lost = one.copy(), []
    for place in result.places(other):
        result.join_place(place, other, lost)
    result.cover(other)
    return result
