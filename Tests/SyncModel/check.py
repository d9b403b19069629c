#!/usr/bin/env python3
"""Checks the model of sync. Quick by default: less than a minute."""
import argparse
import sys
import time

import cases
import epochs
from explore import explore
from random_runs import run_seeds
from worlds import WORLDS

QUICK_COMMITS, QUICK_SECONDS, QUICK_RUNS = 2, 2, 100


def explore_worlds(names, commits, seconds):
    """Explores the worlds. Returns how many fail."""
    failed, states = 0, 0
    for world in WORLDS:
        if names and world.name not in names:
            continue
        depth = min(commits or world.commits, world.commits)
        result = explore(world, depth, seconds)
        states += result.states
        print('%-20s %d commits, %7d states, %6d ends, %6.1f s' % (world.name, depth, result.states, result.ends, result.seconds),
              end='\n' if result.complete else ', not complete\n', flush=True)
        if result.failure:
            failed += 1
            name, sentence, events = result.failure
            print('\n    '.join(['RED %s: %s' % (name, sentence)] + list(events)))
    print('%d states' % states)
    return failed


def random_runs(seed, count):
    started = time.monotonic()
    played, failures = run_seeds(seed, count)
    for seed, name, sentence in failures:
        print('RED seed %d, %s: %s' % (seed, name, sentence[:500]))
    print('%d random runs, %d fail, %.1f s' % (played, len(failures), time.monotonic() - started))
    return len(failures)


def by_hand():
    """The stories and the epochs, with all rules."""
    failures = cases.stories_with_all_rules() | epochs.failures()
    for name, problem in failures.items():
        print('RED %s: %s' % (name, problem))
    print('%d stories, %d fail' % (sum(1 for c in cases.CASES if c.story), len(failures)))
    return len(failures)


def mutants(with_events):
    """Switches rules off. Each has to make its property red."""
    green, missing = cases.run(with_events)
    print('%d mutants, %d stay green' % (len(cases.CASES), len(green)))
    return len(green) + len(missing)


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--exhaustive', action='store_true', help='explore each world with all its commits')
    parser.add_argument('--world', action='append', help='explore this world only; may be repeated')
    parser.add_argument('--commits', type=int, help='commits of an exploration')
    parser.add_argument('--seconds', type=float, help='limit for each world')
    parser.add_argument('--seed', type=int, default=0, help='first seed of the random runs')
    parser.add_argument('--runs', type=int, help='number of random runs')
    parser.add_argument('--mutants', action='store_true', help='switch each rule off and expect a red property')
    parser.add_argument('--findings', action='store_true', help='as --mutants, with the smallest sequence of events')
    return parser.parse_args()


def main():
    chosen = options()
    if chosen.mutants or chosen.findings:
        sys.exit(1 if mutants(chosen.findings) else 0)
    commits = chosen.commits or (None if chosen.exhaustive else QUICK_COMMITS)
    seconds = chosen.seconds or (None if chosen.exhaustive else QUICK_SECONDS)
    failed = 0
    if chosen.runs is None or chosen.world:
        failed += explore_worlds(chosen.world, commits, seconds)
    if not chosen.world:
        failed += by_hand() + random_runs(chosen.seed, chosen.runs or QUICK_RUNS)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
