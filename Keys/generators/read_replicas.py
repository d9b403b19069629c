#!/usr/bin/env python3
"""Reads the replicas in a backup repository in a folder without any code of CipherStore: lists their objects, and restores a time.

Written from Docs/Formats/Replica.md alone, with Python's own modules. It compares every hash and every checksum of the WAL.

Usage: read_replicas.py FOLDER                       one JSON line for each object
       read_replicas.py FOLDER --restore TIME OUT    writes the encrypted database OUT as it was at TIME, in milliseconds since
                                                     1970, and its sidecar OUT-sidecar

The exit code is 1 where something is refused.
"""

import argparse
import json
import struct
import sys
from types import SimpleNamespace

from read_backups import Refused, Repository, digest, require

HEADER = struct.Struct(">6sHB3sI16sII32sQQIIIIIIIIIIQ32s")
GROUP = struct.Struct(">IQQ")


def checksum(data, start, order):
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2]):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


class Object:
    def __init__(self, path):
        data = path.read_bytes()
        require(len(data) >= HEADER.size + 32 and digest(data[:-32]) == data[-32:], f"{path.name} was changed")
        (magic, version, order, _, self.page_bytes, self.store_id, self.base, self.segment, self.previous, self.after, self.until,
         salt1, salt2, self.frame, check1, check2, frames, self.pages, groups, sidecar, packs, self.gap_since,
         self.map) = HEADER.unpack_from(data)
        require((magic, version) == (b"CSREPL", 1), f"{path.name} begins with other bytes")
        require(path.name == f"{self.store_id.hex()}-{self.base:08x}-{self.segment:08x}", f"{path.name} has another name")
        self.hash = data[-32:]
        place = HEADER.size
        self.groups = [GROUP.unpack_from(data, place + GROUP.size * i) for i in range(groups)]
        place += GROUP.size * groups
        self.sidecar = data[place:place + sidecar]
        place += sidecar
        self.packs = [data[place + 32 * i:place + 32 * (i + 1)] for i in range(packs)]
        place += 32 * packs
        stride = 24 + self.page_bytes
        require(len(data) == place + stride * frames + 32, f"{path.name} has another length")
        self.salts, self.start, self.order = (salt1, salt2), (check1, check2), "><"[1 - order]
        self.frames = [data[place + stride * i:place + stride * (i + 1)] for i in range(frames)]
        self.end = self.start
        for frame in self.frames:
            require(struct.unpack_from(">II", frame, 8) == self.salts, f"{path.name} has a frame of another run")
            self.end = checksum(frame[:8] + frame[24:], self.end, self.order)
            require(struct.unpack_from(">II", frame, 16) == self.end, f"{path.name} has a damaged frame")

    def follows(self, other):
        return self.previous == other.hash and (
            self.frame == 0
            or (self.salts, self.frame, self.start) == (other.salts, other.frame + len(other.frames), other.end))


def restore(repository, objects, time, out):
    bases = [found for found in objects if found.segment == 0 and found.until <= time]
    require(bases, "there is no base of that time")
    base = bases[-1]
    chain = [found for found in objects if found.base == base.base and found.segment > 0]
    for number, (one, other) in enumerate(zip([base] + chain, chain), 1):
        require(other.segment == number and other.follows(one), "a segment is missing")
    seen = [(place, end) for place, found in enumerate(chain) for end, _, when in found.groups if when <= time]
    # Its sidecar is replaced below.
    repository.restore(SimpleNamespace(
        packs=base.packs, page_bytes=base.page_bytes, map=base.map, pages=base.pages, sidecar=base.map), out)
    sidecar, pages = base.sidecar, base.pages
    with open(out, "r+b") as file:
        for place in range(seen[-1][0] + 1 if seen else 0):
            for number, frame in enumerate(chain[place].frames, chain[place].frame + 1):
                if place == seen[-1][0] and number > seen[-1][1]:
                    break
                page, commit = struct.unpack_from(">II", frame)
                file.seek((page - 1) * base.page_bytes)
                file.write(frame[24:])
                pages = commit or pages
        file.truncate(pages * base.page_bytes)
    for place, found in enumerate(chain):
        if found.until <= time or seen and place <= seen[-1][0]:
            sidecar = found.sidecar or sidecar
    with open(out + "-sidecar", "wb") as file:
        file.write(sidecar)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--restore", nargs=2, metavar=("TIME", "OUT"))
    arguments = parser.parse_args()
    repository = Repository(arguments.folder)
    objects = [Object(path) for path in sorted((repository.folder / "r").iterdir())]
    if arguments.restore:
        restore(repository, objects, int(arguments.restore[0]), arguments.restore[1])
        return
    for found in objects:
        print(json.dumps({
            "store_id": found.store_id.hex(), "base": found.base, "segment": found.segment, "until": found.until,
            "frames": len(found.frames), "groups": len(found.groups), "gap_since": found.gap_since}))


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError, struct.error) as error:
        print(f"refused: {error}", file=sys.stderr)
        sys.exit(1)
