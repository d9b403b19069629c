"""Members and epochs: who may read what is sealed. Explored whole, apart from the rows.

Records are immutable and exchanged in any order: a set. A removal has an author and the records that the author knew.
An epoch has the members for whom its secret is sealed, and the epochs whose secrets it carries.
"""
from itertools import combinations
from typing import NamedTuple

from rules import on

FOUNDERS = ('x', 'y', 'm', 'p')       # in the order of seniority; x and y are admins, m and p are writers
ADMINS = ('x', 'y')


class Removal(NamedTuple):
    author: str
    member: str
    known: frozenset = frozenset()


class Epoch(NamedTuple):
    author: str
    recipients: frozenset
    carries: frozenset = frozenset()


def removals(records):
    """The removals that count: one by an admin that a senior admin has removed without knowing it is void."""
    found = {r for r in records if isinstance(r, Removal)}
    if not on('senior-admin'):
        return found
    return {r for r in found if not any(o.member == r.author and o.author == r.member and r not in o.known and o not in r.known
                                        and FOUNDERS.index(o.author) < FOUNDERS.index(r.author) for o in found)}


def members(records):
    return frozenset(FOUNDERS) - {r.member for r in removals(records)}


def epochs(records):
    return {r for r in records if isinstance(r, Epoch)}


FIRST = Epoch('x', frozenset(FOUNDERS))


def remove(records, author, member):
    """Removing a member begins an epoch."""
    known = records | {Removal(author, member, records)}
    return known | {Epoch(author, members(known), carried(known))}


def carried(records):
    return frozenset(epochs(records)) if on('epoch-chain') else frozenset()


def seal(records, writer):
    """Seals a commit. Returns (records, the epoch of the commit)."""
    now = members(records)
    exact = sorted((e for e in epochs(records) if e.recipients == now), key=repr)
    if exact:
        return records, exact[-1]
    if on('epoch-for-members'):
        fresh = Epoch(writer, now, carried(records))
        return records | {fresh}, fresh
    return records, sorted(epochs(records) - {FIRST} or {FIRST}, key=repr)[-1]


def readable(member, records):
    """The epochs whose secrets a member has: sealed for it, or carried by such an epoch."""
    have = {e for e in epochs(records) if member in e.recipients}
    return have | {c for e in have for c in e.carries}


def histories():
    """All ways in which two admins remove members, knowing each other's record or not: (records, what the second one knew)."""
    start = frozenset([FIRST])
    for first in ('y', 'm'):
        one = remove(start, 'x', first)
        for second in ('x', 'm', 'p'):
            yield one | remove(start, 'y', second)
            if 'y' in members(one) and second in members(one):
                yield remove(one, 'y', second)


def a_removed_member_reads_nothing_new():
    for records in histories():
        for writer in members(records):
            known, epoch = seal(records, writer)
            for removed in frozenset(FOUNDERS) - members(records):
                if epoch in readable(removed, known):
                    return '%s reads what %s seals after %s' % (removed, writer, sorted(removals(records), key=repr))


def every_member_reads_everything():
    """Also a member who joins with the newest epoch only, and a commit that was sealed late with an old epoch."""
    for records in histories():
        for writer in members(records):
            known, epoch = seal(records, writer)
            for member in members(records):
                if epoch not in readable(member, known):
                    return '%s cannot read %s' % (member, epoch)
        newcomer = Epoch('x', members(records) | {'new'}, carried(records))
        late = epochs(records) - readable('new', records | {newcomer})
        if late:
            return 'a newcomer cannot read a late commit of the epoch of %s' % sorted(e.author for e in late)


def somebody_can_always_invite():
    for records in histories():
        if not members(records) & set(ADMINS):
            return 'no admin is left after %s' % sorted(removals(records), key=repr)


def members_do_not_depend_on_the_order():
    for records in histories():
        for r in range(len(records) + 1):
            for part in combinations(sorted(records, key=repr), r):
                joined = frozenset(part) | records
                if members(joined) != members(records):
                    return 'the order matters'


PROPERTIES = [a_removed_member_reads_nothing_new, every_member_reads_everything, somebody_can_always_invite,
              members_do_not_depend_on_the_order]


def failures():
    return {p.__name__: problem for p in PROPERTIES if (problem := p())}
