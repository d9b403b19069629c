"""Each rule switched off, and the property that has to become red: the mutants, and the draft read literally (findings)."""
from typing import NamedTuple

import epochs
from explore import explore, smallest
from properties import EACH_STATE, SETTLED
from rules import RULES, Without
from script import EVENTS
import forgetting
import stories
from worlds import WORLDS


class Case(NamedTuple):
    off: tuple
    red: str                    # the property
    world: str = None
    commits: int = 2
    story: object = None


def story(off, red, function):
    return Case(off, red, story=function)


RIGHT_ROWS = 'rows_are_what_the_commits_of_the_vector_give'
NOT_LOST = 'an_update_is_not_lost_to_a_deletion_that_did_not_know_it'
RECEIVED = 'everybody_receives_everything'
CONSTRAINTS = 'shown_rows_satisfy_the_constraints'
KNOWING_WINS = 'a_write_that_knew_another_wins'
LATER_WINS = 'of_two_concurrent_writes_by_right_clocks_the_later_wins'
COUNTS_ONCE = 'a_step_of_a_counter_counts_once'

CASES = [
    Case(('older-write-loses',), RIGHT_ROWS, 'rows'),
    Case(('revive',), NOT_LOST, 'rows'),
    Case(('absence-is-deletion',), 'the_join_is_commutative', 'rows'),
    Case(('absence-here-is-deletion',), 'the_join_is_commutative', 'rows'),
    Case(('snapshot-has-tombstones',), NOT_LOST, 'three'),
    Case(('wait-for-context',), RIGHT_ROWS, 'slices of three'),
    Case(('keep-unknown',), 'a_newcomer_gets_the_same_rows', 'versions'),
    Case(('vector-last',), RIGHT_ROWS, 'slices', 1),
    Case(('unique-is-checked',), CONSTRAINTS, 'unique'),
    Case(('foreign-key-is-checked',), CONSTRAINTS, 'cascade'),
    Case(('not-null-is-checked',), CONSTRAINTS, 'set null not null'),
    Case(('default-is-local',), 'a_column_that_nobody_wrote_has_its_local_default', 'versions'),
    story(('removal-is-checked',), 'removed_members_write_nothing_new', stories.a_removed_writer_that_goes_on),
    story(('no-hold', 'era', 'far-time-is-not-adopted'), RECEIVED, stories.a_wrong_clock_once),
    story(('no-hold',), RECEIVED, stories.a_clock_of_1970),
    story(('era',), KNOWING_WINS, stories.a_wrong_clock_once),
    story(('era', 'far-time-is-not-adopted'), LATER_WINS, stories.a_wrong_clock_once),
    story(('restamp-above-joined',), 'equal_vectors_mean_equal_rows', stories.a_restamp),
    Case(('revival-keeps-stamps',), KNOWING_WINS, 'rows', 3),
    story(('revival-keeps-stamps', 'deleter-revives'), KNOWING_WINS, stories.two_updates_and_a_deletion),
    Case(('revival-copies-sums',), COUNTS_ONCE, 'counters', 3),
    Case(('owed',), NOT_LOST, 'three'),
    story(('deleter-revives',), NOT_LOST, stories.an_author_that_is_lost),
    story(('owed-has-row',), NOT_LOST, stories.a_deleter_that_joins_a_snapshot),
    Case(('revival-in-slice',), NOT_LOST, 'slices'),
    Case(('seen',), RIGHT_ROWS, 'slices of three'),
    Case(('insert-respects-tombstone',), RIGHT_ROWS, 'slices of three'),
    Case(('no-snapshot-while-ahead',), 'an_old_state_adds_nothing', 'slices of three', 1),
    Case(('counter-number',), RIGHT_ROWS, 'counters in slices'),
    Case(('restrict-by-revival',), 'a_living_child_under_restrict_has_a_parent', 'restrict'),
    Case(('check-writes-group',), 'no_row_of_one_schema_fails_a_check', 'check'),
    Case(('shown-terminates',), CONSTRAINTS, 'self reference'),
    Case(('column-ids',), 'a_program_reads_what_it_wrote', 'renames', 1),
    story(('vouch',), RECEIVED, stories.a_removed_writer_that_is_silent),
    story(('vouch',), RECEIVED, stories.a_removed_writer_that_others_knew),
    story(('content-dots',), 'equal_vectors_mean_equal_rows', stories.a_lie_of_two_contents),
    story(('content-dots',), RIGHT_ROWS, stories.a_restored_store_that_writes),
    story(('former-names',), NOT_LOST, stories.a_restored_store),
    story(('writers-make-snapshots',), RIGHT_ROWS, stories.a_reader_makes_a_snapshot),
    story(('era-above-dead',), KNOWING_WINS, stories.a_revival_after_an_insertion),
    story(('covered-snapshots-go',), RECEIVED, stories.two_snapshots_at_a_remote),
    story(('hidden-row-is-overwritten',), 'a_program_reads_what_it_wrote', stories.an_insertion_of_a_hidden_key),
    story(('one-value-for-a-stamp',), 'the_join_is_commutative', stories.a_forged_snapshot),
    story(('unknown-is-named',), RIGHT_ROWS, forgetting.a_column_that_a_store_drops),
    story(('unknown-yields',), 'a_value_that_somebody_has_is_known', forgetting.a_column_that_a_store_drops),
    story(('whole-snapshot-is-joined',), 'a_value_that_somebody_has_is_known', forgetting.a_column_that_a_store_drops),
    story(('oldest-dead-owe-nothing',), NOT_LOST, forgetting.a_key_that_is_deleted_often),
    story(('oldest-dead-are-covered',), RIGHT_ROWS, forgetting.a_key_that_is_deleted_often_between_slices),
    story(('refused-become-own',), 'a_store_that_joins_again_keeps_its_rows', forgetting.a_store_that_joins_again),
    story(('renamed-keep-times',), LATER_WINS, forgetting.a_store_that_joins_again),
    story(('epoch-for-members',), 'a_removed_member_reads_nothing_new', epochs.failures),
    story(('epoch-chain',), 'every_member_reads_everything', epochs.failures),
    story(('senior-admin',), 'somebody_can_always_invite', epochs.failures),
]

