"""The properties, by name. Each function returns None, or a sentence that says what is wrong.

EACH_STATE hold at every state of a run; SETTLED hold after everybody has exchanged everything.
A run has: replicas (list of Replica), history (all commits ever made), snapshots (list of Snapshot).
"""
from base import joined
from knowledge import Knowledge, covers, frozen, includes
import oracle
from replica import Replica
from rows import merged
from shown import Candidate, fits


CHECKED = set()                   # what an exploration has checked already; cleared by its begin


def digest(state):
    """A hash of a state that does not change any more (of an exploration), computed once."""
    if not hasattr(state, 'digest'):
        state.digest = hash(state.frozen())
    return state.digest


def first_time(run, name, *states):
    """Whether a property has to be checked for these states. Runs whose states change in place check always."""
    if not run.immutable:
        return True
    key = (name,) + tuple(digest(s) for s in states)
    if key in CHECKED:
        return False
    CHECKED.add(key)
    return True


def shown_of(run, replica):
    if not run.immutable:
        return replica.shown()
    if not hasattr(replica, 'shows'):
        replica.shows = replica.shown()
    return replica.shows


def whole(run):
    """The replicas that are not between two slices and lack no values: their rows are what their vector says."""
    return [r for r in run.replicas if not r.is_ahead() and not r.base.lacks_values()]


def rows_are_what_the_commits_of_the_vector_give(run):
    for r in whole(run):
        if not first_time(run, 'rows', r):
            continue
        expected, found = oracle.living(run.history, r.vector), oracle.of_base(r.base)
        if without_empty(expected) != without_empty(found):
            return '%s has %s, expected %s' % (r.name, found, expected)


def without_empty(rows):
    return {p: (b, cells, {c: s for c, s in sums.items() if s})
            for p, (b, cells, sums) in rows.items()}


def equal_vectors_mean_equal_rows(run):
    for r in whole(run):
        for other in whole(run):
            if r.name < other.name and frozen(r.vector) == frozen(other.vector):
                if r.base.frozen_rows() != other.base.frozen_rows():
                    return '%s and %s' % (r.name, other.name)


def equal_vectors_and_schemas_mean_equal_shown_rows(run):
    for r in whole(run):
        for other in whole(run):
            if r.name < other.name and r.schema == other.schema and frozen(r.vector) == frozen(other.vector):
                if shown_of(run, r) != shown_of(run, other):
                    return '%s shows %s, %s shows %s' % (r.name, r.shown(), other.name, other.shown())


def shown_rows_satisfy_the_constraints(run):
    for r in run.replicas:
        if not first_time(run, 'shown', r):
            continue
        rows = {k: dict(v) for k, v in shown_of(run, r)[0].items()}
        for key, values in rows.items():
            problem = violated(r.schema, rows, key, values)
            if problem:
                return '%s: %s of %s' % (r.name, problem, key)


def violated(schema, rows, key, values):
    if key[0] not in schema:
        return 'the function of shown rows does not settle'
    table = schema[key[0]]
    if any(c.not_null and values[c.name] is None for c in table.columns):
        return 'NOT NULL'
    if fits(Candidate(key, None, values, {}), table):
        return 'CHECK'
    for c in table.columns:
        value = values[c.name]
        if value is None:
            continue
        if c.unique and any(k != key and k[0] == key[0] and v[c.name] == value for k, v in rows.items()):
            return 'UNIQUE'
        if c.parent and (c.parent, value) not in rows:
            return 'FOREIGN KEY'


def what_is_not_shown_is_listed(run):
    for r in run.replicas:
        if not first_time(run, 'listed', r):
            continue
        rows, hidden = shown_of(run, r)
        for key, _ in r.base.rows:
            if key[0] in r.schema and (key in rows) == (key in hidden):
                return '%s: %s' % (r.name, key)


def states_of(run):
    return [r.base for r in run.replicas if not r.is_ahead()] + [s.base for s in run.snapshots]


def result(base):
    return (frozen(base.vector), base.frozen_rows())


def the_join_is_idempotent(run):
    for s in states_of(run):
        if first_time(run, 'idempotent', s) and result(joined(s, s)) != result(s):
            return 'join of a state with itself'


def the_join_is_commutative(run):
    states = states_of(run)
    for i, one in enumerate(states):
        for other in states[:i]:
            if not first_time(run, 'commutative', one, other):
                continue
            if result(joined(one, other)) != result(joined(other, one)):
                return 'two orders give %s and %s' % (result(joined(one, other)), result(joined(other, one)))


