"""The conformance vectors of shares of recovery keys. Used by make_conformance.py."""

from conformance_parts import Vectors
from make_shares import common, print_share, shared, split, values
from make_vectors import stream


def share_vectors(v: Vectors) -> None:
    key, coefficients = stream("shared key", 32), stream("shared coefficients", 80)
    shares = split(key, 0x5eed0001, 3, 5, coefficients)
    foreign = split(stream("foreign key", 32), 0x5eed0002, 3, 5, coefficients)

    def add(name: str, texts: list, comment: str, expect: str = "invalidKey", misfits: str = "none") -> None:
        results = {"result_key": key, "result_misfits": misfits} if expect == "ok" else {}
        v.add(f"shares/{name}", expect, comment,
              {f"share-{index}": text.encode() for index, text in enumerate(texts, 1)}, **results)

    for numbers in ["123", "345", "531", "254"]:
        add(f"shares-{numbers}", [shares[int(n) - 1] for n in numbers], "three of five, in this order", "ok")
    add("all-shares", shares, "more than are needed", "ok")
    add("too-few", shares[:2], "two of three that are needed", "keyMissing")
    add("one", shares[:1], "a share alone", "keyMissing")
    add("repeated", [shares[0], shares[1], shares[1]], "a share twice")
    add("foreign", [shares[0], shares[1], foreign[2]], "a share of another set")
    all_sixteen = split(key, 0x5eed0003, 16, 16, stream("sixteen", 40 * 15))
    add("sixteen-of-sixteen", all_sixteen[::-1], "the largest set", "ok")
    texts(add, shares)
    wrong_values(add, shares, key, coefficients)
    headers(add, shares, key)


def texts(add, shares: list) -> None:
    rest = shares[1:3]
    lines = shares[0].splitlines()
    for name, comment, text in [
            ("caption", "a comment above the lines", "# share 1 of 5\n" + shares[0]),
            ("one-line", "all in one line, as in a QR code", " ".join(lines)),
            ("small-letters", "small letters, l for 1 and o for 0", shares[0].lower().replace("1", "l").replace("0", "o")),
            ("numbered", "a number before each line", "".join(f"{i}. {line}\n" for i, line in enumerate(lines, 1))),
            ("dashes", "dashes of a word processor", shares[0].replace("-", "\u2013")),
            ("carriage-returns", "lines of Windows", shares[0].replace("\n", "\r\n"))]:
        add(name, [text] + rest, comment, "ok")
    for number, line in enumerate(lines, 1):
        changed = ("2" if line[0] != "2" else "3") + line[1:]
        add(f"line-{number}-mistyped", [shares[0].replace(line, changed)] + rest, f"a wrong character in line {number}")
    add("neighbours-swapped", [shares[0].replace(lines[2], lines[2][:5] + lines[2][6] + lines[2][5] + lines[2][7:])] + rest,
        "two characters are swapped")
    swapped = [*lines[:2], lines[3], lines[2], *lines[4:]]
    add("lines-swapped", ["\n".join(swapped)] + rest, "the check of a line covers its number")
    mixed = [*lines[:3], shares[1].splitlines()[3], *lines[4:]]
    add("line-of-another-share", ["\n".join(mixed)] + rest, "the check of a line covers the header")
    add("line-missing", ["\n".join(lines[:5])] + rest, "five lines")
    add("line-repeated", ["\n".join(lines + lines[5:])] + rest, "seven lines")
    add("letter-u", ["U" + shares[0][1:]] + rest, "U is not a character of the alphabet")
    add("empty", [""] + rest, "no text")
    add("comment-behind-line", [shares[0].replace("\n", " # line\n", 1)] + rest, "a comment is a line of its own")


def wrong_values(add, shares: list, key: bytes, coefficients: bytes) -> None:
    head = common(0x5eed0001, 3, 5)
    content = bytearray(values(shared(key, head), coefficients, 2))
    for name, index in [("key", 0), ("digest", 39)]:
        changed = bytearray(content)
        changed[index] ^= 1
        wrong = print_share(head, 2, bytes(changed))
        add(f"wrong-{name}", [shares[0], wrong, shares[2]], f"a byte of the {name} differs, with right checks")
        add(f"wrong-{name}-among-four", [shares[0], wrong, shares[2], shares[3]],
            "a share more than are needed shows the wrong one", "ok", misfits="2")


def headers(add, shares: list, key: bytes) -> None:
    """Sets with a header that says something else, and right checks."""
    def whole(head: bytes, numbers: list = (1, 2, 3)) -> list:
        content = shared(key, head)
        return [print_share(head, number, values(content, stream("header", 80), number)) for number in numbers]

    add("later-version", whole(bytes([2]) + common(7, 3, 5)[1:]), "a version that this document does not have")
    add("threshold-1", whole(common(7, 1, 5)), "a threshold of one")
    add("threshold-above-count", whole(common(7, 3, 2)), "more shares are needed than there are")
    add("count-17", whole(common(7, 3, 17)), "more shares than a set has")
    add("number-0", whole(common(7, 3, 5), [0, 1, 2]), "the number 0 would be the secret itself")
    add("number-above-count", whole(common(7, 3, 5), [1, 2, 6]), "a share that the set does not have")
    lower = [print_share(common(0x5eed0001, 2, 5), number, values(shared(key, common(0x5eed0001, 3, 5)),
                                                                 stream("shared coefficients", 80), number)) for number in (1, 2)]
    add("threshold-lowered", lower, "the digest covers the threshold")
    add("threshold-differs", [shares[0], lower[1], shares[2]], "a share with another threshold is of another set")
