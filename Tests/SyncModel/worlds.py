"""Small worlds: a schema for each replica, rows to begin with, and a menu of transactions. Each world is explored whole."""
from schema import Check, Column, Schema, Table


class World:
    def __init__(self, name, schemas, start, menu, slice_rows=0, commits=4):
        self.name, self.schemas, self.start, self.menu = name, schemas, start, menu
        self.slice_rows, self.commits = slice_rows, commits


def at_most(limit):
    return lambda a, b: a is None or b is None or a + b <= limit


PLAIN = Schema(Table('t', (Column('x'), Column('y'))))
WINS = Schema(Table('t', (Column('x'),), deletions_win=True))
UNIQUE = Schema(Table('t', (Column('u', unique=True),)))
COUNTER = Schema(Table('t', (Column('x'), Column('n', counter=True))))
CHECK = Schema(Table('t', (Column('x'), Column('y')), (Check(('x', 'y'), at_most(10)),)))


def family(on_delete, **options):
    return Schema(Table('p', (Column('x'),)), Table('c', (Column('parent', parent='p', on_delete=on_delete, **options),)))


SELF = Schema(Table('t', (Column('u', unique=True), Column('boss', parent='t', on_delete='cascade'))))
OLD = Schema(Table('t', (Column('old'),)))
NEW = Schema(Table('t', (Column('new', identity='old'), Column('old', identity='old@2', default='d'))))
VERSION1 = Schema(Table('t', (Column('x'),)))
VERSION2 = Schema(Table('t', (Column('x'), Column('z', default='d'), Column('w', not_null=True, default=0))))


def value(author, number, column):
    return '%s%d%s' % (author, number, column)


def plain_menu(a, n):
    return [[('insert', 't', '1', {'x': value(a, n, 'x'), 'y': value(a, n, 'y')})], [('set', 't', '1', {'x': value(a, n, 'x')})],
            [('set', 't', '1', {'y': value(a, n, 'y')})], [('delete', 't', '1', {})]]


def wins_menu(a, n):
    x = {'x': value(a, n, 'x')}
    return [[('insert', 't', '1', x)], [('set', 't', '1', x)], [('delete', 't', '1', {})]]


def sliced_menu(a, n):
    """Two rows in one commit, so that there is a moment between its slices, and single rows for that moment."""
    x = {'x': value(a, n, 'x')}
    return [[('insert', 't', '1', x), ('insert', 't', '2', x)], [('set', 't', '1', x), ('set', 't', '2', x)],
            [('set', 't', '1', x)], [('delete', 't', '1', {})], [('delete', 't', '1', {}), ('delete', 't', '2', {})]]


def unique_menu(a, n):
    return [[('insert', 't', a, {'u': 1})], [('insert', 't', '1', {'u': 2})], [('set', 't', '1', {'u': 1})],
            [('delete', 't', '1', {})], [('delete', 't', a, {})]]


def counter_menu(a, n):
    step = 10 ** (2 * n + (a == 'b'))
    return [[('step', 't', '1', {'n': step})], [('delete', 't', '1', {})], [('set', 't', '1', {'x': value(a, n, 'x')})],
            [('insert', 't', '1', {'x': value(a, n, 'x'), 'n': step})]]


def sliced_counter_menu(a, n):
    step = {'n': 10 ** (2 * n + (a == 'b'))}
    return [[('step', 't', '1', step), ('step', 't', '2', step)], [('set', 't', '1', {'x': value(a, n, 'x')})],
            [('delete', 't', '1', {})]]


def check_menu(a, n):
    return [[('set', 't', '1', values)] for values in ({'x': 7}, {'y': 8}, {'x': 0}, {'y': 1})]


def family_menu(a, n):
    return [[('insert', 'p', '1', {'x': value(a, n, 'x')})], [('delete', 'p', '1', {})], [('insert', 'c', '1', {'parent': '1'})],
            [('delete', 'c', '1', {})]]