def the_join_is_associative(run):
    states = states_of(run)[:3]
    if len(states) == 3 and first_time(run, 'associative', *states):
        a, b, c = states
        if result(joined(joined(a, b), c)) != result(joined(a, joined(b, c))):
            return 'two groupings'
        if result(joined(joined(a, c), b)) != result(joined(a, joined(c, b))):
            return 'two groupings'


def an_old_state_adds_nothing(run):
    for r in whole(run):
        for s in run.snapshots:
            if first_time(run, 'old', r, s.base) and includes(r.vector, s.base.vector):
                if result(joined(r.base, s.base)) != result(r.base):
                    return '%s changes by a snapshot that it covers' % r.name


def a_program_reads_what_it_wrote(run):
    for r in run.replicas:
        if r.surprise:
            return r.surprise


def a_column_that_nobody_wrote_has_its_local_default(run):
    for r in whole(run):
        rows, hidden = shown_of(run, r)
        for key in {k for k, _ in r.base.rows if k[0] in r.schema}:
            written = {c for (k, _), row in r.base.rows.items() if k == key for c in row.cells}
            for c in r.schema[key[0]].columns:
                if c.counter or c.parent or c.id in written:
                    continue
                if key in rows and dict(rows[key])[c.name] != c.default or hidden.get(key) == 'NOT NULL ' + c.name:
                    return '%s of %s at %s' % (c.name, key, r.name)


def own_commits_are_kept(run):
    for r in run.replicas:
        for commit in run.history:
            if commit.author == r.name and commit.path.endswith(r.letter) and not covers(r.vector, commit.dot):
                return '%s lacks %s' % (r.name, commit.dot)


# settled

def everybody_receives_everything(run):
    first = run.replicas[0]
    for r in run.replicas:
        if frozen(r.vector) != frozen(first.vector):
            return '%s has %s, %s has %s' % (first.name, first.vector, r.name, r.vector)
        if r.is_ahead() or r.joining:
            return '%s is still joining' % r.name


def a_newcomer_gets_the_same_rows(run):
    first = run.replicas[0]
    newcomer = Replica('newcomer', first.schema)
    for snapshot in run.snapshots:
        newcomer.begin_snapshot(snapshot)
    for r in run.replicas:
        for commit in r.log.values():
            newcomer.fetch(commit)
    while newcomer.waiting():
        newcomer.begin(newcomer.waiting()[0])
    if frozen(newcomer.vector) == frozen(first.vector) and newcomer.base.frozen_rows() != first.base.frozen_rows():
        return 'the newcomer has %s' % oracle.of_base(newcomer.base)


def user_writes(run):
    """(commit, write, knowledge) of all writes that a program made; revivals are not."""
    return [(c, w, Knowledge(c.context, w.seen)) for c in run.history for w in c.writes
            if not w.revives and c.dot not in run.void]


def an_update_is_not_lost_to_a_deletion_that_did_not_know_it(run):
    writes = user_writes(run)
    living = {k for k, _ in run.replicas[0].base.rows}
    for commit, w, _ in writes:
        if w.kind != 'update' or w.key in living or deletions_win(run, w.key) or overwritten(commit, w, writes):
            continue
        if not any(d.kind == 'delete' and d.key == w.key and (commit.dot in k or c.dot == commit.dot) for c, d, k in writes):
            return '%s of %s' % (w.key, commit.dot)


def overwritten(commit, write, writes):
    """Whether each cell of the write has lost to a concurrent write of the cell, which a deletion knew."""
    deletions = [k for _, d, k in writes if d.kind == 'delete' and d.key == write.key]
    known = Knowledge(commit.context, write.seen)
    greater = {column for c, w, _ in writes if w.key == write.key and c.stamp(w) > commit.stamp(write)
               and c.dot not in known and any(c.dot in k for k in deletions) for column, _ in w.cells}
    return not write.steps and all(column in greater for column, _ in write.cells)


def lost_all_cells(commit, write, writes):
    """Whether each cell of the write has lost to another write."""
    greater = {column for c, w, _ in writes if w.key == write.key and c.stamp(w) > commit.stamp(write) for column, _ in w.cells}
    return not write.steps and all(column in greater for column, _ in write.cells)


def deletions_win(run, key):
    return any(r.schema[key[0]].deletions_win for r in run.replicas if key[0] in r.schema)


