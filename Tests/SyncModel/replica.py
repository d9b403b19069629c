"""A replica: the program's writes, joining in slices, revival, kills, snapshots, restore.

Each public method is one transaction. What a kill loses is in self.joining and self.pending; all else is durable.
"""
from base import Base, Lost
from knowledge import Commit, Write, advanced_tips, covers, frozen, includes, union
from rows import merged
from rules import on
from shown import shown

CLOCK_BOUND = 1000
ORPHAN = (None, '')           # in place of an update: a child that needs its parent


class Replica:
    def __init__(self, name, schema, slice_rows=0):
        self.name, self.schema, self.slice_rows = name, schema, slice_rows
        self.former = set()         # names that this store had before it was restored or copied
        self.base, self.time, self.clock = Base(), 0, 0
        self.log, self.inbox = {}, {}
        self.grave = {}             # place -> the row when it died (the change history has it until the grace is over)
        self.deleted = set()        # places that this store deleted itself
        self.ahead = ()             # vectors of joins that have begun and that the vector does not cover yet
        self.joining = None         # ('commit', commit, position) or ('snapshot', snapshot, last place)
        self.pending = []           # revivals that wait; only if they are not in the transaction of the slice
        self.letter = 'o'
        self.surprise = None        # what the program reads in place of what its last transaction wrote
        self.most_dead = 16         # how many deletions of one key are known
        self.made = []              # commits of this step, for the history of the run

    def copy(self):
        other = Replica(self.name, self.schema, self.slice_rows)
        other.former, other.base = set(self.former), self.base.copy()
        other.time, other.clock, other.letter = self.time, self.clock, self.letter
        other.log, other.inbox, other.grave = dict(self.log), dict(self.inbox), dict(self.grave)
        other.deleted, other.ahead, other.joining = set(self.deleted), self.ahead, self.joining
        other.pending, other.made, other.most_dead = list(self.pending), [], self.most_dead
        return other

    def frozen(self):
        joining = self.joining and (self.joining[0], self.joining[1].dot if self.joining[0] == 'commit' else 0,
                                    self.joining[2])
        return (self.base.frozen(), self.time, frozenset(self.log), frozenset(self.grave), self.ahead, joining,
                tuple(repr(p) for p in self.pending), frozenset(self.deleted))

    @property
    def vector(self):
        return self.base.vector

    def shown(self):
        return shown(self.base, self.schema, self.grave)

    def is_ahead(self):
        return any(not includes(self.vector, dict(v)) for v in self.ahead)

    # time

    def next_time(self):
        return max(self.clock, self.time + 1)

    def adopt(self, time):
        if not on('far-time-is-not-adopted') or time <= self.clock + CLOCK_BOUND:
            self.time = max(self.time, time)

    # commits

    def commit(self, writes):
        """Records writes of this store as a commit and joins it to the base, in one transaction."""
        path = self.own_tip() + self.letter
        time = self.next_time()
        writes = tuple(w._replace(seen=w.seen | self.seen(w), era=self.era(w, (time, self.name, path))) for w in writes)
        commit = Commit(self.name, path, time, frozen(self.vector), writes)
        for write in writes:
            place = commit.place(write)
            if write.kind == 'delete' and place in self.base.rows:
                self.grave[place] = self.base.rows[place].copy()
                self.deleted.add(place)
            self.base.apply(commit, write, [])
            self.forget_oldest(write)
        self.finish(commit)
        self.made.append(commit)
        return commit

    def era(self, write, stamp):
        """The least era in which the write is above every cell of its key that it replaces, also of dead rows."""
        known = list(self.base.rows.items()) + (list(self.grave.items()) if on('era-above-dead') else [])
        replaced = [row.cells[c][0] for (key, _), row in known if key == write.key
                    for c, _ in write.cells if c in row.cells]
        return max([s[0] + (s[1:] > stamp) for s in replaced] + [0]) if on('era') else 0

    def own_tip(self):
        tips = self.vector.get(self.name, ('',))
        own = [t for t in tips if t.endswith(self.letter)]
        return (own or tips)[0]

    def seen(self, write):
        """The dots in the row of the write that the vector lacks: the row is ahead of the vector between two slices."""
        row = self.base.rows.get((write.key, write.incarnation))
        if not row or not on('seen'):
            return frozenset()
        return frozenset(d for d in row.dots() | {write.incarnation} if not covers(self.vector, d))

    def finish(self, commit):
        tips = self.vector.get(commit.author, ())
        self.base.vector[commit.author] = advanced_tips(tips, commit.path)
        self.adopt(commit.time)
        self.log[commit.dot] = commit
        self.inbox.pop(commit.dot, None)

    # receiving

    def fetch(self, commit):
        """Stores a commit and joins nothing."""
        if not on('content-dots'):
            commit = without_contents(commit)
        if not covers(self.vector, commit.dot):
            self.inbox.setdefault(commit.dot, commit)

    def ready(self, commit):
        if covers(self.vector, commit.dot) or not self.accepts(commit):
            return False
        if not on('no-hold') and commit.time > self.clock + CLOCK_BOUND:
            return False
        if not covers(self.vector, (commit.author, commit.path[:-1])) and len(commit.path) > 1:
            return False
        known = includes(self.vector, dict(commit.context)) or not on('wait-for-context')
        return known and all(covers(self.vector, d) for w in commit.writes for d in w.seen)

    def accepts(self, commit):
        """Whether the author may write, or a member vouches for what it wrote before its removal was known."""
        if commit.author not in self.base.removed or not on('removal-is-checked'):
            return True
        if covers(self.base.removed[commit.author], commit.dot):
            return True
        if not on('vouch'):
            return False
        return any(c.author not in self.base.removed and covers(dict(c.context), commit.dot) for c in self.inbox.values())

    def waiting(self):
        return sorted((c for c in self.inbox.values() if self.ready(c)), key=lambda c: (c.time, c.author, c.path))

    def begin(self, commit):
        """Begins to join a commit. Without slices it is joined whole."""
        if self.slice_rows and len(commit.writes) > self.slice_rows:
            self.joining = ('commit', commit, 0)
            self.enter(union(dict(commit.context), {commit.author: (commit.path,)}))
            self.adopt(commit.time)
        else:
            self.join_writes(commit, commit.writes)
            self.end_commit(commit)

    def enter(self, vector):
        self.ahead = tuple(v for v in self.ahead if not includes(self.vector, dict(v))) + (frozen(vector),)

    def step(self):
        """Joins the next slice."""
        kind, what, position = self.joining
        if kind == 'snapshot':
            return self.step_snapshot(what, position)
        part = what.writes[position:position + self.slice_rows]
        self.join_writes(what, part)
        if not on('vector-last') and position == 0:
            self.base.vector[what.author] = advanced_tips(self.vector.get(what.author, ()), what.path)
        position += self.slice_rows
        if position < len(what.writes):
            self.joining = ('commit', what, position)
        else:
            self.joining = None
            self.end_commit(what)

    def join_writes(self, commit, writes):
        lost = []
        for write in writes:
            place = commit.place(write)
            if write.kind == 'delete' and place in self.base.rows:
                self.grave[place] = self.base.rows[place].copy()
            if write.kind == 'delete' and self.own(commit.author):
                self.deleted.add(place)              # from before this store was restored
            self.base.apply(commit, write, lost)
            self.forget_oldest(write)
            self.orphaned(write, place, lost)
        self.revive(lost, frozenset([commit.dot]))

    def end_commit(self, commit):
        self.finish(commit)
        self.revive_pending()
        if any(w.kind == 'remove' for w in commit.writes):
            self.vouch()

    def vouch(self):
        """Says by an empty commit which commits of removed members this store has that their removal did not know."""
        if on('vouch') and self.name not in self.base.removed:
            if any(not includes(known, {m: self.vector.get(m, ())}) for m, known in self.base.removed.items()):
                self.commit([Write('vouch')])

    def begin_snapshot(self, snapshot):
        if on('writers-make-snapshots') and snapshot.reader:
            return
        if not on('no-hold') and snapshot.time > self.clock + CLOCK_BOUND:
            return
        self.adopt(snapshot.time)
        self.joining = ('snapshot', snapshot, None)
        self.enter(snapshot.base.vector)
        while self.joining and not self.slice_rows:
            self.step()

    def step_snapshot(self, snapshot, last):
        places = [p for p in self.base.places(snapshot.base) if last is None or p > last]
        part = places[:self.slice_rows or None]
        lost = []
        for place in part:
            if place in self.base.rows and place not in snapshot.base.rows:
                self.grave[place] = self.base.rows[place].copy()
            here = place in self.base.rows
            self.base.join_place(place, snapshot.base, lost)
            if here and place not in self.base.rows:
                self.orphaned(Write('delete', place[0], place[1]), place, lost)
        beyond = frozenset((a, t) for a, tips in snapshot.base.vector.items() for t in tips if not covers(self.vector, (a, t)))
        self.revive(lost, beyond)
        if len(part) < len(places):
            self.joining = ('snapshot', snapshot, part[-1])
        else:
            self.joining = None
            self.base.cover(snapshot.base)
            for dot in [d for d in self.inbox if covers(self.vector, d)]:
                del self.inbox[dot]
            self.revive_pending()

    def kill(self):
        self.joining, self.pending = None, []

    def restamp(self, commits, first_time):
        """Gives commits that were not pushed new times, in their order, after the clock was set right."""
        new = {c.dot: first_time + i for i, c in enumerate(commits)}
        for commit in commits:
            self.log[commit.dot] = commit._replace(time=new[commit.dot])

        def stamp(s):
            return (s[0], new.get((s[2], s[3]), s[1]), s[2], s[3])
        for row in self.base.rows.values():
            row.born = stamp(row.born)
            row.cells = {c: (stamp(s), v) for c, (s, v) in row.cells.items()}

    # revival

    def own(self, author):
        return author == self.name or author in self.former and on('former-names')

    def revive(self, lost, seen):
        """Inserts anew the rows whose updates a deletion did not know, if the update or the deletion is of this store."""
        rows = {}                   # key -> (row, places): one revival for each key
        for loss in lost:
            table = self.schema.get(loss.place[0][0])
            if not on('revive') or table and table.deletions_win:
                continue
            row = self.row_to_revive(loss)
            if row is not None:
                former, places = rows.get(loss.place[0], (None, ()))
                if former:
                    row = row.copy()
                    row.join(former)
                rows[loss.place[0]] = (row, places + (loss.place,))
        writes = [self.revival(places, row, seen) for row, places in rows.values()]
        if writes and on('revival-in-slice'):
            self.commit(writes)
        else:
            self.pending += writes

    def revive_pending(self):
        writes, self.pending = self.pending, []
        if writes:
            self.commit(writes)

    def row_to_revive(self, loss):
        """The row as it was with the update that is lost, or None if others revive it."""
        row = loss.row
        if loss.place in self.grave:
            row = self.grave[loss.place] = loss.onto(self.grave[loss.place])
        deleter = loss.place in self.deleted and on('deleter-revives')
        unknown = loss.dots if loss.late is None else loss.dots & (row.dots() | {ORPHAN})
        return row if unknown and (deleter or any(self.own(author) for author, _ in unknown)) else None

    def revival(self, places, row, seen):
        beyond = frozenset(d for d in seen if not covers(self.vector, d))
        if on('revival-keeps-stamps'):
            value = row.copy()
            if not on('revival-copies-sums'):
                value.counters = {}
        else:
            value = None
        cells, steps = (), ()
        _, best, totals = merged([row])
        if value is None:
            cells = tuple(sorted((c, v) for c, (_, v) in best.items() if on('keep-unknown') or self.knows_column(places[0], c)))
        if value is None or not on('revival-copies-sums'):
            steps = tuple(sorted(totals.items()))
        return Write('insert', places[0][0], None, cells, steps, beyond, value and value.frozen(), places)

    def knows_column(self, place, identity):
        table = self.schema.get(place[0][0])
        return table is not None and any(c.id == identity for c in table.columns)

    def orphaned(self, write, place, lost):
        """RESTRICT: the author of a living child, or of the deletion of the parent, revives the parent."""
        if not on('restrict-by-revival'):
            return
        if write.kind == 'delete':
            corpse = self.grave.get(place)
            if corpse and not self.base.incarnations(place[0]):
                authors = self.child_authors(place[0])
                if authors:
                    lost.append(Lost(place, corpse, {(a, '') for a in authors}))
        elif write.kind in ('insert', 'update'):
            for parent in self.missing_parents(write.key):
                for grave in [p for p in self.deleted if p[0] == parent and p in self.grave]:
                    lost.append(Lost(grave, self.grave[grave].copy(), {ORPHAN}))

    def child_authors(self, parent):
        authors = set()
        for (key, _), row in self.base.rows.items():
            if key[0] not in self.schema:
                continue
            _, cells, _ = merged([row])
            for column in self.schema[key[0]].columns:
                if column.parent == parent[0] and column.on_delete == 'restrict' and column.id in cells:
                    stamp, value = cells[column.id]
                    authors |= {stamp[2]} if value == parent[1] else set()
        return authors

    def missing_parents(self, key):
        if key[0] not in self.schema:
            return []
        rows = [r for (k, _), r in self.base.rows.items() if k == key]
        if not rows:
            return []
        _, cells, _ = merged(rows)
        parents = [(c.parent, cells[c.id][1]) for c in self.schema[key[0]].columns
                   if c.parent and c.on_delete == 'restrict' and c.id in cells and cells[c.id][1] is not None]
        return [p for p in parents if not self.base.incarnations(p)]

    # snapshots and grace

    def snapshot(self, reader=False):
        """A snapshot for anybody, or None between two slices."""
        if self.is_ahead() and on('no-snapshot-while-ahead'):
            return None
        base = self.base.snapshot()
        if not on('unknown-is-named'):
            for row in base.rows.values():
                row.unknown = {}
        for place, tombstone in base.dead.items():
            if on('owed-has-row'):
                tombstone.row = tombstone.owed and self.grave.get(place, tombstone.row) or None
        if not on('keep-unknown'):
            for (key, _), row in base.rows.items():
                row.cells = {c: s for c, s in row.cells.items() if self.knows_column((key, None), c)}
        return Snapshot(base, self.time, reader)

    def forget_oldest(self, write):
        if write.kind == 'delete':
            for place in self.base.forget_oldest(write.key, self.most_dead):
                self.grave.pop(place, None)
                self.deleted.discard(place)

    def lacks(self, snapshot):
        """Whether a snapshot has something for this store."""
        more = self.base.lacks_values() and not snapshot.base.lacks_values() and on('whole-snapshot-is-joined')
        return more or not includes(self.vector, snapshot.base.vector)

    def drop(self, column):
        """The program drops a column whose commits are forgotten: nobody here knows its values."""
        for row in self.base.rows.values():
            row.lose(column)

    def join_again(self, name, accepted):
        """The store as a new member: its commits that are not accepted become the first ones of the new name (F29)."""
        other = Replica(name, self.schema)
        other.former, other.time, other.clock = self.former | {self.name}, self.time, self.clock
        names = {}
        for commit in self.log.values():
            if accepted(commit):
                other.join_writes(commit, commit.writes)
                other.end_commit(commit)
            elif on('refused-become-own'):
                renamed = other.renamed(commit, names)
                names[commit.dot] = renamed.dot
                other.join_writes(renamed, renamed.writes)
                other.end_commit(renamed)
                other.made.append(renamed)
        return other

    def renamed(self, commit, names):
        """A refused commit as one of this store: it names the renamed ones, and no refused one."""
        context = {a: tuple(t for t in tips if (a, t) not in names) for a, tips in commit.context}
        context = {a: tips for a, tips in context.items() if tips}
        own = [names[a, t][1] for a, tips in commit.context for t in tips if (a, t) in names]
        if own:
            context[self.name] = (max(own, key=len),)
        writes = tuple(w._replace(incarnation=names.get(w.incarnation, w.incarnation)) for w in commit.writes)
        time = commit.time if on('renamed-keep-times') else self.next_time()
        return Commit(self.name, self.own_tip() + self.letter, time, frozen(context), writes)

    def forget(self, tombstones=True):
        self.log = {}
        if tombstones:
            self.base.forget()
            self.grave = {p: r for p, r in self.grave.items() if p in self.base.dead or p in self.deleted}


class Snapshot:
    def __init__(self, base, time, reader=False):
        self.base, self.time, self.reader = base, time, reader


def without_contents(commit):
    """the draft read literally: a number names a commit, whatever its content."""
    def plain(path):
        return 'o' * len(path)
    context = tuple(sorted((a, tuple(sorted({plain(t) for t in tips}))) for a, tips in commit.context))
    writes = tuple(w._replace(incarnation=w.incarnation and (w.incarnation[0], plain(w.incarnation[1]))) for w in commit.writes)
    return commit._replace(path=plain(commit.path), context=context, writes=writes)