BY_NAME = {w.name: w for w in WORLDS}
PROPERTIES = {p.__name__: p for p in EACH_STATE + SETTLED}


def failing(case, find_smallest=False):
    """{property: sentence} that fail, and the events, with the rules of the case switched off."""
    with Without(*case.off):
        if case.story:
            found = case.story()
            return found, EVENTS if case.story is not epochs.failures else ()
        world, only = BY_NAME[case.world], PROPERTIES[case.red]
        problem = (smallest if find_smallest else first_failure)(world, case.commits, only)
        return ({problem[0]: problem[1]}, problem[2]) if problem else ({}, ())


def first_failure(world, commits, only):
    return explore(world, commits, seconds=60, only=only).failure


def run(find_smallest=False, report=print):
    """Runs all cases. Returns the ones that stay green."""
    green, tried = [], set()
    for case in CASES:
        tried |= set(case.off)
        found, events = failing(case, find_smallest)
        red = case.red in found
        if not red:
            green.append(case)
        report('%-5s without %s: %s' % ('red' if red else 'GREEN', ', '.join(case.off), case.red))
        if find_smallest:
            for line in list(events) + [str(found.get(case.red))[:400]]:
                report('        ' + line)
    missing = sorted(set(RULES) - tried)
    if missing:
        report('no case for: ' + ', '.join(missing))
    return green, missing


def stories_with_all_rules():
    """The stories that fail although all rules hold."""
    return {c.story.__name__: problem for c in CASES if c.story and (problem := c.story())}