def a_write_that_knew_another_wins(run):
    writes = user_writes(run)
    rows = run.replicas[0].base
    for key in {k for k, _ in rows.rows}:
        mine = [(c, w, k) for c, w, k in writes if w.key == key]
        deletions = [k for _, w, k in mine if w.kind == 'delete']
        for column in {c for _, w, _ in mine for c, _ in w.cells}:
            written = [(c, dict(w.cells)[column], k) for c, w, k in mine if column in dict(w.cells)]
            dead = {c.dot for c, w, _ in mine if any(c.dot in d for d in deletions) or overwritten(c, w, writes)}
            alive = [(c, v, k) for c, v, k in written if c.dot not in dead]
            problem = alive and wrong_value(rows, key, column, written, alive)
            if problem:
                return problem


def wrong_value(base, key, column, written, alive):
    _, cells, _ = merged([r for (k, _), r in base.rows.items() if k == key])
    value = cells.get(column, (None, 'nothing'))[1]
    best = [v for c, v, _ in written if not any(c.dot in k for _, _, k in alive)]
    if value not in best:
        return '%s of %s shows %s, not one of %s' % (column, key, value, best)


def a_step_of_a_counter_counts_once(run):
    """Each step is a power of ten of its own, so each digit of a total says how often a step is counted."""
    for r in run.replicas:
        for key, values in r.shown()[0].items():
            for column in r.schema[key[0]].columns:
                if column.counter:
                    problem = wrong_total(run, key, column.id, dict(values)[column.name])
                    if problem:
                        return problem


def wrong_total(run, key, column, total):
    writes = user_writes(run)
    deletions = [k for _, w, k in writes if w.key == key and w.kind == 'delete']
    for commit, w, _ in writes:
        step = dict(w.steps).get(column)
        if w.key == key and step:
            times = total // step % 10
            if times > 1 or times == 0 and not any(commit.dot in k for k in deletions):
                return 'the step %d of %s counts %d times in %s' % (step, commit.dot, times, total)


def a_living_child_under_restrict_has_a_parent(run):
    for r in run.replicas:
        living = {k for k, _ in r.base.rows}
        for child in living:
            if child[0] in r.schema:
                for parent in r.missing_parents(child):
                    return '%s lacks %s' % (child, parent)


def no_row_of_one_schema_fails_a_check(run):
    if len({tuple(sorted(r.schema.items(), key=lambda t: t[0])) for r in run.replicas}) > 1:
        return
    for r in run.replicas:
        for key, reason in r.shown()[1].items():
            counters = [c.name for c in r.schema[key[0]].columns if c.counter]
            if reason.startswith('CHECK') and not any(n in reason for n in counters):
                return '%s hides %s: %s' % (r.name, key, reason)


def nothing_is_owed_at_the_end(run):
    writes = user_writes(run)
    for r in run.replicas:
        for place, tombstone in r.base.dead.items():
            if deletions_win(run, place[0]):
                continue
            for commit, w, _ in writes:
                if commit.dot in tombstone.owed and w.key == place[0] and not lost_all_cells(commit, w, writes):
                    return '%s owes %s of %s' % (r.name, commit.dot, place)


def removed_members_write_nothing_new(run):
    for r in run.replicas:
        for commit in run.history:
            if commit.dot in run.void and r.name not in r.base.removed and covers(r.vector, commit.dot):
                return '%s has %s' % (r.name, commit.dot)


def a_value_that_somebody_has_is_known(run):
    for r in run.replicas:
        for place, row in r.base.rows.items():
            for column, stamp in row.unknown.items():
                for other in run.replicas:
                    cell = place in other.base.rows and other.base.rows[place].cells.get(column)
                    if cell and cell[0] >= stamp:
                        return '%s lacks %s of %s, %s has it' % (r.name, column, place, other.name)


EACH_STATE = [rows_are_what_the_commits_of_the_vector_give, equal_vectors_mean_equal_rows,
              equal_vectors_and_schemas_mean_equal_shown_rows, shown_rows_satisfy_the_constraints, what_is_not_shown_is_listed,
              the_join_is_idempotent, the_join_is_commutative, the_join_is_associative, an_old_state_adds_nothing,
              own_commits_are_kept, a_program_reads_what_it_wrote, a_column_that_nobody_wrote_has_its_local_default]
SETTLED = [everybody_receives_everything, a_newcomer_gets_the_same_rows, an_update_is_not_lost_to_a_deletion_that_did_not_know_it,
           a_write_that_knew_another_wins, a_step_of_a_counter_counts_once, a_living_child_under_restrict_has_a_parent,
           no_row_of_one_schema_fails_a_check, nothing_is_owed_at_the_end, removed_members_write_nothing_new,
           a_value_that_somebody_has_is_known]


def check(run, properties):
    """The first property that fails, as (name, sentence)."""
    for p in properties:
        problem = p(run)
        if problem:
            return (p.__name__, problem)
    return None
