"""A row of the base: cells with the greatest stamp, and counters with the sum of each author."""
from rules import on


def dot_of(stamp):
    return (stamp[2], stamp[3])


def branch_of(path):
    """The run of equal letters at the end: 'ooqqq' and 'ooq' are one branch."""
    return path.rstrip(path[-1]) + path[-1]


def later(one, other):
    """Of two sums of one author the one that counts more commits. Equal numbers: the greater, so that the join is a function."""
    return max(one, other, key=lambda counted: (len(counted[0]), counted))


class Row:
    """One incarnation of a key.

    born      stamp of the insertion, kept by a revival: the age of the row
    cells     column -> (stamp, value)
    counters  column -> {(origin incarnation, author, branch): (path of the last commit counted, sum)}
    unknown   column -> stamp of the latest value, which a snapshot did not have (F27)
    """

    def __init__(self, born):
        self.born, self.cells, self.counters, self.unknown = born, {}, {}, {}

    def copy(self):
        row = Row(self.born)
        row.cells = dict(self.cells)
        row.counters = {c: dict(s) for c, s in self.counters.items()}
        row.unknown = dict(self.unknown)
        return row

    def frozen(self):
        counters = tuple(sorted((c, tuple(sorted(sums.items()))) for c, sums in self.counters.items()))
        return (self.born, tuple(sorted(self.cells.items())), counters, tuple(sorted(self.unknown.items())))

    @staticmethod
    def thawed(value):
        row = Row(value[0])
        row.cells = dict(value[1])
        row.counters = {c: dict(s) for c, s in value[2]}
        row.unknown = dict(value[3])
        return row

    def dots(self):
        """The writes whose values the row has."""
        found = {dot_of(stamp) for stamp, _ in self.cells.values()} | {dot_of(stamp) for stamp in self.unknown.values()}
        return found | {(author, path) for sums in self.counters.values() for (_, author, _), (path, _) in sums.items()}

    def write(self, stamp, cells, steps, origin):
        for column, value in cells:
            if column not in self.cells or self.cells[column][0] < stamp or not on('older-write-loses'):
                self.cells[column] = (stamp, value)
        self.forget_found()
        for column, step in steps:
            sums = self.counters.setdefault(column, {})
            source = (origin, stamp[2], branch_of(stamp[3]))
            path, total = sums.get(source, ('', 0))
            if len(path) < len(stamp[3]) or not on('counter-number'):
                sums[source] = (stamp[3], total + step)

    def join(self, other):
        """Joins another state of the same incarnation."""
        for column, cell in other.cells.items():
            mine = self.cells.get(column, cell)
            if mine[0] < cell[0] or mine[0] == cell[0] and repr(mine[1]) < repr(cell[1]) and on('one-value-for-a-stamp'):
                mine = cell
            self.cells[column] = mine
        for column, sums in other.counters.items():
            mine = self.counters.setdefault(column, {})
            for source, counted in sums.items():
                mine[source] = later(mine.get(source, counted), counted)
        for column, stamp in other.unknown.items():
            self.unknown[column] = max(stamp, self.unknown.get(column, stamp))
        self.forget_found()

    def forget_found(self):
        """Values that are known are not unknown."""
        if self.unknown and on('unknown-yields'):
            self.unknown = {c: s for c, s in self.unknown.items() if c not in self.cells or self.cells[c][0] < s}

    def lose(self, column):
        """The program drops the column, and no commit has the value any more."""
        if column in self.cells:
            self.unknown[column] = self.cells.pop(column)[0]


def merged(rows):
    """The row that several incarnations of one key show: age, {column: (stamp, value)}, {counter: total}."""
    whole = rows[0].copy()
    for row in rows[1:]:
        whole.join(row)
    totals = {column: sum(total for _, total in parts.values()) for column, parts in whole.counters.items()}
    return min(row.born for row in rows), whole.cells, totals
