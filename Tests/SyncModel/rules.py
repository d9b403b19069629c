"""The rules that can be switched off. A rule that is off is a mutant, or the draft read literally (see findings.py)."""

RULES = {
    # the core, as the draft has it
    'older-write-loses': 'A write that another write knew does not replace it.',
    'revive': 'An author whose update a deletion did not know inserts the row anew.',
    'absence-is-deletion': 'A row absent from a snapshot that covers its insertion is dead.',
    'absence-here-is-deletion': 'A row of a snapshot that is absent here, though its insertion is covered, stays dead.',
    'snapshot-has-tombstones': 'A snapshot carries its young tombstones.',
    'wait-for-context': 'A commit is joined after all commits that its author knew.',
    'keep-unknown': 'A replica keeps the cells of columns that its schema lacks, and sends them in snapshots.',
    'vector-last': 'The vector advances in the transaction of the last slice.',
    'unique-is-checked': 'Of two rows with one unique value the older shows.',
    'foreign-key-is-checked': 'A child without a shown parent follows ON DELETE.',
    'not-null-is-checked': 'A row with NULL in a NOT NULL column is hidden.',
    'default-is-local': 'A column that nobody wrote shows the default of the local schema.',
    'removal-is-checked': 'A removed member writes nothing new.',
    # added by the model: each repairs a finding
    'no-hold': 'F1: a commit whose time is far ahead is joined at once.',
    'far-time-is-not-adopted': 'F1: a replica does not set its own time by a time that is far ahead of its clock.',
    'era': 'F1: a stamp begins with an era: the least one in which the write is above the cells that it replaces.',
    'era-above-dead': 'F19: an insertion is also above the cells of the dead rows of its key that the history has.',
    'restamp-above-joined': 'F2: restamped commits get times above every time that the store has joined.',
    'revival-keeps-stamps': 'F3: a revival copies cells with their stamps and the age of the row.',
    'revival-copies-sums': 'F4: a revival copies each sum of a counter under its origin.',
    'owed': 'F5: a tombstone lists updates that no deletion knew, and is kept until a revival knows them.',
    'owed-has-row': 'F5: in a snapshot a tombstone that owes a revival has the row, for the author of the deletion.',
    'deleter-revives': 'F6: the author of the deletion also revives, from its own history.',
    'revival-in-slice': 'F7: the revival is in the transaction of the slice that deletes.',
    'seen': 'F8: a write names the commits that it saw in its row beyond the vector of its author.',
    'insert-respects-tombstone': 'F8: an insertion that arrives after its deletion does nothing.',
    'no-snapshot-while-ahead': 'F9: a store that is between two slices makes no snapshot, also after a kill.',
    'counter-number': 'F10: beside each sum of a counter stands the number of the last commit that it counts.',
    'restrict-by-revival': 'F11: under RESTRICT the author of a child (or of the deletion) revives the parent.',
    'check-writes-group': 'F12: an update writes all columns that share a CHECK with a column it changes.',
    'shown-terminates': 'F13: a row that lost its parent does not compete for unique values again.',
    'column-ids': 'F14: a commit names columns by identity, not by the name that they have at the time.',
    'vouch': 'F15: a commit of a removed member is joined if the commit of a member knew it; who has one vouches.',
    'content-dots': 'F16: a vector names the contents of commits, so two contents of one number are two commits.',
    'former-names': 'F17: a store revives the updates of its former names as well.',
    'writers-make-snapshots': 'F18: a snapshot of one who may not write is not joined.',
    'covered-snapshots-go': 'F23: a snapshot goes from a remote only when another one there covers it.',
    'hidden-row-is-overwritten': 'F24: an insertion of a key whose row is hidden is an update of that row.',
    'one-value-for-a-stamp': 'F25: of two values with one stamp, which only a lie can make, the greater is taken.',
    'unknown-is-named': 'F27: a snapshot names the cells whose values its maker does not know, with their stamps.',
    'unknown-yields': 'F27: a known value with the same or a greater stamp takes the place of an unknown one.',
    'whole-snapshot-is-joined': 'F27: a store that lacks values joins a snapshot that has them, though it has all commits.',
    'oldest-dead-owe-nothing': 'F28: of the oldest deletions of a key those stay that owe a revival.',
    'oldest-dead-are-covered': 'F28: of the oldest deletions of a key those stay whose insertion the vector lacks.',
    'refused-become-own': 'F29: a store that joins again makes its refused commits those of its new name.',
    'renamed-keep-times': 'F29: such commits keep their times.',
    'epoch-for-members': 'F20: one seals only with an epoch whose recipients are the members, and begins one if none is.',
    'epoch-chain': 'F21: each epoch carries the secrets of the former ones.',
    'senior-admin': 'F22: of two admins who remove each other the senior stays.',
}

OFF = set()


def on(rule):
    assert rule in RULES, rule
    return rule not in OFF


class Without:
    """Runs a block with some rules switched off."""

    def __init__(self, *rules):
        self.rules = set(rules)

    def __enter__(self):
        for rule in self.rules:
            assert rule in RULES, rule
        self.former = set(OFF)
        OFF.update(self.rules)

    def __exit__(self, *_):
        OFF.clear()
        OFF.update(self.former)
