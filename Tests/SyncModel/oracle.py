"""The oracle: from all commits at once, what the rows have to be. It shares no code with the join."""
from knowledge import covers


def living(history, vector):
    """{(key, incarnation): (born, {column: (stamp, value)}, {column: {source: sum}})} of the commits that a vector covers."""
    commits = [c for c in history if covers(vector, c.dot)]
    dead = {(w.key, w.incarnation) for c in commits for w in c.writes if w.kind == 'delete'}
    result = {}
    for commit in commits:
        for write in commit.writes:
            place = commit.place(write)
            if write.kind == 'insert' and place not in dead:
                result[place] = row_of(commit, write, place, commits)
    return result


def row_of(insertion, write, place, commits):
    born, cells, sums = insertion.stamp(write), {}, {}
    if write.copied:
        born = write.copied[0]
        cells = dict(write.copied[1])
        sums = {c: {source: total for source, (_, total) in s} for c, s in write.copied[2]}
    for commit, w in [(c, w) for c in commits for w in c.writes if c.place(w) == place]:
        for column, value in w.cells:
            cells[column] = max(cells.get(column, (commit.stamp(w), value)), (commit.stamp(w), value), key=lambda cell: cell[0])
        for column, step in w.steps:
            source = (place[1], commit.author, commit.path.rstrip(commit.path[-1]) + commit.path[-1])
            total = sums.setdefault(column, {})
            total[source] = total.get(source, 0) + step
    return born, cells, sums


def of_base(base):
    return {place: (row.born, row.cells, {c: {source: total for source, (_, total) in s.items()}
                                          for c, s in row.counters.items()}) for place, row in base.rows.items()}
