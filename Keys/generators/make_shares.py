#!/usr/bin/env python3
"""Writes Keys/vectors/shares.json and the example of Docs/Formats/Shares.md, from that document alone.

Products and inverses come from tables of logarithms here, which CipherStore does not use.
Usage: Keys/generators/make_shares.py
"""

import json
from pathlib import Path

from make_vectors import stream
from open_slot import ALPHABET, hkdf

KEYS = Path(__file__).resolve().parent.parent
DOCUMENT = KEYS.parent / "Docs/Formats/Shares.md"

# The field: 3 generates all elements but 0.
POWERS = [1]
while len(POWERS) < 255:
    double = POWERS[-1] << 1
    POWERS.append((double ^ 0x11b if double & 0x100 else double) ^ POWERS[-1])
LOGARITHMS = {power: exponent for exponent, power in enumerate(POWERS)}


def product(one: int, other: int) -> int:
    return POWERS[(LOGARITHMS[one] + LOGARITHMS[other]) % 255] if one and other else 0


def common(set_: int, threshold: int, count: int) -> bytes:
    return bytes([1]) + set_.to_bytes(4, "big") + bytes([threshold, count])


def shared(key: bytes, head: bytes) -> bytes:
    return key + hkdf(key, head, "cipherstore recovery share digest v1", 8)


def values(secret: bytes, coefficients: bytes, point: int) -> bytes:
    """The values of the polynomials at a point."""
    result = bytearray(secret)
    power = 1
    for start in range(0, len(coefficients), len(secret)):
        power = product(power, point)
        for index in range(len(secret)):
            result[index] ^= product(coefficients[start + index], power)
    return bytes(result)


def check(line: int, data: bytes, head: bytes) -> int:
    crc = 0xFFFF
    for byte in bytes([16 + line]) + head + data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc


def print_share(head: bytes, number: int, content: bytes) -> str:
    header = head + bytes([number])
    lines = []
    for line, start in enumerate(range(0, 48, 8), 1):
        data = (header + content)[start:start + 8]
        bits = int.from_bytes(data + check(line, data, header if line > 1 else b"").to_bytes(2, "big"), "big")
        text = "".join(ALPHABET[bits >> shift & 31] for shift in range(75, -1, -5))
        lines.append("-".join(text[i:i + 4] for i in range(0, 16, 4)))
    return "\n".join(lines) + "\n"


def split(key: bytes, set_: int, threshold: int, count: int, coefficients: bytes) -> list:
    head = common(set_, threshold, count)
    return [print_share(head, number, values(shared(key, head), coefficients, number)) for number in range(1, count + 1)]


def vector(name: str, set_: int, threshold: int, count: int) -> dict:
    key, coefficients = stream(name + " key", 32), stream(name + " coefficients", 40 * (threshold - 1))
    return {"name": name, "key": key.hex(), "set": set_, "threshold": threshold, "count": count,
            "coefficients": coefficients.hex(), "shares": split(key, set_, threshold, count, coefficients)}


def main() -> None:
    example = vector("shares of the document", 0x2a6b91cf, 2, 3)
    vectors = [example, vector("all of two", 0, 2, 2), vector("three of five", 0xffffffff, 3, 5),
               vector("all of sixteen", 0x01234567, 16, 16), vector("two of sixteen", 0x89abcdef, 2, 16)]
    text = json.dumps({"vectors": vectors}, indent=1)
    (KEYS / "vectors/shares.json").write_text(text + "\n")
    digest = shared(bytes.fromhex(example["key"]), common(0x2a6b91cf, 2, 3))[32:]
    rows = [("key", example["key"]), ("digest", digest.hex()), ("coefficients", example["coefficients"])]
    block = "".join(f"| {name} | `{value}` |\n" for name, value in rows)
    text = DOCUMENT.read_text()
    start = text.index("| name | value |")
    DOCUMENT.write_text(text[:start] + "| name | value |\n|---|---|\n" + block
                        + "".join(f"\n```\n{share}```\n" for share in example["shares"]))


if __name__ == "__main__":
    main()
