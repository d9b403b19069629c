"""Sequences of events by hand. Each returns {property that fails: sentence}: nothing with all rules, see cases.py."""
from knowledge import Write, frozen, union
from remote import Remote
from program import run as transaction
from properties import removed_members_write_nothing_new
from replica import Replica, Snapshot
from rules import on
from script import Script
from schema import Column, Schema, Table
from worlds import PLAIN, VERSION1

X0 = ('insert', 't', '1', {'x': 'x0'})


def put(value, pk='1'):
    return ('set', 't', pk, {'x': value})


def begin(names, schema=VERSION1):
    script = Script(names, schema)
    script.do(names[0], X0)
    script.give(names[0], *names[1:])
    return script


def a_wrong_clock_once():
    """a writes once with a clock that is ahead; then its clock is right. When all know it, b writes, and c later."""
    s = begin('abc')
    s.clock(10, 'b', 'c')
    s.clock(1000000, 'a')
    s.do('a', put('wrong'))
    s.clock(11, 'a')
    s.do('a', ('insert', 't', '2', {'x': 'later row'}))
    s.give('a', 'b', 'c')
    s.do('b', put('by b at 10'))
    s.give('b', 'a', 'c')
    s.clock(50, 'a', 'b', 'c')
    s.do('b', put('by b at 50'))
    s.do('b', put('by b at 51'))
    s.clock(70, 'a', 'b', 'c')
    s.do('c', put('by c at 70'))

    def of_two_concurrent_writes_by_right_clocks_the_later_wins(run):
        value = dict(run.replicas[0].shown()[0]['t', '1'])['x']
        return None if value == 'by c at 70' else 'shows %s' % value
    return s.failures([of_two_concurrent_writes_by_right_clocks_the_later_wins])


def a_clock_of_1970():
    """b's clock stands at 0, the others are right."""
    s = begin('abc')
    s.clock(1000000, 'a', 'c')
    s.do('a', put('a'))
    s.give('a', 'b', 'c')
    s.do('b', put('b'))
    return s.failures()


def a_restamp():
    """a writes with a clock that is 500 ahead, receives a concurrent write, then its clock is set right: it restamps."""
    s = begin('abc')
    s.clock(500, 'a')
    wrong = s.do('a', put('a'))
    s.clock(5, 'b')
    s.do('b', put('b'))
    s.give('b', 'a', 'c')
    s.clock(7, 'a')
    time = 8 if on('restamp-above-joined') else 2
    s['a'].restamp([wrong], time)
    s.events.append('a restamps its commit to %d' % time)
    s.run.history = tuple(s['a'].log[c.dot] if c.dot == wrong.dot else c for c in s.run.history)
    return s.failures()


def two_updates_and_a_deletion():
    """a and c update two cells of a row; b deletes it. Both updates have to be shown."""
    s = Script('abc', PLAIN)
    s.do('a', ('insert', 't', '1', {'x': 'x0', 'y': 'y0'}))
    s.give('a', 'b', 'c')
    s.do('a', put('a'))
    s.do('c', ('set', 't', '1', {'y': 'c'}))
    s.do('b', ('delete', 't', '1', {}))
    s.give('b', 'a', 'c')
    return s.failures()


def an_author_that_is_lost():
    """a's update reaches b; a never comes back. c has deleted the row without knowing the update."""
    s = begin('abc')
    s.do('a', put('a'))
    s.give('a', 'b')
    s.lose('a')
    s.do('c', ('delete', 't', '1', {}))
    return s.failures()


def a_deleter_that_joins_a_snapshot():
    """As before, but c learns of the update by a snapshot of b, who has forgotten the commits."""
    s = begin('abc')
    s.do('a', put('a'))
    s.give('a', 'b')
    s.lose('a')
    s.do('c', ('delete', 't', '1', {}))
    s.give('c', 'b')
    snapshot = s['b'].snapshot()
    s['b'].forget()
    s.events.append('b makes a snapshot and forgets the commits')
    s.join('c', snapshot)
    return s.failures()


def a_restored_store():
    """a's update reaches b, a is restored from an older backup and takes a new name. c deletes, reaches b, and is lost."""
    s = begin('abc')
    backup = s['a'].copy()
    s.do('a', put('a'))
    s.give('a', 'b')
    s.run.replicas[0] = backup
    backup.letter = 'r'
    backup.former, backup.name = {'a'}, 'a2'
    s.events.append('a is restored from before its update')
    s.do('a2', ('insert', 't', '3', {'x': 'after the restore'}))
    s.do('c', ('delete', 't', '1', {}))
    s.give('c', 'b')
    s.lose('c')
    return s.failures()


def a_restored_store_that_writes():
    """a is restored and writes under its old name before it meets its own later commits: an honest fork."""
    s = begin('abc')
    backup = s['a'].copy()
    s.do('a', put('before the restore'))
    s.give('a', 'b')
    s.run.replicas[0] = backup
    backup.letter = 'r'
    s.do('a', ('insert', 't', '2', {'x': 'after the restore'}))
    s.give('a', 'c')
    s.do('b', put('b knew it'))
    s.do('c', put('c', '2'))
    return s.failures()


