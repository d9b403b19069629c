"""Tables as one replica declares them. Columns have a local name and an identity that survives renames."""
from typing import NamedTuple
from rules import on

DECLARED_RENAMES = {'old': 'new'}     # only for the draft read literally: the repository maps names



class Column(NamedTuple):
    name: str
    identity: str = None          # None: the name
    default: object = None
    not_null: bool = False
    counter: bool = False
    unique: bool = False
    parent: str = None            # table that the column references by primary key
    on_delete: str = 'restrict'   # restrict, cascade, set null, set default

    @property
    def id(self):
        return self.identity or self.name if on('column-ids') else DECLARED_RENAMES.get(self.name, self.name)


class Check(NamedTuple):
    columns: tuple                # local names
    holds: object                 # function of their values


class Table(NamedTuple):
    name: str
    columns: tuple
    checks: tuple = ()
    deletions_win: bool = False

    def column(self, name):
        return next(c for c in self.columns if c.name == name)

    def check_group(self, names):
        """The names, and all names that share a CHECK with one of them. Counters are not in groups."""
        group = set(names)
        for check in self.checks:
            if group & set(check.columns):
                group |= {n for n in check.columns if not self.column(n).counter}
        return group


class Schema(dict):
    """name -> Table"""

    def __init__(self, *tables):
        super().__init__((t.name, t) for t in tables)

    def children(self, table):
        return [(t, c) for t in self.values() for c in t.columns if c.parent == table]
