"""Dots, vectors and commits: who wrote what, and what its author knew.

A dot is (author, path). The path has one letter for each commit of the author: 'ooo' is the third one. A member that makes
two commits with one number writes 'oop' and 'ooq': the letters stand for the hash of the content. A vector maps an author to
its tips, which is one path unless the author lied. The stamp of a write is (era, time, author, path); the era is 0 unless
the write replaces a cell whose time is far ahead of the clock of its author.
"""
from typing import NamedTuple


def covers(vector, dot):
    tips = vector.get(dot[0])
    if tips is None:
        return False
    return any(tip.startswith(dot[1]) for tip in tips)


def includes(one, other):
    return all(covers(one, (author, tip)) for author, tips in other.items() for tip in tips)


def union(one, other):
    result = dict(one)
    for author, tips in other.items():
        for tip in tips:
            if not covers(result, (author, tip)):
                result[author] = advanced_tips(result.get(author, ()), tip)
    return result


def advanced_tips(tips, path):
    return tuple(sorted([t for t in tips if not path.startswith(t)] + [path]))


def frozen(vector):
    return tuple(sorted(vector.items()))


class Write(NamedTuple):
    """One row of a commit. Columns are named by identity; seen are the dots in the row that the context lacks."""
    kind: str                     # insert, update, delete; remove (a member); rename (a column); vouch
    key: tuple = ()               # (table, primary key)
    incarnation: tuple = None     # the dot of its insertion; None for the insertion itself
    cells: tuple = ()             # ((column, value), ...)
    steps: tuple = ()             # ((counter column, step), ...)
    seen: frozenset = frozenset()
    copied: object = None         # a revival: the frozen row
    revives: tuple = ()           # a revival: the places that it revives
    era: int = 0


class Commit(NamedTuple):
    author: str
    path: str
    time: int
    context: tuple                # frozen vector
    writes: tuple

    @property
    def dot(self):
        return (self.author, self.path)

    def stamp(self, write):
        return (write.era, self.time, self.author, self.path)

    def place(self, write):
        return (write.key, self.dot if write.kind == 'insert' else write.incarnation)


class Knowledge:
    """What a write of a commit knew: the context, and what it saw in its row beyond the context."""

    def __init__(self, context, seen=frozenset()):
        self.context, self.seen = dict(context), seen

    def __contains__(self, dot):
        return covers(self.context, dot) or dot in self.seen
