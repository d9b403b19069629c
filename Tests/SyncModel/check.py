#!/usr/bin/env python3
"""Checks the model of sync: python3 Tests/SyncModel/check.py [--exhaustive] [--world NAME] [--seconds N] [--seed N] [--runs N]
[--mutants] [--findings]. Quick by default: less than a minute."""
import argparse
import sys

from explore import explore
from worlds import WORLDS


def explore_all(names, commits, seconds):
    """Explores the worlds. Returns how many fail."""
    failed, states = 0, 0
    for world in WORLDS:
        if names and world.name not in names:
            continue
        result = explore(world, commits and min(commits, world.commits), seconds)
        states += result.states
        print('%-22s %7d states, %6d ends, %5.1f s%s' % (world.name, result.states, result.ends, result.seconds,
                                                        '' if result.complete else ', not complete'), flush=True)
        if result.failure:
            failed += 1
            print_failure(*result.failure)
    print('%d states' % states)
    return failed


def print_failure(name, sentence, events):
    print('RED %s: %s' % (name, sentence))
    for event in events:
        print('    ' + event)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--exhaustive', action='store_true', help='explore each world with all its commits')
    parser.add_argument('--world', action='append', help='only this world; may be repeated')
    parser.add_argument('--seconds', type=float, help='limit for each world')
    options = parser.parse_args()
    failed = explore_all(options.world, None if options.exhaustive else 2, options.seconds or (None if options.exhaustive else 3))
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
