"""The shown rows: a function of the base and the local schema. What cannot be shown is hidden, with a reason."""
from rows import merged
from rules import on


class Candidate:
    """A merged row on its way into the table."""

    def __init__(self, key, born, values, stamps):
        self.key, self.born, self.values, self.stamps = key, born, values, stamps


def candidates(base, schema):
    """One candidate for each key of a local table, with local names and local defaults."""
    groups = {}
    for (key, _), row in base.rows.items():
        if key[0] in schema:
            groups.setdefault(key, []).append(row)
    result = []
    for key, rows in sorted(groups.items()):
        born, cells, totals = merged(rows)
        values, stamps = {}, {}
        for column in schema[key[0]].columns:
            if column.counter:
                values[column.name] = totals.get(column.id, 0)
            elif column.id in cells:
                stamps[column.name], values[column.name] = cells[column.id]
            else:
                values[column.name] = column.default if on('default-is-local') else None
        result.append(Candidate(key, born, values, stamps))
    return sorted(result, key=lambda c: (c.born, c.key))


def fits(candidate, table):
    """Whether the table takes the row by itself; otherwise the reason."""
    for column in table.columns:
        if column.not_null and candidate.values[column.name] is None and on('not-null-is-checked'):
            return 'NOT NULL ' + column.name
    for check in table.checks:
        if not check.holds(*[candidate.values[n] for n in check.columns]):
            return 'CHECK ' + ','.join(check.columns)
    return None


def unique_winners(ordered, schema, hidden):
    """The older row takes a unique value, in the order of age."""
    taken, winners = set(), {}
    for candidate in ordered:
        table = schema[candidate.key[0]]
        values = [(table.name, c.name, candidate.values[c.name]) for c in table.columns
                  if c.unique and candidate.values[c.name] is not None]
        if on('unique-is-checked') and any(v in taken for v in values):
            hidden[candidate.key] = 'UNIQUE'
            continue
        taken.update(values)
        winners[candidate.key] = candidate
    return winners


def orphan_column(candidate, schema, winners):
    for column in schema[candidate.key[0]].columns:
        value = candidate.values[column.name]
        if column.parent and value is not None and (column.parent, value) not in winners:
            return column
    return None


def follow_on_delete(candidate, column, table):
    """Changes the shown row as ON DELETE says. Returns whether it can still be shown."""
    value = candidate.values[column.name]
    if column.on_delete == 'set null' and not column.not_null:
        candidate.values[column.name] = None
    elif column.on_delete == 'set default' and value != column.default:
        candidate.values[column.name] = column.default
    else:
        return False
    return fits(candidate, table) is None


MOST_ROUNDS = 50


def shown(base, schema, corpses=None):
    """The rows of the program's tables and the hidden ones: ({key: values}, {key: reason})."""
    hidden, remaining = {}, []
    everything = candidates(base, schema)
    for candidate in everything:
        reason = fits(candidate, schema[candidate.key[0]])
        if reason:
            hidden[candidate.key] = reason
        else:
            remaining.append(candidate)
    if not on('shown-terminates'):
        winners = fixed_point(remaining, schema)
        return winners, hidden | {c.key: 'other rows' for c in remaining if c.key not in winners}
    for _ in range(MOST_ROUNDS):
        hidden = {k: r for k, r in hidden.items() if r != 'UNIQUE'}
        winners = unique_winners(remaining, schema, hidden)
        if not on('restrict-by-revival'):
            show_corpses(winners, schema, corpses or {})
        gone, changed = orphans(winners, schema, hidden)
        if not gone and not changed:
            return {k: tuple(sorted(c.values.items())) for k, c in winners.items()}, hidden
        remaining = [c for c in remaining if c.key not in gone]
    raise AssertionError('each round removes a row or a value')


def orphans(winners, schema, hidden):
    """Children whose parent is not shown: (keys that are hidden, whether values were changed)."""
    gone, changed, again = set(), False, on('foreign-key-is-checked')
    while again:
        again = False
        for candidate in list(winners.values()):
            column = orphan_column(candidate, schema, winners)
            if column is None:
                continue
            again = True
            if follow_on_delete(candidate, column, schema[candidate.key[0]]):
                changed = True
            else:
                del winners[candidate.key]
                hidden[candidate.key] = 'FOREIGN KEY'
                gone.add(candidate.key)
    return gone, changed


def fixed_point(everything, schema):
    """the draft without an order of the rules: each row is shown if its reasons to be hidden are not shown."""
    def may_show(candidate, current):
        before = [c for c in everything if (c.born, c.key) < (candidate.born, candidate.key) and c.key in current]
        columns = [c.name for c in schema[candidate.key[0]].columns if c.unique]
        clash = any(c.key[0] == candidate.key[0] and c.values[n] == candidate.values[n] for c in before for n in columns)
        return not clash and orphan_column(candidate, schema, current) is None
    current = {c.key: c for c in everything}
    for _ in range(MOST_ROUNDS):
        following = {c.key: c for c in everything if may_show(c, current)}
        if set(following) == set(current):
            return {k: tuple(sorted(c.values.items())) for k, c in current.items()}
        current = following
    return {('shown', 'never settles'): ()}


def show_corpses(winners, schema, corpses):
    """the draft read literally: under RESTRICT a deleted parent of a living child is shown again, from what this store kept."""
    for candidate in list(winners.values()):
        column = orphan_column(candidate, schema, winners)
        if column and column.on_delete == 'restrict':
            parent = (column.parent, candidate.values[column.name])
            for (key, _), row in corpses.items():
                if key == parent and parent not in winners:
                    born, cells, _ = merged([row])
                    values = {c.name: cells.get(c.id, (None, c.default))[1] for c in schema[parent[0]].columns}
                    winners[parent] = Candidate(parent, born, values, {})
