"""Scripts: one sequence of events by hand, for what the small worlds do not have (clocks, members, lies, lost stores)."""
from explore import Run, settle
from program import run as transaction
from properties import EACH_STATE, SETTLED, check
from replica import Replica


EVENTS = []         # of the last script


class Script:
    def __init__(self, names, schema):
        self.run = Run([Replica(n, schema) for n in names], immutable=False)
        self.events = EVENTS
        self.events.clear()

    def __getitem__(self, name):
        return next(r for r in self.run.replicas if r.name == name)

    def do(self, name, *actions):
        commit = transaction(self[name], list(actions))
        assert commit, 'a constraint refuses %s' % (actions,)
        self.run.collect()
        self.events.append('%s commits %s at %d' % (name, list(actions), commit.time))
        return commit

    def give(self, giver, *receivers):
        """The receivers fetch all that the giver has, and join what they can."""
        for name in receivers:
            self.events.append('%s receives from %s' % (name, giver))
            for commit in list(self[giver].log.values()):
                self[name].fetch(commit)
            while self[name].waiting():
                self[name].begin(self[name].waiting()[0])
        self.run.collect()

    def join(self, name, snapshot):
        self.events.append('%s joins a snapshot' % name)
        self[name].begin_snapshot(snapshot)
        self.run.collect()

    def clock(self, time, *names):
        for name in names:
            self[name].clock = time

    def lose(self, name):
        """The device is gone for good."""
        self.events.append('%s is lost' % name)
        self.run.replicas = [r for r in self.run.replicas if r.name != name]

    def failures(self, extra=()):
        """The names of all properties that fail, now or after everybody has exchanged everything."""
        found = {}
        for run, properties in ((self.run, EACH_STATE), (settle(self.run), EACH_STATE + SETTLED + list(extra))):
            for p in properties:
                problem = check(run, [p])
                if problem:
                    found[problem[0]] = problem[1]
        return found
