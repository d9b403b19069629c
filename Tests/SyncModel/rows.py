"""A row of the base: cells with the values of concurrent writes, and counters with the sum of each author."""
from rules import on


def dot_of(stamp):
    return (stamp[1], stamp[2])


def branch_of(path):
    """The run of equal letters at the end: 'ooqqq' and 'ooq' are one branch."""
    return path.rstrip(path[-1]) + path[-1]


class Row:
    """One incarnation of a key.

    born      stamp of the insertion, kept by a revival: the age of the row
    cells     column -> {stamp: value}; more than one where writes did not know each other
    counters  column -> {(origin incarnation, author, branch): (path of the last commit counted, sum)}
    """

    def __init__(self, born):
        self.born, self.cells, self.counters = born, {}, {}

    def copy(self):
        row = Row(self.born)
        row.cells = {c: dict(s) for c, s in self.cells.items()}
        row.counters = {c: dict(s) for c, s in self.counters.items()}
        return row

    def frozen(self):
        return (self.born, tuple(sorted((c, tuple(sorted(s.items()))) for c, s in self.cells.items())),
                tuple(sorted((c, tuple(sorted(s.items()))) for c, s in self.counters.items())))

    @staticmethod
    def thawed(value):
        row = Row(value[0])
        row.cells = {c: dict(s) for c, s in value[1]}
        row.counters = {c: dict(s) for c, s in value[2]}
        return row

    def dots(self):
        """The writes that the row still shows traces of."""
        found = {dot_of(stamp) for siblings in self.cells.values() for stamp in siblings}
        return found | {(author, path) for sums in self.counters.values() for (_, author, _), (path, _) in sums.items()}

    def write(self, stamp, cells, steps, origin, knowledge):
        for column, value in cells:
            siblings = self.cells.setdefault(column, {})
            if on('siblings'):
                if on('older-write-loses'):
                    for other in [s for s in siblings if dot_of(s) in knowledge]:
                        del siblings[other]
                siblings[stamp] = value
            elif all(other < stamp for other in siblings) or not on('older-write-loses'):
                self.cells[column] = {stamp: value}
        for column, step in steps:
            sums = self.counters.setdefault(column, {})
            source = (origin, stamp[1], branch_of(stamp[2]))
            path, total = sums.get(source, ('', 0))
            if len(path) < len(stamp[2]) or not on('counter-number'):
                sums[source] = (stamp[2], total + step)

    def join(self, other, covered_here, covered_there):
        """Joins another state of the same incarnation. A write that one side covers and does not have was replaced there."""
        for column in set(self.cells) | set(other.cells):
            mine, theirs = self.cells.get(column, {}), other.cells.get(column, {})
            joined = {s: v for s, v in mine.items() if s in theirs or not covered_there(dot_of(s))}
            joined.update((s, v) for s, v in theirs.items() if s in mine or not covered_here(dot_of(s)))
            if not on('siblings'):
                both = {**theirs, **mine}
                joined = {max(both): both[max(both)]}
            self.cells[column] = joined
        for column, sums in other.counters.items():
            mine = self.counters.setdefault(column, {})
            for source, counted in sums.items():
                if source not in mine or len(mine[source][0]) < len(counted[0]):
                    mine[source] = counted


def merged(rows):
    """The row that several incarnations of one key show: age, {column: (stamp, value)}, {counter: total}."""
    cells, sums = {}, {}
    for row in rows:
        for column, siblings in row.cells.items():
            if siblings:
                best = max(siblings)
                if column not in cells or cells[column][0] < best:
                    cells[column] = (best, siblings[best])
        for column, parts in row.counters.items():
            known = sums.setdefault(column, {})
            for source, counted in parts.items():
                if source not in known or len(known[source][0]) < len(counted[0]):
                    known[source] = counted
    totals = {column: sum(total for _, total in parts.values()) for column, parts in sums.items()}
    return min(row.born for row in rows), cells, totals
