"""What a program does to its tables, and the writes that capture makes of it.

An action is (verb, table, primary key, values). It acts on shown rows and fails as SQLite would fail it: then no commit is made.
"""
from knowledge import Write
from rows import merged
from rules import on
from shown import Candidate, fits


def run(replica, actions):
    """Performs the actions as one transaction. Returns the commit, or None if a constraint refuses it."""
    rows, writes = {k: dict(v) for k, v in replica.shown()[0].items()}, []
    for verb, table, pk, values in actions:
        made = ACTIONS[verb](replica, rows, (table, pk), values)
        if made is None:
            return None
        writes += made
    commit = replica.commit(writes) if writes else None
    replica.surprise = commit and surprise(replica, rows, {(table, pk) for _, table, pk, _ in actions})
    return commit


def surprise(replica, rows, keys):
    """What the program reads after its transaction, if it is not what the program wrote."""
    after = replica.shown()[0]
    for key in keys:
        if after.get(key) != (tuple(sorted(rows[key].items())) if key in rows else None):
            return '%s wrote %s of %s and reads %s' % (replica.name, rows.get(key), key, after.get(key))


def insert(replica, rows, key, values):
    table = replica.schema[key[0]]
    if key in rows:
        return None
    hidden = [row for (k, _), row in replica.base.rows.items() if k == key]
    hidden = hidden if on('hidden-row-is-overwritten') else []
    totals = merged(hidden)[2] if hidden else {}
    full = {c.name: totals.get(c.id, 0) if c.counter else c.default for c in table.columns} | values
    if not allowed(replica, rows, key, full):
        return None
    rows[key] = full
    if hidden:                                         # the insertion overwrites the cells of the hidden row
        return update_writes(replica, key, full)
    return [Write('insert', key, None, *split(table, full))]


def update(replica, rows, key, values):
    table = replica.schema[key[0]]
    if key not in rows or not allowed(replica, rows, key, rows[key] | values):
        return None
    rows[key] = rows[key] | values
    names = table.check_group(values) if on('check-writes-group') else values
    return update_writes(replica, key, {n: rows[key][n] for n in names})


def update_writes(replica, key, values):
    cells, _ = split(replica.schema[key[0]], values)
    return [Write('update', key, replica.base.incarnations(key)[-1], cells)]


def step(replica, rows, key, values):
    table = replica.schema[key[0]]
    if key not in rows:
        return None
    after = rows[key] | {n: rows[key][n] + s for n, s in values.items()}
    if not allowed(replica, rows, key, after):
        return None
    rows[key] = after
    steps = tuple(sorted((table.column(n).id, s) for n, s in values.items()))
    return [Write('update', key, replica.base.incarnations(key)[-1], (), steps)]


def delete(replica, rows, key, _):
    if key not in rows:
        return None
    del rows[key]
    writes = [Write('delete', key, i) for i in replica.base.incarnations(key)]
    for table, column in replica.schema.children(key[0]):
        for child in [k for k, v in rows.items() if k[0] == table.name and v[column.name] == key[1]]:
            made = follow(replica, rows, child, column)
            if made is None:
                return None
            writes += made
    return writes


def follow(replica, rows, child, column):
    """ON DELETE on the device of the deletion."""
    if column.on_delete == 'cascade':
        return delete(replica, rows, child, None)
    if column.on_delete == 'set null':
        return update(replica, rows, child, {column.name: None})
    if column.on_delete == 'set default':
        return update(replica, rows, child, {column.name: column.default})
    return None


def split(table, values):
    cells = tuple(sorted((table.column(n).id, v) for n, v in values.items() if not table.column(n).counter))
    steps = tuple(sorted((table.column(n).id, v) for n, v in values.items() if table.column(n).counter and v))
    return cells, steps


def allowed(replica, rows, key, values):
    """Whether SQLite takes the row beside the shown ones."""
    table = replica.schema[key[0]]
    if fits(Candidate(key, None, values, {}), table):
        return False
    for column in table.columns:
        value = values[column.name]
        if value is None:
            continue
        if column.unique and any(k != key and k[0] == key[0] and v[column.name] == value for k, v in rows.items()):
            return False
        if column.parent and (column.parent, value) not in rows and (column.parent, value) != key:
            return False
    return True


ACTIONS = {'insert': insert, 'set': update, 'step': step, 'delete': delete}
