#!/usr/bin/env python3
"""Writes Keys/vectors/tpm2.json and the example of Docs/Formats/SealedSecret.md, from that document alone.

Keys/vectors/tpm2-pcr-signature.json is no output of this script: systemd-measure 252 has made it, for the public key and
the values of PCR 11 below. The private key is lost.
Usage: Keys/generators/make_tpm2.py
"""

import base64
import hashlib
import json
from pathlib import Path

from make_vectors import stream
from open_slot import hkdf

KEYS = Path(__file__).resolve().parent.parent
DOCUMENT = KEYS.parent / "Docs/Formats/SealedSecret.md"
MEASURED = (KEYS / "vectors/tpm2-pcr-signature.json").read_text()
MEASURED_KEY = (
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAnMk/L7oBWEDi01xH4nI57FH3CmnxzZYlMcrs1ixV8h9UERAfT0Aq/jgU"
    "5dP6xafY3/wEzYhpekqhP3tn/fbGpBgUMnDKX1Z2YWdjMdW47x89jPvymwJhoxmDAJFvxXKnV99cpi5LdfxYcCNrLBIOvT4xdTfz"
    "AyGPXS+RsNNoXdOisi90vhsQqT4yIc/qZZbeqFkSwNldHxLqmZOcjlupOA6IVSp2Ocdsytd66BHzomo2zJMu2r1P/YIfNj9wsZJP"
    "onSCwbBAL+mODHN2dkI5QM8PRxQw9tuUzIf3qWUoR6AgMkMTCzNr5JA0u8aA6E88d1Z7TDehVliMc0X1AzDp9wIDAQAB"
)
# systemd-measure calculate, for each phase of a boot.
MEASURED_VALUES = [
    "daffcca0d63384966dc0cbf97d8ed073cec06d528ae7c08853b31e6ab6935064",
    "8225214e5e562a15b5e03109294ab205b46c9523d31990e9d0253dfe595e9118",
    "2966d12c45da1e25a8722b6afc22b9e0173e84d608200037845fc75cf63bdd3a",
    "4a68a8cec519a42d042783a559bb7c9cc8b873507dee2943631a1d42b13a8bb0",
]


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


def part(data: bytes) -> bytes:
    return number(len(data), 2) + data


def mask(pcrs: list) -> int:
    return sum(1 << pcr for pcr in pcrs)


# The public key

