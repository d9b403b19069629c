"""A remote: commits and snapshots by name. It decides nothing."""
from knowledge import covers, includes
from rules import on


class Remote:
    def __init__(self):
        self.commits, self.snapshots = {}, []

    def has(self, dot):
        return dot in self.commits or any(covers(s.base.vector, dot) for s in self.snapshots)

    def put_commits(self, replica):
        """Puts what the remote lacks: of any author. Returns whether the replica has forgotten a commit that is lacking."""
        self.commits.update((d, c) for d, c in replica.log.items() if not self.has(d))
        return any(not self.has((author, tip[:n])) for author, tips in replica.vector.items() for tip in tips
                   for n in range(1, len(tip) + 1))

    def put_snapshot(self, snapshot):
        """Adds a snapshot; then the commits that it covers may go, and the snapshots that it covers."""
        vector = snapshot.base.vector
        kept = [s for s in self.snapshots if on('covered-snapshots-go') and not includes(vector, s.base.vector)]
        self.snapshots = kept + [snapshot]
        self.commits = {d: c for d, c in self.commits.items() if not covers(vector, d)}

    def give(self, replica, lists=lambda commit: True):
        """The replica fetches what the listing has, and joins what it can."""
        for snapshot in self.snapshots:
            if not replica.joining and replica.lacks(snapshot):
                replica.begin_snapshot(snapshot)
                while replica.joining:
                    replica.step()
        for commit in [c for c in self.commits.values() if lists(c)]:
            replica.fetch(commit)
        while replica.waiting():
            replica.begin(replica.waiting()[0])
            while replica.joining:
                replica.step()