def self_menu(a, n):
    other = 'a' if a == 'b' else 'b'
    return [[('set', 't', a, {'boss': other})], [('set', 't', a, {'u': 3})], [('set', 't', a, {'u': 3, 'boss': other})],
            [('delete', 't', a, {})]]


def rename_menu(a, n):
    names = ['old'] if a == 'a' else ['old', 'new']
    return [[('set', 't', '1', {name: value(a, n, name)})] for name in names] + [[('delete', 't', '1', {})]]


def version_menu(a, n):
    names = ['x'] if a == 'a' else ['x', 'z']
    return [[('set', 't', '1', {name: value(a, n, name)})] for name in names] + [
        [('delete', 't', '1', {})], [('insert', 't', '1', {name: value(a, n, name) for name in names})]]


def relay_menu(a, n):
    """Three replicas: the third one only receives, makes snapshots and passes on."""
    x = {'x': value(a, n, 'x')}
    return {'a': [[('set', 't', '1', x)], [('insert', 't', '1', x)]],
            'b': [[('delete', 't', '1', {})], [('set', 't', '1', x)]], 'c': []}[a]


def sliced_relay_menu(a, n):
    """One makes commits of two rows, another writes single rows, perhaps between two slices; the third one receives."""
    x = {'x': value(a, n, 'x')}
    return {'a': [[('insert', 't', '1', x), ('insert', 't', '2', x)], [('set', 't', '1', x), ('set', 't', '2', x)]],
            'b': [[('delete', 't', '1', {})], [('set', 't', '1', x)]], 'c': []}[a]


ROW = [[('insert', 't', '1', {'x': 'x0', 'y': 'y0'})]]
ROWS = [[('insert', 't', '1', {'x': 'x0'}), ('insert', 't', '2', {'x': 'x0'})]]
PARENT = [[('insert', 'p', '1', {'x': 'x0'})]]

WORLDS = [
    World('rows', [PLAIN, PLAIN], ROW, plain_menu),
    World('deletions win', [WINS, WINS], [], wins_menu),
    World('slices', [VERSION1, VERSION1], ROWS, sliced_menu, slice_rows=1, commits=3),
    World('three', [VERSION1] * 3, [[('insert', 't', '1', {'x': 'x0'})]], relay_menu, commits=2),
    World('slices of three', [VERSION1] * 3, [], sliced_relay_menu, slice_rows=1, commits=2),
    World('unique', [UNIQUE, UNIQUE], [], unique_menu),
    World('counters', [COUNTER, COUNTER], [[('insert', 't', '1', {'x': 'x0'})]], counter_menu),
    World('counters in slices', [COUNTER, COUNTER],
          [[('insert', 't', '1', {'x': 'x0'}), ('insert', 't', '2', {'x': 'x0'})]],
          sliced_counter_menu, slice_rows=1, commits=3),
    World('check', [CHECK, CHECK], [[('insert', 't', '1', {'x': 1, 'y': 2})]], check_menu),
    World('restrict', [family('restrict')] * 2, PARENT, family_menu),
    World('cascade', [family('cascade')] * 2, PARENT, family_menu),
    World('set null', [family('set null')] * 2, PARENT, family_menu),
    World('set null not null', [family('set null', not_null=True)] * 2, PARENT, family_menu),
    World('set default unique', [family('set default', default='0', unique=True)] * 2,
          [[('insert', 'p', '0', {'x': 'x0'}), ('insert', 'p', '1', {'x': 'x0'})]],
          lambda a, n: [[('delete', 'p', '1', {})], [('insert', 'c', a, {'parent': '1'})], [('insert', 'c', a, {'parent': '0'})],
                        [('insert', 'p', '1', {'x': value(a, n, 'x')})]]),
    World('self reference', [SELF, SELF],
          [[('insert', 't', 'a', {'u': 1, 'boss': None})], [('insert', 't', 'b', {'u': 2, 'boss': None})]], self_menu),
    World('renames', [OLD, NEW], [[('insert', 't', '1', {'old': 'x0'})]], rename_menu),
    World('versions', [VERSION1, VERSION2], [[('insert', 't', '1', {'x': 'x0'})]], version_menu),
]