def a_lie_of_two_contents():
    """l gives b and c two commits with one number; b and c build on them."""
    s = begin('lbc')
    other = s['l'].copy()
    s['l'].letter, other.letter = 'p', 'q'
    p = transaction(s['l'], [('insert', 't', '2', {'x': 'told to b'})])
    q = transaction(other, [('insert', 't', '3', {'x': 'told to c'})])
    s.events += ['l makes %s and %s with one number' % (p.dot, q.dot)]
    s.run.history += (p, q)
    s['l'].made = []
    for name, commit in (('b', p), ('c', q)):
        s[name].fetch(commit)
        s[name].begin(s[name].waiting()[0])
    s.lose('l')
    s.do('b', put('b', '2'))
    s.do('c', put('c', '3'))
    return s.failures()


def a_removed_writer_that_is_silent():
    return a_removed_writer(True)


def a_removed_writer_that_others_knew():
    return a_removed_writer(False)


def a_removed_writer(silent):
    """x removes m, whose last commit reaches b alone, before b knows of the removal."""
    s = begin('xbdm')
    s.do('m', put('m'))
    s.give('m', 'b')
    if not silent:
        s.do('b', put('b knew m'))
    s['x'].commit([Write('remove', ('member', 'm'))])
    s.run.collect()
    s.events.append('x removes m')
    s.give('x', 'd')
    s.lose('m')
    return s.failures()


def a_removed_writer_that_goes_on():
    """Everybody knows that m is removed; m writes."""
    s = begin('xbm')
    s['x'].commit([Write('remove', ('member', 'm'))])
    s.run.collect()
    s.give('x', 'b')
    s.run.void = frozenset([s.do('m', put('m')).dot])
    s.run.replicas = [r for r in s.run.replicas if r.name != 'm'] + [s['m']]
    removed = s['m']
    s.lose('m')
    for r in s.run.replicas:
        for commit in removed.log.values():
            r.fetch(commit)
        while r.waiting():
            r.begin(r.waiting()[0])
    problem = removed_members_write_nothing_new(s.run)
    return {removed_members_write_nothing_new.__name__: problem} if problem else {}


def a_reader_makes_a_snapshot():
    """A reader, who may not write, makes a snapshot that lacks a row."""
    s = begin('ab')
    s.do('b', put('b'))
    base = s['a'].base.snapshot()
    base.rows.clear()
    base.vector = union(base.vector, s['b'].vector)
    s.join('b', Snapshot(base, 9, reader=True))
    return s.failures()


def two_incarnations_and_a_wrong_clock():
    """a and b insert one key; a's clock is ahead. b knows both and updates."""
    s = Script('ab', VERSION1)
    s.clock(500, 'b')
    s.clock(100000, 'a')
    s.do('b', X0)
    s.do('a', ('insert', 't', '1', {'x': 'a'}))
    s.clock(1, 'a')
    s.give('a', 'b')
    s.do('b', put('b'))
    return s.failures()


def two_snapshots_at_a_remote():
    """b and d put snapshots, neither of which covers the other; then a newcomer begins."""
    s = begin('bd')
    remote = Remote()
    s.do('b', put('b'))
    s.do('d', ('insert', 't', '2', {'x': 'd'}))
    for name in 'bd':
        remote.put_commits(s[name])
    for name in 'bd':
        remote.put_snapshot(s[name].snapshot())
        s.events.append('%s puts a snapshot' % name)
        s[name].forget()
    newcomer = Replica('n', VERSION1)
    remote.give(newcomer)
    if frozen(newcomer.vector) != frozen(union(s['b'].vector, s['d'].vector)):
        return {'everybody_receives_everything': 'the newcomer has %s' % newcomer.vector}
    return {}


def a_revival_after_an_insertion():
    """d replaces a value with a far time, deletes the row and inserts it anew; e, who has deleted it too, revives it."""
    s = begin('ed')
    s.clock(100000, 'e')
    s.do('e', put('far'))
    s.give('e', 'd')
    s.clock(20, 'e', 'd')
    s.do('d', put('d'))
    early = [s['d'].log[c.dot] for c in s.run.history if c.author == 'd']
    s.do('d', ('delete', 't', '1', {}))
    s.do('d', ('insert', 't', '1', {'x': 'd anew'}))
    s.do('e', ('delete', 't', '1', {}))
    for commit in early:
        s['e'].fetch(commit)
        s['e'].begin(commit)
    s.events.append('e receives the update of d, not yet its deletion, and revives the row')
    s.run.collect()
    return s.failures()


def an_insertion_of_a_hidden_key():
    """b's row 2 is hidden at a, because a's older row has its unique value. a's program inserts a row 2."""
    s = Script('ab', Schema(Table('t', (Column('u', unique=True), Column('n', counter=True)))))
    s.do('a', ('insert', 't', '1', {'u': 1}))
    s.do('b', ('insert', 't', '2', {'u': 1, 'n': 10}))
    s.give('b', 'a')
    s.do('a', ('insert', 't', '2', {'u': 2}))
    return s.failures()


def a_forged_snapshot():
    """l, a writer, makes a snapshot with another value under a stamp of b. Rows may be wrong then, but equal everywhere."""
    s = begin('bcl')
    s.do('b', put('b'))
    s.give('b', 'c', 'l')
    forged = s['l'].base.snapshot()
    for row in forged.rows.values():
        row.cells['x'] = (row.cells['x'][0], 'forged')
    s.run.snapshots = [Snapshot(forged, 9)]
    return {name: problem for name, problem in s.failures().items() if name == 'the_join_is_commutative'}
