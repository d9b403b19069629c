"""Stories of stores that lack something: values, old deletions, or their own name. See stories.py."""
from knowledge import Write
from script import Script
from stories import VERSION1, begin, put


def a_column_that_a_store_drops():
    """c joins by a snapshot and drops column x, so it does not know the values. d begins with a snapshot of c."""
    s = begin('acd')
    s.do('a', put('a'))
    s.do('a', ('insert', 't', '2', {'x': 'second'}))
    snapshot = s['a'].snapshot()
    s.join('c', snapshot)
    s['c'].log = {}
    s['c'].drop('x')
    s.events.append('c drops x')
    s.do('c', ('insert', 't', '3', {'x': 'of c'}))
    s.join('d', s['c'].snapshot())
    s.do('d', put('of d', '2'))
    s.give('c', 'a')
    s.run.snapshots = [s['c'].snapshot(), s['a'].snapshot()]
    return s.failures()


def a_key_that_is_deleted_often():
    """c knows one deletion of a key. a updates a row, b deletes it and inserts the key anew, often. b is lost."""
    s = begin('abc')
    s['c'].most_dead = 1
    s.clock(50, 'a')
    s.do('a', put('a'))
    s.give('a', 'c')
    for number in range(3):
        s.do('b', ('delete', 't', '1', {}))
        s.do('b', ('insert', 't', '1', {'x': 'b %d' % number}))
    s.do('b', ('delete', 't', '1', {}))
    s.give('b', 'c')
    snapshot = s['c'].snapshot()
    s['c'].forget(tombstones=False)
    s.lose('b')
    s.join('a', snapshot)
    return s.failures()


def a_key_that_is_deleted_often_between_slices():
    """b knows one deletion of a key. It deletes a row twice between two slices of the commit that inserts it."""
    s = Script('ab', VERSION1)
    s['b'].slice_rows, s['b'].most_dead = 1, 1
    s.do('a', ('insert', 't', '1', {'x': 'a'}), ('insert', 't', '2', {'x': 'a'}))
    commit = s.run.history[0]
    s['b'].fetch(commit)
    s['b'].begin(commit)
    s['b'].step()
    s.events.append('b joins the first slice')
    s.do('b', ('delete', 't', '1', {}))
    s.do('b', ('insert', 't', '1', {'x': 'b'}))
    s.do('b', ('delete', 't', '1', {}))
    s['b'].kill()
    s.events.append('b is killed')
    return s.failures()


def a_store_that_joins_again():
    """x has removed m, who goes on writing. m joins again as n. b has written a cell later than m, without knowing m's."""
    s = begin('xbm')
    s.clock(5, 'x', 'b', 'm')
    s['x'].commit([Write('remove', ('member', 'm'))])
    s.run.collect()
    s.give('x', 'b')
    refused = [s.do('m', put('m')), s.do('m', ('insert', 't', '2', {'x': 'of m'})), s.do('m', put('of m, later', '2'))]
    s.clock(50, 'x', 'b', 'm')
    s.do('b', put('b at 50'))
    s.give('b', 'x')
    s.run.void = frozenset(c.dot for c in refused)
    before = s['m'].shown()[0]
    again = s['m'].join_again('n', lambda commit: commit.dot not in s.run.void)
    after = again.shown()[0]
    s.lose('m')
    s.run.history = tuple(c for c in s.run.history if c.dot not in s.run.void)
    s.run.replicas.append(again)
    s.events.append('m joins again as n')
    s.run.collect()

    def a_store_that_joins_again_keeps_its_rows(run):
        return None if before == after else '%s became %s' % (before, after)

    def of_two_concurrent_writes_by_right_clocks_the_later_wins(run):
        value = dict(run.replicas[0].shown()[0]['t', '1'])['x']
        return None if value == 'b at 50' else 'shows %s' % value
    return s.failures([a_store_that_joins_again_keeps_its_rows, of_two_concurrent_writes_by_right_clocks_the_later_wins])
