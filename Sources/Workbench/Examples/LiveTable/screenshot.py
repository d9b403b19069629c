#!/usr/bin/env python3
"""Draws what LiveTable prints in two terminals as an SVG: screenshot.py PROGRAM FILE

Both processes run on pseudo-terminals. What they print is read until the table shows the minute of the last commit, so
that the picture is the same each time.
"""
import os
import pty
import re
import secrets
import select
import subprocess
import sys
import tempfile
import time

MINUTES, LAST = 9, "12:08"
ROWS, CELL, LINE = 9, 8.4, 18
LEFT, RIGHT = 64, 50  # columns of the two terminals
COLORS = {32: "#7ec699", 33: "#e8c86a"}


def screen(text):
    """The lines of a terminal after a text: each a list of (text, style), the style a set of SGR codes."""
    lines, column, row, style = [[] for _ in range(200)], 0, 0, 0
    for escape, end, character in re.findall(r"\x1b\[([0-9;]*)([A-Za-z])|(.|\n)", text):
        if character == "\n":
            row, column = row + 1, column
        elif character == "\r":
            column = 0
        elif character:
            line = lines[row]
            line.extend([(" ", 0)] * (column + 1 - len(line)))
            line[column] = (character, style)
            column += 1
        elif end == "H":
            row, column = 0, 0
        elif end == "J":
            lines = [[] for _ in range(200)]
        elif end == "K":
            del lines[row][column:]
        elif end == "m":
            style = int(escape or 0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def runs(line):
    """Neighbours of one style together: (column, text, style)."""
    found = []
    for column, (character, style) in enumerate(line):
        if found and found[-1][2] == style:
            found[-1][1] += character
        else:
            found.append([column, character, style])
    return found


def terminal(x, columns, title, lines):
    width, height = columns * CELL + 24, ROWS * LINE + 48
    yield f'<rect x="{x}" y="8" width="{width}" height="{height}" rx="8" fill="#1d2430"/>'
    yield f'<text x="{x + 12}" y="28" fill="#8b98ad">{title}</text>'
    for number, line in enumerate(lines[-ROWS:]):
        y = 56 + number * LINE
        for column, text, style in runs(line[:columns]):
            left = x + 12 + column * CELL
            if style == 7:
                yield f'<rect x="{left:.1f}" y="{y - 13}" width="{len(text) * CELL:.1f}" height="{LINE}" fill="#c9d3e3"/>'
            color = "#1d2430" if style == 7 else COLORS.get(style, "#e6ebf2")
            weight = ' font-weight="bold"' if style in (1, 7) else ""
            text = text.replace("&", "&amp;").replace("<", "&lt;").rstrip()
            if text:
                length = f'textLength="{len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
                yield f'<text x="{left:.1f}" y="{y}" fill="{color}"{weight} {length}>{text}</text>'


def start(arguments):
    """Runs a program on a pseudo-terminal; returns the process and the other end."""
    end, terminal_end = pty.openpty()
    process = subprocess.Popen(arguments, stdin=terminal_end, stdout=terminal_end, close_fds=True)
    os.close(terminal_end)
    return process, end


def read(end, until, limit=30):
    """What is printed until a text has come."""
    seen, deadline = "", time.monotonic() + limit
    while until not in seen:
        if not select.select([end], [], [], max(0, deadline - time.monotonic()))[0]:
            sys.exit(f"screenshot.py: {until!r} was not printed")
        seen += os.read(end, 65536).decode()
    return seen


def main(program, file):
    with tempfile.TemporaryDirectory() as folder:
        key = os.open(os.path.join(folder, "board.key"), os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(key, secrets.token_hex(32).encode())
        os.close(key)
        shower, table = start([program, folder, "show"])
        shown = read(table, "11:59")
        writer, log = start([program, folder, "write", str(MINUTES), "200"])
        written = read(log, LAST)
        # The table of the last minute, to its end.
        shown += read(table, LAST)
        while select.select([table], [], [], 0.5)[0]:
            shown += os.read(table, 65536).decode()
        writer.wait()
        shower.terminate()
        shower.wait()
    while select.select([log], [], [], 0.1)[0]:
        try:
            written += os.read(log, 65536).decode()
        except OSError:
            break
    second = 24 + LEFT * CELL + 24
    parts = [
        *terminal(8, LEFT, "LiveTable box write", screen(written)),
        *terminal(second, RIGHT, "LiveTable box show", screen(shown)),
    ]
    size = f'width="{second + RIGHT * CELL + 32:.0f}" height="{ROWS * LINE + 64}"'
    style = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" xml:space="preserve"'
    with open(file, "w", encoding="utf-8") as svg:
        svg.write("\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>"]) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: screenshot.py PROGRAM FILE")
    main(sys.argv[1], sys.argv[2])