def modulus(name: str, bits: int) -> bytes:
    """No product of primes: nothing here needs the private key."""
    data = bytearray(stream(name, bits // 8))
    data[0] |= 0x80
    data[-1] |= 1
    return bytes(data)


def der(tag: int, content: bytes) -> bytes:
    size = b"" if len(content) < 0x80 else number(len(content), 1 if len(content) < 0x100 else 2)
    return bytes([tag, 0x80 | len(size) if size else len(content)]) + size + content


def integer(data: bytes) -> bytes:
    return der(2, bytes(data[0] >> 7) + data)


def rsa_public_key(n: bytes, exponent: bytes = b"\1\0\1") -> bytes:
    return der(0x30, integer(n) + integer(exponent))


def subject_public_key(content: bytes, algorithm: str = "06092a864886f70d0101010500") -> bytes:
    return der(0x30, der(0x30, bytes.fromhex(algorithm)) + der(3, b"\0" + content))


def fingerprint(n: bytes) -> bytes:
    return sha256(rsa_public_key(n))


def signer_name(n: bytes) -> bytes:
    public = (number(0x0001, 2) + number(0x000b, 2) + number(0x00060040, 4) + part(b"") + number(0x0010, 2)
              + number(0x0010, 2) + number(len(n) * 8, 2) + number(0, 4) + part(n))
    return number(0x000b, 2) + sha256(public)


# Policies

def selection(pcrs: list) -> bytes:
    return bytes.fromhex("00000001000b03") + mask(pcrs).to_bytes(3, "little")


def policy_pcr(digest: bytes, pcrs: list, values: list) -> bytes:
    return sha256(digest, number(0x17f, 4), selection(pcrs), sha256(*values))


def policy_authorize(n: bytes) -> bytes:
    return sha256(sha256(bytes(32), number(0x16a, 4), signer_name(n)))


def policy(pcrs: list, values: list, signer, pin: bool) -> bytes:
    digest = policy_authorize(signer) if signer else bytes(32)
    digest = sha256(digest, number(0x16c, 4), number(0x15e, 4))
    if pcrs:
        digest = policy_pcr(digest, pcrs, values)
    return sha256(digest, number(0x16b, 4)) if pin else digest


def policy_vector(name: str, pcrs: list, signed: list, bits: int, pin: bool) -> dict:
    signer = modulus(name, bits) if signed else None
    return {"name": name, "pcrs": pcrs, "signedPCRs": signed, "modulus": signer.hex() if signer else None, "pin": pin,
            "signerName": signer_name(signer).hex() if signer else None,
            "signedPolicy": policy_pcr(bytes(32), signed, [bytes(32)] * len(signed)).hex() if signed else None,
            "policy": policy(pcrs, [bytes(32)] * len(pcrs), signer, pin).hex()}


def policies() -> list:
    return [policy_vector(*row) for row in [
        ("this machine", [], [], 0, False), ("a PIN", [], [], 0, True), ("PCR 7", [7], [], 0, False),
        ("PCRs 0, 8 and 16, and a PIN", [0, 8, 16], [], 0, True), ("signed PCR 11", [], [11], 2048, False),
        ("signed PCR 11, and a PIN", [], [11], 2048, True), ("PCR 7, signed PCR 11, and a PIN", [7], [11], 2048, True),
        ("the same PCR twice", [11], [11], 2048, False), ("signed PCRs 0, 11 and 16", [], [0, 11, 16], 2048, False),
    ]]


# Blobs

class Secret:
    def __init__(self, name: str, pcrs=(), pin=False, signed=(), bits=2048, machine=34, public=78, private=190, parent=34):
        self.name, self.pcrs, self.pin, self.signed = name, list(pcrs), pin, list(signed)
        self.modulus = modulus(name, bits) if signed else b""
        self.salt = stream(name + " salt", 16)
        self.parent, self.machine = stream(name + " parent", parent), stream(name + " machine", machine)
        self.public, self.private = stream(name + " public", public), stream(name + " private", private)
        self.values = [stream(f"{name} PCR {pcr}", 32) for pcr in self.pcrs]

    def blob(self, version=None, flag=None, bank=0x000b, more_pcrs=0, signed_mask=None, count=None) -> bytes:
        version = version if version is not None else 2 if self.signed else 1
        data = bytes([version, self.pin if flag is None else flag]) + number(bank, 2)
        data += number(mask(self.pcrs) | more_pcrs, 4) + self.salt
        if self.signed:
            data += number(mask(self.signed) if signed_mask is None else signed_mask, 4) + part(self.modulus)
        data += b"".join(map(part, [self.parent, self.machine, self.public, self.private]))
        return data + b"".join(self.values[:count])

    def vector(self) -> dict:
        return {"name": self.name, "blob": self.blob().hex(), "content": {
            "pcrs": self.pcrs, "pin": self.pin, "signedPCRs": self.signed, "modulus": self.modulus.hex(),
            "salt": self.salt.hex(), "parent": self.parent.hex(), "machine": self.machine.hex(),
            "publicPart": self.public.hex(), "privatePart": self.private.hex(),
            "values": [value.hex() for value in self.values]}}


def refused(name: str, blob: bytes) -> dict:
    return {"name": name, "blob": blob.hex(), "content": None}


def accepted_secrets() -> list:
    return [secret.vector() for secret in [
        Secret("version 1"), Secret("version 1, PIN", pin=True), Secret("version 1, PCR 7", [7]),
        Secret("version 1, all PCRs and a PIN", range(24), True), Secret("version 1, no endorsement hierarchy", machine=0),
        Secret("version 1, the longest parts", [0, 23], parent=68, machine=68, public=512, private=512),
        Secret("version 1, the shortest parts", parent=1, machine=0, public=1, private=1),
        Secret("version 2, signed PCR 11", signed=[11]), Secret("version 2, PIN", pin=True, signed=[11]),
        Secret("version 2, PCR 7 and a PIN", [7], True, [11]), Secret("version 2, 3072 bits", signed=[0, 23], bits=3072),
        Secret("version 2, the longest", range(24), True, range(24), 4096, 68, 512, 512, 68),
    ]]


def refused_secrets() -> list:
    one, two = Secret("refused", [7]), Secret("refused", [7], signed=[11])
    rows = [refused("empty", b""), refused("version 0", one.blob(version=0)), refused("version 3", two.blob(version=3))]
    rows += [refused("version 2 without a key", one.blob(version=2)), refused("version 1 with a key", two.blob(version=1))]
    for secret, version in [(one, "version 1"), (two, "version 2")]:
        blob = secret.blob()
        rows += [refused(f"{version}, {name}", data) for name, data in [
            ("PIN 2", secret.blob(flag=2)), ("SHA-1", secret.blob(bank=0x0004)), ("PCR 24", secret.blob(more_pcrs=1 << 24)),
            ("PCR 31", secret.blob(more_pcrs=1 << 31)), ("one more byte", blob + b"\0"), ("one byte less", blob[:-1]),
            ("a value missing", secret.blob(count=0)), ("a value too many", blob + bytes(32)),
            ("a PCR without value", secret.blob(more_pcrs=1)), ("the first 24 bytes", blob[:24]), ("a quarter", blob[:len(blob) // 4]),
        ]]
        for name, changes in [("no name", {"parent": 0}), ("a name too long", {"parent": 69}), ("a machine too long", {"machine": 69}),
                              ("no public part", {"public": 0}), ("a public part too long", {"public": 513}),
                              ("no private part", {"private": 0}), ("a private part too long", {"private": 513})]:
            changed = Secret("refused", [7], signed=secret.signed, **changes)
            rows.append(refused(f"{version}, {name}", changed.blob()))
    rows += [refused("no signed PCR", two.blob(signed_mask=0)), refused("signed PCR 24", two.blob(signed_mask=1 << 24))]
    for name, data in [("no modulus", b""), ("1024 bits", modulus("short", 1024)), ("2056 bits", modulus("odd", 2056)),
                       ("even", two.modulus[:-1] + b"\2"), ("2047 bits", b"\x7f" + two.modulus[1:]), ("4104 bits", modulus("long", 4104))]:
        two.modulus = data
        rows.append(refused(f"modulus: {name}", two.blob()))
    return rows


# Public keys and signatures

def keys() -> list:
    n = modulus("key", 2048)
    rows = [("systemd-measure", base64.b64decode(MEASURED_KEY), base64.b64decode(MEASURED_KEY)[33:289])]
    rows += [(f"{bits} bits", subject_public_key(rsa_public_key(modulus("key", bits))), modulus("key", bits)) for bits in [2048, 3072, 4096]]
    rows += [("1024 bits", subject_public_key(rsa_public_key(modulus("key", 1024))), None),
             ("exponent 3", subject_public_key(rsa_public_key(n, b"\3")), None),
             ("an Ed25519 key", subject_public_key(stream("ed25519", 32), "06032b6570"), None),
             ("RSAPublicKey alone", rsa_public_key(n), None), ("no DER", b"no DER", None), ("nothing", b"", None)]
    return [{"name": name, "der": base64.b64encode(data).decode(), "modulus": n.hex() if n else None,
             "fingerprint": fingerprint(n).hex() if n else None} for name, data, n in rows]


def signature_vector(name: str, file: str, n: bytes, pcrs: list, values: list, verdict: str, signature: bytes = b"") -> dict:
    return {"name": name, "file": file, "modulus": n.hex(), "pcrs": pcrs, "values": values, "verdict": verdict,
            "signature": signature.hex()}


def entry(n: bytes, pcrs: list, values: list) -> dict:
    digest = policy_pcr(bytes(32), sorted(pcrs), [bytes.fromhex(value) for value in values])
    return {"pcrs": pcrs, "pkfp": fingerprint(n).hex(), "pol": digest.hex(),
            "sig": base64.b64encode(stream("signature", len(n))).decode()}


def signatures() -> list:
    measured = base64.b64decode(MEASURED_KEY)[33:289]
    made = json.loads(MEASURED)["sha256"]
    rows = [signature_vector(f"systemd-measure, phase {index + 1}", MEASURED, measured, [11], [value], "ok",
                             base64.b64decode(made[index]["sig"])) for index, value in enumerate(MEASURED_VALUES)]
    zero, one, n, other = bytes(32).hex(), "11" * 32, modulus("signer", 2048), modulus("other signer", 2048)
    rows += [signature_vector("systemd-measure, another boot", MEASURED, measured, [11], [zero], "unsignedPCRs"),
             signature_vector("systemd-measure, another PCR", MEASURED, measured, [12], MEASURED_VALUES[:1], "unsignedPCRs"),
             signature_vector("systemd-measure, another key", MEASURED, n, [11], MEASURED_VALUES[:1], "otherSigner")]

    def made_for(name: str, verdict: str, *entries: dict, **banks) -> None:
        text = json.dumps({"sha256": list(entries), **banks})
        rows.append(signature_vector(name, text, n, [11, 12], [zero, one], verdict, stream("signature", 256) if verdict == "ok" else b""))

    good = entry(n, [11, 12], [zero, one])
    made_for("two PCRs", "ok", good)
    made_for("in another order", "ok", {**good, "pcrs": [12, 11]})
    made_for("capital digits", "ok", {**good, "pkfp": good["pkfp"].upper(), "pol": good["pol"].upper()})
    made_for("after others", "ok", entry(other, [11, 12], [zero, one]), entry(n, [11, 12], [one, one]), good)
    made_for("with other banks and unknown members", "ok", {**good, "x": 1}, sha1=[{"pcrs": []}], y={})
    made_for("no entry", "otherSigner")
    made_for("fewer PCRs", "unsignedPCRs", {**good, "pcrs": [11]})
    made_for("values in another order", "unsignedPCRs", entry(n, [11, 12], [one, zero]))
    made_for("a short signature", "refusedSignature", {**good, "sig": "AAAA"})
    made_for("a long signature", "refusedSignature", {**good, "sig": base64.b64encode(bytes(257)).decode()})
    made_for("no Base64", "malformedSignatures", {**good, "sig": "*"})
    made_for("PCRs as text", "malformedSignatures", {**good, "pcrs": "11"})
    made_for("a policy as number", "malformedSignatures", {**good, "pol": 1})
    for member in ["pcrs", "pkfp", "pol", "sig"]:
        made_for(f"without {member}", "malformedSignatures", {key: value for key, value in good.items() if key != member})
    for name, text, verdict in [("empty", "", "malformedSignatures"), ("a list", "[]", "malformedSignatures"),
                                ("SHA-1 alone", '{"sha1": []}', "otherSigner"), ("cut", MEASURED[:-9], "malformedSignatures"),
                                ("deep", "[" * 2000, "malformedSignatures"), ("SHA-256 as object", '{"sha256": {}}', "malformedSignatures")]:
        rows.append(signature_vector(name, text, measured, [11], MEASURED_VALUES[:1], verdict))
    return rows


def pins() -> list:
    rows = []
    for index, pin in enumerate(["1234", "Straße", "x" * 64]):
        salt = stream(f"salt of PIN {index}", 16)
        value = bytearray(hkdf(pin.encode(), salt, "cipherstore tpm2 pin v1", 32))
        value[-1] |= 0x80
        rows.append({"pin": pin, "salt": salt.hex(), "authorization": value.hex()})
    return rows


def write_example() -> None:
    name, n = "PCR 7, signed PCR 11, and a PIN", modulus("PCR 7, signed PCR 11, and a PIN", 2048)
    first = sha256(policy_authorize(n), number(0x16c, 4), number(0x15e, 4))
    secret = Secret("version 2, PCR 7 and a PIN", [7], True, [11]).blob()
    rows = [("fingerprint of the key", fingerprint(n)), ("name of the key", signer_name(n)),
            ("signed digest", policy_pcr(bytes(32), [11], [bytes(32)])), ("after PolicyAuthorize", policy_authorize(n)),
            ("after PolicyCommandCode", first), ("after PolicyPCR", policy_pcr(first, [7], [bytes(32)])),
            ("after PolicyAuthValue", policy([7], [bytes(32)], n, True)), ("the first 32 bytes of a blob", secret[:32])]
    text = DOCUMENT.read_text()
    start = text.index("| name | value |")
    DOCUMENT.write_text(text[:start] + "| name | value |\n|---|---|\n"
                        + "".join(f"| {name} | `{value.hex()}` |\n" for name, value in rows))


def main() -> None:
    content = {"keys": keys(), "secrets": accepted_secrets() + refused_secrets(), "policies": policies(),
               "signatures": signatures(), "pins": pins()}
    (KEYS / "vectors/tpm2.json").write_text(json.dumps(content, indent=1) + "\n")
    write_example()
    print({name: len(rows) for name, rows in content.items()})


if __name__ == "__main__":
    main()
