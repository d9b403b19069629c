"""The conformance vectors of single sidecars, keyslots and recovery keys. Used by make_conformance.py."""

import hashlib

from conformance_parts import CIPHER, DirectStore, Slot, SlotStore, Vectors
from make_vectors import stream
from open_slot import print_recovery

PHRASE, NEXT_PHRASE = "sesame street", "rubber duckie"
# Edits after which a line is not as the format says: name, line, old text, new text.
BROKEN = [
    ("format-name", 1, '"cipherstore-sidecar"', '"cipherstore-sidecars"'),
    ("version-leading-zero", 1, '"version":', '"version":0'),
    ("version-as-text", 1, '"version":', '"version":"'),
    ("version-negative", 1, '"version":', '"version":-'),
    ("first-line-extra-key", 1, '}\n', ',"more":1}\n'),
    ("byte-order-mark", 1, '{"format"', '\ufeff{"format"'),
    ("blank-before-first-line", 1, '{"format"', ' {"format"'),
    ("carriage-return", 1, '}\n', '}\r\n'),
    ("empty-line", 2, '{"record":"store"', '\n{"record":"store"'),
    ("record-name", 2, '"record":"store"', '"record":"shop"'),
    ("id-short", 2, '"id":"', '"id":"00'),
    ("id-not-hexadecimal", 2, '"id":"', '"id":"g'),
    ("state-unknown", 2, '"state":"ready"', '"state":"done"'),
    ("state-capital", 2, '"state":"ready"', '"state":"Ready"'),
    ("state-escaped", 2, '"state":"ready"', '"state":"\\u0072eady"'),
    ("epoch-zero", 2, '"epoch":1,', '"epoch":0,'),
    ("epoch-leading-zero", 2, '"epoch":1,', '"epoch":01,'),
    ("epoch-negative", 2, '"epoch":1,', '"epoch":-1,'),
    ("epoch-plus", 2, '"epoch":1,', '"epoch":+1,'),
    ("epoch-fraction", 2, '"epoch":1,', '"epoch":1.0,'),
    ("epoch-exponent", 2, '"epoch":1,', '"epoch":1e0,'),
    ("epoch-as-text", 2, '"epoch":1,', '"epoch":"1",'),
    ("epoch-19-digits", 2, '"epoch":1,', '"epoch":1000000000000000000,'),
    ("generation-zero", 2, '"generation":2', '"generation":0'),
    ("generation-missing", 2, '"generation":2,', ''),
    ("generation-repeated", 2, '"generation":2,', '"generation":2,"generation":2,'),
    ("keys-in-another-order", 2, '"epoch":1,"generation":2', '"generation":2,"epoch":1'),
    ("blank-after-colon", 2, '"epoch":1', '"epoch": 1'),
    ("store-extra-key", 2, '"scheme":', '"owner":"me","scheme":'),
    ("scheme-unknown", 2, '"scheme":"', '"scheme":"x'),
    ("cipher-salt-long", 3, '"salt":"', '"salt":"00'),
    ("page-bytes-1000", 3, '"page_bytes":4096', '"page_bytes":1000'),
    ("page-bytes-256", 3, '"page_bytes":4096', '"page_bytes":256'),
    ("page-bytes-131072", 3, '"page_bytes":4096', '"page_bytes":131072'),
    ("header-bytes-16", 3, '"plaintext_header_bytes":32', '"plaintext_header_bytes":16'),
    ("header-bytes-33", 3, '"plaintext_header_bytes":32', '"plaintext_header_bytes":33'),
    ("kdf-rounds-zero", 3, '"kdf_rounds":1000', '"kdf_rounds":0'),
    ("kdf-rounds-10000001", 3, '"kdf_rounds":1000', '"kdf_rounds":10000001'),
    ("kdf-hash-unknown", 3, '"kdf_hash":"sha512"', '"kdf_hash":"md5"'),
    ("kdf-hash-capital", 3, '"kdf_hash":"sha512"', '"kdf_hash":"SHA512"'),
    ("hmac-hash-unknown", 3, '"hmac_hash":"sha512"', '"hmac_hash":"sha384"'),
    ("hmac-hash-missing", 3, ',"hmac_hash":"sha512"', ''),
]


def result(store, state: str = "ready", generation: int = 2, slot: int = None, **more) -> dict:
    found = {"result_state": state, "result_epoch": store.epoch, "result_generation": generation,
             "result_data_key": store.key}
    return found | ({"result_slot": slot} if slot else {}) | more


def capital(text: str, key: str) -> tuple:
    """An edit that writes the hexadecimal digits of the first such key in capitals."""
    start = text.index(f'"{key}":"') + len(key) + 4
    digits = text[start:text.index('"', start)]
    return f'"{key}":"{digits}"', f'"{key}":"{digits.upper()}"'


def without_line(text: str, number: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:number - 1] + lines[number:])


def sidecar_vectors(v: Vectors) -> None:
    direct = DirectStore("sidecar direct")
    slots = SlotStore("sidecar slots", [Slot(1, "key-file", stream("key file", 32))])
    good_sidecars(v, direct, slots)
    for prefix, store, secret in [("v1", direct, direct.secret), ("v2", slots, {"raw_key": stream("key file", 32)})]:
        def damaged(name: str, number, content: bytes, comment: str) -> None:
            headers = {} if number is None else {"result_line": number}
            v.add(f"sidecar/{prefix}-{name}", "sidecarDamaged", comment, {"sidecar": content}, **secret, **headers)
        # The first three lines are those of both versions.
        for name, number, old, new in BROKEN if prefix == "v1" else []:
            damaged(name, number, store.sidecar(edit=(old, new)), f"line {number} is not as the format says")
        text = store.sidecar().decode()
        for key, number in [("id", 2), ("salt", 3)]:
            damaged(f"{key}-capital", number, store.sidecar(edit=capital(text, key)), "capital hexadecimal digits")
        broken_lines(damaged, store, text)
        forged_sidecars(v, prefix, store, secret, text)
    later_versions(v, direct, slots)
    pending_direct(v)
    pending_slots(v)


def good_sidecars(v: Vectors, direct: DirectStore, slots: SlotStore) -> None:
    secret = {"raw_key": stream("key file", 32)}
    for state in ["ready", "creating"]:
        v.add(f"sidecar/v1-{state}", "ok", f"a direct store with a raw key, {state}", {"sidecar": direct.sidecar(state)},
              **direct.secret, **result(direct, state))
        v.add(f"sidecar/v2-{state}", "ok", f"a store with one keyslot, {state}", {"sidecar": slots.sidecar(state)}, **secret,
              **result(slots, state, slot=1))
    for hash_name in ["sha1", "sha256", "sha512"]:
        store = DirectStore(f"sidecar {hash_name}", PHRASE, CIPHER | {"kdf_hash": hash_name, "hmac_hash": hash_name})
        v.add(f"sidecar/v1-passphrase-{hash_name}", "ok", "a direct store with a passphrase", {"sidecar": store.sidecar()},
              **store.secret, **result(store))
    for page_bytes in [512, 1024, 65536]:
        store = DirectStore(f"sidecar {page_bytes}", cipher=CIPHER | {"page_bytes": page_bytes})
        v.add(f"sidecar/v1-page-bytes-{page_bytes}", "ok", "another page size", {"sidecar": store.sidecar()}, **store.secret,
              **result(store))
    store = DirectStore("sidecar header 0", cipher=CIPHER | {"plaintext_header_bytes": 0})
    v.add("sidecar/v1-standard-header", "ok", "the salt is in the database too", {"sidecar": store.sidecar()},
          **store.secret, **result(store))
    largest = 999_999_999_999_999_999
    v.add("sidecar/v1-generation-18-digits", "ok", "the largest generation", {"sidecar": direct.sidecar(generation=largest)},
          **direct.secret, **result(direct, generation=largest))
    v.add("sidecar/v2-origin-direct", "ok", "a direct store was given keyslots and kept its data key",
          {"sidecar": slots.sidecar(origin="direct")}, **secret, **result(slots, slot=1))
    v.add("sidecar/v2-later-epoch", "ok", "the store was rotated twice", {"sidecar": slots.sidecar(epoch=3)}, **secret,
          **(result(slots, slot=1) | {"result_epoch": 3}))


def broken_lines(damaged, store, text: str) -> None:
    lines = text.splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        damaged(f"line-{number}-missing", number, without_line(text, number).encode(), "a line is missing")
    for number in range(1, len(lines)):
        repeated = "".join(lines[:number] + [lines[number - 1]] + lines[number:])
        # A reader of version 2 expects another slot or the data key after a slot: it reports the repeated number.
        damaged(f"line-{number}-repeated", number + 1, repeated.encode(), "a line is repeated")
    damaged("lines-2-and-3-swapped", 2, "".join([lines[0], lines[2], lines[1], *lines[3:]]).encode(), "two lines are swapped")
    damaged("no-last-newline", len(lines), text[:-1].encode(), "the last line is not ended")
    damaged("bytes-after-the-end", len(lines) + 1, text.encode() + b"\n", "a byte after the last line")
    damaged("second-file-after-the-end", len(lines) + 1, text.encode() * 2, "the file twice")
    damaged("cut-in-the-middle", 3, text[:text.index('"kdf_hash"')].encode(), "the file ends inside a line")
    damaged("zeros", 1, bytes(len(text)), "zeros, as after a power failure")
    damaged("zero-after-the-end", len(lines) + 1, text.encode() + b"\0", "a zero byte after the last line")
    damaged("empty", None, b"", "no bytes")
    damaged("too-long", None, text.encode() + b" " * (65537 - len(text)), "longer than 65,536 bytes")
    damaged("mac-capital", len(lines), (without_line(text, len(lines)) + lines[-1].upper().replace("MAC", "mac")).encode(),
            "the code has capital digits")


def forged_sidecars(v: Vectors, prefix: str, store, secret: dict, text: str) -> None:
    def forged(name: str, comment: str, *edit: tuple, expect: str = "sidecarForged", content: bytes = None) -> None:
        made = text
        for old, new in edit:
            assert old in made
            made = made.replace(old, new, 1)
        v.add(f"sidecar/{prefix}-{name}", expect, comment, {"sidecar": content or made.encode()}, **secret)

    forged("state-changed", "changed without the key", ('"state":"ready"', '"state":"creating"'))
    forged("epoch-changed", "changed without the key", *([('"epoch":1', '"epoch":2')] * (1 if prefix == "v1" else 2)))
    forged("generation-raised", "changed without the key", ('"generation":2', '"generation":3'))
    forged("page-bytes-changed", "changed without the key", ('"page_bytes":4096', '"page_bytes":8192'))
    forged("header-bytes-changed", "changed without the key", ('"plaintext_header_bytes":32', '"plaintext_header_bytes":0'))
    forged("hmac-hash-changed", "changed without the key", ('"hmac_hash":"sha512"', '"hmac_hash":"sha1"'))
    forged("kdf-rounds-changed", "changed without the key; the raw key does not depend on it",
           ('"kdf_rounds":1000', '"kdf_rounds":1001'))
    forged("salt-changed", "changed without the key; the raw key does not depend on it",
           (store.salt.hex(), stream("another salt", 16).hex()))
    forged("id-changed", "the key check depends on the identifier", (store.id.hex(), stream("another id", 16).hex()),
           expect="wrongKey")
    check = text[text.index('"value":"') + 9:][:32]
    forged("key-check-changed", "a changed key check looks like a wrong key", (check, "00" * 16), expect="wrongKey")
    mac = text[-67:-3]
    forged("mac-changed", "one digit of the code", (mac, ("0" if mac[0] != "0" else "1") + mac[1:]))
    forged("mac-zeros", "a code of zeros", (mac, "00" * 32))
    forged("mac-of-another-key", "sealed by somebody with another key", content=store.sidecar(mac_key=stream("thief", 32)))
    wrong = {"raw_key": stream("wrong key", 32)}
    v.add(f"sidecar/{prefix}-wrong-key", "wrongKey", "the key of another store", {"sidecar": text.encode()}, **wrong)
    v.add(f"sidecar/{prefix}-wrong-passphrase", "wrongKey", "a passphrase, where the store has a raw key",
          {"sidecar": text.encode()}, passphrase="sesame")


def later_versions(v: Vectors, direct: DirectStore, slots: SlotStore) -> None:
    secret = {"raw_key": stream("key file", 32)}
    for prefix, store, key in [("v1", direct, direct.secret), ("v2", slots, secret)]:
        other = {"v1": 2, "v2": 1}[prefix]
        v.add(f"sidecar/{prefix}-version-{other}", "sidecarDamaged", "of one version in all but the number: damaged, not newer",
              {"sidecar": store.sidecar(version=other)}, **key, result_line=1)
        v.add(f"sidecar/{prefix}-version-3", "sidecarDamaged", "of one version in all but the number: damaged, not newer",
              {"sidecar": store.sidecar(version=3)}, **key, result_line=1)
        v.add(f"sidecar/{prefix}-later-version", "sidecarAhead", "a later version has another number and another line",
              {"sidecar": store.sidecar(version=4, edit=('"scheme":', '"purpose":"new","scheme":'))}, **key)
    v.add("sidecar/later-version-other-first-line", "sidecarAhead", "a later version may go on in the first line",
          {"sidecar": b'{"format":"cipherstore-sidecar","version":17,"features":["x"]}\n{"record":"new"}\n'}, **direct.secret)
    v.add("sidecar/version-then-a-letter", "sidecarDamaged", "after the number only } or , can follow",
          {"sidecar": b'{"format":"cipherstore-sidecar","version":4x}\n'}, **direct.secret, result_line=1)


def pending_direct(v: Vectors) -> None:
    for what, store in [("raw", DirectStore("pending raw")),
                        ("passphrase", DirectStore("pending passphrase", PHRASE, next_passphrase=NEXT_PHRASE))]:
        for state, pages in [("rotating", 0), ("switching", 1234)]:
            v.add(f"sidecar/v1-{state}-{what}", "ok", f"a rotation to another key, {state}",
                  {"sidecar": store.sidecar(state, 3, pages=pages)}, **store.secret,
                  **result(store, state, 3, result_next_key=store.next_key))
    store = DirectStore("pending raw")

    def bad(name: str, expect: str, comment: str, number: int = None, state: str = "switching", pages: int = 7, **more) -> None:
        secret = more.pop("secret", store.secret)
        content = more.pop("content", None) or store.sidecar(state, 3, pages=pages, **more)
        headers = {"result_line": number} if number else {}
        v.add(f"sidecar/v1-pending-{name}", expect, comment, {"sidecar": content}, **secret, **headers)

    bad("next-key", "wrongKey", "the next key is not yet the key of the sidecar", secret=store.next_secret)
    bad("pages-zero", "sidecarDamaged", "a complete copy has pages", 4, pages=0)
    bad("pages-in-rotating", "sidecarDamaged", "the length of an incomplete copy is not known", 4, "rotating", 5)
    bad("pages-4294967295", "sidecarDamaged", "more pages than SQLite can have", 4, pages=4294967295)
    bad("epoch-plus-two", "sidecarDamaged", "the pending epoch is the next one", 4, edit=('"pending","epoch":2', '"pending","epoch":3'))
    bad("epoch-same", "sidecarDamaged", "the pending epoch is the next one", 4, edit=('"pending","epoch":2', '"pending","epoch":1'))
    text = store.sidecar("switching", 3, pages=7).decode()
    bad("record-missing", "sidecarDamaged", "the state promises a pending record", 4, content=without_line(text, 4).encode())
    bad("key-check-missing", "sidecarDamaged", "the next key has a key check", 6, content=without_line(text, 6).encode())
    bad("mac-missing", "sidecarDamaged", "a pending rotation is sealed by both keys", 7, content=without_line(text, 7).encode())
    bad("in-ready", "sidecarDamaged", "a pending record in state ready", 4, edit=('"state":"switching"', '"state":"ready"'))
    thief = stream("thief", 32)
    bad("mac-by-another-key", "sidecarForged", "the present key alone cannot make a store change keys (CVE-2021-4122)",
        pending_mac_key=thief)
    bad("mac-by-the-present-key", "sidecarForged", "the present key alone cannot make a store change keys (CVE-2021-4122)",
        pending_mac_key=store.key)
    bad("key-check-of-another-key", "sidecarForged", "the key check of the next key is that of another", pending_check=thief)
    bad("wrapped-under-another-key", "sidecarForged", "the present key does not open the next one", wrap_key=thief)
    bad("mac-of-the-file-wrong", "sidecarForged", "sealed by the next key alone", mac_key=store.next_key)
    bad("rolled-to-rotating", "sidecarForged", "a switch that is turned back without the key",
        content=text.replace('"switching"', '"rotating"').replace('"pages":7', '"pages":0').encode())


def pending_slots(v: Vectors) -> None:
    key_file, recovery = stream("key file", 32), stream("recovery", 32)
    both = [Slot(1, "key-file", key_file), Slot(2, "recovery", recovery)]
    same = SlotStore("pending slots", both)
    renewed = SlotStore("pending renewed", both, kept=[both[0]])
    for state, pages in [("rotating", 0), ("switching", 99)]:
        v.add(f"sidecar/v2-{state}", "ok", f"a rotation of the data key, {state}",
              {"sidecar": same.sidecar(state, 3, pages=pages)}, raw_key=key_file,
              **result(same, state, 3, 1, result_next_key=same.next_key))
        for slot, what in [(1, "kept"), (2, "dropped")]:
            v.add(f"sidecar/v2-{state}-new-master-{what}-slot", "ok",
                  f"a rotation of the master key, {state}; the present master key does not open the next one",
                  {"sidecar": renewed.sidecar(state, 3, pages=pages)}, raw_key=both[slot - 1].secret,
                  **result(renewed, state, 3, slot, result_next_key="none"))
    thief = stream("thief", 32)
    key = {"raw_key": key_file}

    def bad(name: str, expect: str, comment: str, content: bytes, number: int = None) -> None:
        v.add(f"sidecar/v2-pending-{name}", expect, comment, {"sidecar": content}, **key,
              **({"result_line": number} if number else {}))
    bad("mac-by-another-key", "sidecarForged", "the pending part was not sealed by the next data key",
        same.sidecar("switching", 3, pages=9, pending_mac_key=thief))
    bad("mac-by-the-master-key", "sidecarForged", "the pending part was not sealed by the next data key",
        same.sidecar("switching", 3, pages=9, pending_mac_key=same.master))
    bad("wrapped-another-key", "sidecarForged", "the pending record wraps another key than that which sealed it",
        same.sidecar("switching", 3, pages=9, wrapped_next=thief))
    bad("slot-after-key-check", "sidecarDamaged", "a pending slot where none may be", same.sidecar(
        "switching", 3, pages=9, edit=('{"record":"key-check"', '{"record":"key-check","slot":1')), 9)
    text = renewed.sidecar("switching", 3, pages=9).decode()
    number = 1 + next(i for i, line in enumerate(text.splitlines()) if "pending-slot" in line)
    bad("slot-id-of-none", "sidecarDamaged", "a pending slot with a number that was never given",
        renewed.sidecar("switching", 3, pages=9, edit=('"pending-slot","id":1', '"pending-slot","id":3')), number)
    bad("slot-repeated", "sidecarDamaged", "a pending slot is there twice", "".join(
        line * (2 if "pending-slot" in line else 1) for line in text.splitlines(keepends=True)).encode(), number + 1)
    bad("key-check-missing", "sidecarDamaged", "a new master key has a key check",
        without_line(text, number + 2).encode(), number + 2)


# Keyslots

def keyslot_vectors(v: Vectors) -> None:
    key, text = stream("key file", 32), PHRASE.encode()
    recovery = stream("recovery key", 32)
    scrypt, argon2id = ("scrypt", (14, 8, 1)), ("argon2id", (16384, 1, 1))
    for name, kind, secret, kdf, headers in [
        ("key-file", "key-file", key, ("hkdf", ()), {"raw_key": key}),
        ("recovery", "recovery", recovery, ("hkdf", ()), {"raw_key": recovery}),
        ("recovery-as-text", "recovery", recovery, ("hkdf", ()),
         {"passphrase": print_recovery(recovery).replace("\n", " ").strip()}),
        ("recovery-as-small-letters", "recovery", recovery, ("hkdf", ()),
         {"passphrase": print_recovery(recovery).replace("\n", " ").strip().lower().replace("1", "l").replace("0", "o")}),
        ("passphrase-scrypt", "passphrase", text, scrypt, {"passphrase": PHRASE}),
        ("passphrase-scrypt-p-2", "passphrase", text, ("scrypt", (14, 8, 2)), {"passphrase": PHRASE}),
        ("passphrase-argon2id", "passphrase", text, argon2id, {"passphrase": PHRASE, "needs": "argon2id"}),
        ("passphrase-argon2id-lanes", "passphrase", text, ("argon2id", (16384, 2, 4)),
         {"passphrase": PHRASE, "needs": "argon2id"}),
        ("command-hkdf", "command", text, ("hkdf", ()), {"passphrase": PHRASE}),
        ("command-scrypt", "command", text, scrypt, {"passphrase": PHRASE}),
        ("credential-hkdf", "credential", text, ("hkdf", ()), {"passphrase": PHRASE}),
        ("credential-scrypt", "credential", text, scrypt, {"passphrase": PHRASE}),
    ]:
        store = SlotStore(f"keyslot {name}", [Slot(1, kind, secret, *kdf, label=f"the {kind}")])
        v.add(f"keyslot/{name}", "ok", f"a keyslot of the kind {kind}, by {kdf[0]}", {"sidecar": store.sidecar()}, **headers,
              **result(store, slot=1))
    many_slots(v, key)
    refused_slots(v, key)
    changed_slots(v, key, recovery)
    token_slots(v, key)
    refused_tokens(v, key)
    pending_tokens(v, key)


def many_slots(v: Vectors, key: bytes) -> None:
    slots = [Slot(i + 1, "key-file", stream(f"key {i + 1}", 32), label=f"server {i + 1}") for i in range(33)]
    full = SlotStore("32 slots", slots[:32])
    v.add("keyslot/32-slots", "ok", "the most keyslots", {"sidecar": full.sidecar()}, raw_key=slots[31].secret,
          **result(full, slot=32))
    v.add("keyslot/33-slots", "sidecarDamaged", "one keyslot too many", {"sidecar": SlotStore("33 slots", slots).sidecar()},
          raw_key=key, result_line=37)
    v.add("keyslot/no-slot", "sidecarDamaged", "a store without a keyslot opens with nothing",
          {"sidecar": full.sidecar(slots=[], next_id=2)}, raw_key=key, result_line=5)
    gaps = SlotStore("slots with gaps", [slots[1], slots[4]])
    v.add("keyslot/numbers-with-gaps", "ok", "removed keyslots leave gaps", {"sidecar": gaps.sidecar(next_id=9)},
          raw_key=slots[4].secret, **result(gaps, slot=5))
    label = SlotStore("slot with label", [Slot(1, "key-file", key, label="!#$%&'()*+,-./09:;<=>?@AZ[]^_`az{|}~ 2nd floor" + "x" * 18)])
    v.add("keyslot/label-64-characters", "ok", "the longest label, of all signs", {"sidecar": label.sidecar()}, raw_key=key,
          **result(label, slot=1))
    costly = [Slot(i + 1, "passphrase", b"", "scrypt", (18, 8, 1)) for i in range(17)]
    for name, count, expect in [("at-the-bound", 16, "ok"), ("beyond-the-bound", 17, "sidecarDamaged")]:
        store = SlotStore(f"cost {count}", costly[:count] + [Slot(count + 1, "key-file", key)])
        text = store.sidecar(slots=costly[:count], next_id=count + 2, costly=True).decode()
        # The one slot that opens is sealed as it is; the others are never derived.
        own = SlotStore(f"cost {count}", [Slot(count + 1, "key-file", key)])
        lines = text.splitlines(keepends=True)[4:4 + count]
        content = own.sidecar(next_id=count + 2, edit=('{"record":"slot"', "".join(lines) + '{"record":"slot"'))
        headers = result(own, slot=count + 1) if expect == "ok" else {"result_line": 21}
        v.add(f"keyslot/total-cost-{name}", expect, "all derivations together may fill 4,294,967,296 bytes",
              {"sidecar": content}, raw_key=key, **headers)


def refused_slots(v: Vectors, key: bytes) -> None:
    def refused(name: str, comment: str, *slots: Slot, **more) -> None:
        store = SlotStore("refused slots", list(slots))
        v.add(f"keyslot/{name}", "sidecarDamaged", comment, {"sidecar": store.sidecar(costly="edit" not in more, **more)}, raw_key=key,
              result_line=4 + len(slots))

    for name, kdf, parameters in [
        ("scrypt-log2-n-13", "scrypt", (13, 8, 1)), ("scrypt-log2-n-21", "scrypt", (21, 8, 1)),
        ("scrypt-r-16", "scrypt", (14, 16, 1)), ("scrypt-r-0", "scrypt", (14, 0, 1)), ("scrypt-p-0", "scrypt", (14, 8, 0)),
        ("scrypt-p-5", "scrypt", (14, 8, 5)), ("argon2id-memory-16383", "argon2id", (16383, 1, 1)),
        ("argon2id-memory-1048577", "argon2id", (1048577, 1, 1)), ("argon2id-iterations-0", "argon2id", (16384, 0, 1)),
        ("argon2id-iterations-17", "argon2id", (16384, 17, 1)), ("argon2id-lanes-0", "argon2id", (16384, 1, 0)),
        ("argon2id-lanes-9", "argon2id", (16384, 1, 9)),
    ]:
        refused(name, "a parameter out of its bounds, refused before anything is derived",
                Slot(1, "passphrase", b"", kdf, parameters))
    refused("passphrase-by-hkdf", "a passphrase that is not stretched", Slot(1, "passphrase", b"x"))
    refused("key-file-by-scrypt", "a random key that is stretched", Slot(1, "key-file", key, "scrypt", (14, 8, 1)))
    refused("recovery-by-scrypt", "a random key that is stretched", Slot(1, "recovery", key, "scrypt", (14, 8, 1)))
    one = Slot(1, "key-file", key)
    for name, old, new in [
        ("kind-unknown", '"kind":"key-file"', '"kind":"smartcard"'), ("kdf-unknown", '"kdf":"hkdf"', '"kdf":"pbkdf2"'),
        ("kdf-parameter-extra", '"kdf":"hkdf"', '"kdf":"hkdf","r":8'), ("number-zero", '"slot","id":1', '"slot","id":0'),
        ("number-not-below-next", '"slot","id":1', '"slot","id":2'), ("created-negative", '"created":1', '"created":-1'),
        ("label-quote", '"label":""', '"label":"a"b"'), ("label-backslash", '"label":""', '"label":"a\\\\b"'),
        ("label-not-ascii", '"label":""', '"label":"Büro"'), ("label-control", '"label":""', '"label":"a\tb"'),
        ("label-blank-first", '"label":""', '"label":" a"'), ("label-blank-last", '"label":""', '"label":"a "'),
        ("label-65-characters", '"label":""', f'"label":"{"x" * 65}"'), ("salt-short", '"salt":"', '"salt":"0'),
        ("nonce-long", '"nonce":"', '"nonce":"00'), ("wrapped-long", '"wrapped":"', '"wrapped":"00'),
    ]:
        text = SlotStore("refused slots", [one]).sidecar().decode()
        start = text.index('{"record":"slot"')
        slot = text[start:text.index("\n", start)]
        assert old in slot, name
        refused(name, "a keyslot that is not as the format says", one, edit=(slot, slot.replace(old, new, 1)))
    refused("numbers-descending", "the numbers ascend", Slot(2, "key-file", key), Slot(1, "key-file", stream("k", 32)))
    refused("numbers-equal", "no number is used twice", Slot(1, "key-file", key), Slot(1, "key-file", stream("k", 32)))


def changed_slots(v: Vectors, key: bytes, recovery: bytes) -> None:
    store = SlotStore("changed slots", [Slot(1, "key-file", key), Slot(2, "recovery", recovery)])
    text = store.sidecar().decode()
    first, second = (store.slots[i].fields(store.name, store.id, store.master) for i in [0, 1])

    def changed(name: str, expect: str, comment: str, *edit: tuple, raw_key: bytes = key, sealed: bool = True,
                number: int = None) -> None:
        content = store.sidecar(edit=list(edit)) if sealed else text
        if not sealed:
            for old, new in edit:
                assert old in content, name
                content = content.replace(old, new, 1)
            content = content.encode()
        v.add(f"keyslot/{name}", expect, comment, {"sidecar": content}, raw_key=raw_key,
              **({"result_line": number} if number else {}))

    def flipped(digits: str) -> str:
        return ("0" if digits[0] != "0" else "1") + digits[1:]
    v.add("keyslot/other-slot-opens", "ok", "the second keyslot opens too", {"sidecar": text.encode()}, raw_key=recovery,
          **result(store, slot=2))
    changed("wrong-key", "wrongKey", "no keyslot opens", raw_key=stream("no key", 32))
    changed("wrapped-flipped", "wrongKey", "the wrapped key does not open", (first["wrapped"], flipped(first["wrapped"])))
    changed("nonce-flipped", "wrongKey", "the wrapped key does not open", (first["nonce"], flipped(first["nonce"])))
    changed("salt-flipped", "wrongKey", "another slot key is derived", (first["salt"], flipped(first["salt"])))
    changed("kind-changed", "wrongKey", "the kind is part of the additional data", ('"id":1,"kind":"key-file"', '"id":1,"kind":"recovery"'))
    changed("wrapped-keys-swapped", "wrongKey", "a wrapped key opens in no other keyslot",
            (first["wrapped"], "X" * 96), (second["wrapped"], first["wrapped"]), ("X" * 96, second["wrapped"]))
    changed("label-changed", "sidecarForged", "the label is authenticated by the code alone", ('"label":""', '"label":"x"'),
            sealed=False)
    changed("created-changed", "sidecarForged", "the time is authenticated by the code alone",
            ('"created":1700000001', '"created":1700000002'), sealed=False)
    changed("next-id-changed", "sidecarForged", "authenticated by the code alone", ('"next_id":3', '"next_id":4'), sealed=False)
    changed("slot-removed", "sidecarForged", "a keyslot was removed without the key",
            ("".join(line for line in text.splitlines(keepends=True) if '"id":2,' in line), ""), sealed=False)
    changed("origin-changed", "sidecarForged", "authenticated by the code alone", ('"random"', '"direct"'), sealed=False)
    nonce, wrapped = store.wrap("", store.master, store.key, 1, store.salt)
    changed("data-key-flipped", "sidecarForged", "sealed, but the data key does not open", (wrapped, flipped(wrapped)))
    changed("data-key-other-salt", "sidecarForged", "the salt of the pages is part of the data key's additional data",
            (f'"cipher","salt":"{store.salt.hex()}"', f'"cipher","salt":"{stream("another salt", 16).hex()}"'))
    changed("data-key-other-settings", "sidecarForged", "the settings of the pages are part of the additional data",
            ('"hmac_hash":"sha512"', '"hmac_hash":"sha256"'))
    changed("data-key-epoch-differs", "sidecarDamaged", "both epochs must be equal",
            ('"data-key","epoch":1', '"data-key","epoch":2'), number=7)
    thief = SlotStore("thief's slots", [Slot(1, "key-file", stream("thief", 32))], store_id=store.id)
    own = [line for line in thief.sidecar().decode().splitlines(keepends=True) if '"record":"slot"' in line]
    v.add("keyslot/slot-of-a-thief", "wrongKey", "a keyslot that wraps another master key: its key fits no key check",
          {"sidecar": text.replace([line for line in text.splitlines(keepends=True) if '"id":1,' in line][0], own[0], 1).encode()},
          raw_key=stream("thief", 32))


# Keyslots whose secret a device keeps

TOKENS = {"plugin": ("age", b"the blob of a plugin"), "pkcs11": ("My token", bytes(range(64))), "tpm2": ("", bytes(200))}


def device(kind: str, secret: bytes) -> dict:
    return {"device": kind, "device_secret": secret}


def token_slots(v: Vectors, key: bytes) -> None:
    for kind, token in TOKENS.items():
        secret = stream(f"secret of {kind}", 32)
        store = SlotStore(f"token {kind}", [Slot(1, "key-file", key), Slot(2, kind, secret, label="device", token=token)])
        content = {"sidecar": store.sidecar()}
        hexadecimal = token[1].hex()
        v.add(f"keyslot/{kind}", "ok", "a keyslot whose secret a device keeps", content, **device(kind, secret),
              **result(store, slot=2))
        v.add(f"keyslot/{kind}-beside-key-file", "ok", "another keyslot of such a store", content, raw_key=key,
              **result(store, slot=1))
        v.add(f"keyslot/{kind}-wrong-secret", "wrongKey", "the device gives another secret", content, **device(kind, key))
        v.add(f"keyslot/{kind}-raw-key", "wrongKey", "a raw key is not tried on the keyslot of a device", content, raw_key=secret)
        v.add(f"keyslot/{kind}-passphrase", "wrongKey", "a passphrase is not tried on the keyslot of a device", content,
              passphrase_hex=secret)
        other = {"plugin": "pkcs11", "pkcs11": "tpm2", "tpm2": "pkcs11"}[kind]
        v.add(f"keyslot/{kind}-other-device", "wrongKey", "a device of another kind", content, **device(other, secret))
        name = f'"name":"{token[0]}"'
        for what, old, new, used in [
            ("token", hexadecimal, ("1" if hexadecimal[0] == "0" else "0") + hexadecimal[1:], kind),
            ("token-longer", hexadecimal, hexadecimal + "00", kind),
            ("token-shorter", hexadecimal, hexadecimal[:-2], kind),
            ("name", name, f'"name":"{token[0]}x"', kind), ("kind", f'"kind":"{kind}"', f'"kind":"{other}"', other),
        ]:
            v.add(f"keyslot/{kind}-{what}-changed", "wrongKey", "the token is bound to the wrapped key",
                  {"sidecar": store.sidecar(edit=(old, new))}, **device(used, secret))
            forged = store.sidecar().decode().replace(old, new, 1).encode()
            v.add(f"keyslot/{kind}-{what}-forged", "sidecarForged", "changed without the key", {"sidecar": forged}, raw_key=key)
        v.add(f"keyslot/{kind}-in-version-2", "sidecarDamaged", "version 2 in the number alone",
              {"sidecar": store.sidecar(version=2)}, raw_key=key, result_line=1)
        v.add(f"keyslot/{kind}-in-version-4", "sidecarDamaged", "version 4 in the number alone",
              {"sidecar": store.sidecar(version=4)}, raw_key=key, result_line=1)
        alone = SlotStore(f"token {kind} alone", [Slot(1, kind, secret, token=token)])
        v.add(f"keyslot/{kind}-alone", "ok", "the only keyslot", {"sidecar": alone.sidecar()}, **device(kind, secret),
              **result(alone, slot=1))


def refused_tokens(v: Vectors, key: bytes) -> None:
    secret = stream("secret of a device", 32)

    def store(*tokens: tuple) -> SlotStore:
        return SlotStore("refused tokens", [Slot(i + 1, *token[:1], secret, token=token[1:]) for i, token in enumerate(tokens)])

    def refused(name: str, comment: str, number: int, *tokens: tuple, edit: tuple = None) -> None:
        v.add(f"keyslot/token-{name}", "sidecarDamaged", comment, {"sidecar": store(*tokens).sidecar(edit=edit)},
              **device("plugin", secret), result_line=number)

    def accepted(name: str, comment: str, *tokens: tuple) -> None:
        made = store(*tokens)
        v.add(f"keyslot/token-{name}", "ok", comment, {"sidecar": made.sidecar()}, **device(tokens[0][0], secret),
              **result(made, slot=len(tokens)))

    accepted("4096-bytes", "the longest token", ("plugin", "age", bytes(4096)))
    accepted("1-byte", "the shortest token", ("plugin", "age", b"x"))
    accepted("6144-bytes-together", "the longest tokens", ("plugin", "age", bytes(4096)), ("plugin", "age", bytes(2048)))
    accepted("name-32-characters", "the longest name of a plugin", ("plugin", "a" + "-9" * 15 + "z", b"x"))
    accepted("name-64-characters", "the longest description", ("pkcs11", "T" * 64, b"x"))
    refused("4097-bytes", "a token that is too long", 5, ("plugin", "age", bytes(4097)))
    refused("6145-bytes-together", "tokens that are too long together", 6, ("plugin", "age", bytes(4096)),
            ("plugin", "age", bytes(2049)))
    for name, text in [("empty", ""), ("capital", "Age"), ("digit-first", "9age"), ("33-characters", "a" * 33),
                       ("underscore", "a_b"), ("slash", "../age"), ("blank", "a b")]:
        refused(f"plugin-name-{name}", "no name of a plugin", 5, ("plugin", text, b"x"))
    for name, text in [("65-characters", "T" * 65), ("blank-first", " T"), ("blank-last", "T "), ("control", "T\tT")]:
        refused(f"name-{name}", "no text of the format", 5, ("pkcs11", text, b"x"))
    one = ("plugin", "age", b"xyz")
    for name, old, new in [
        ("empty", '"token":"78797a"', '"token":""'), ("odd-digits", '"token":"78797a"', '"token":"78797"'),
        ("capital", '"token":"78797a"', '"token":"78797A"'), ("base64", '"token":"78797a"', '"token":"eHl6"'),
        ("missing", ',"token":"78797a"', ''), ("name-missing", '"name":"age",', ''), ("repeated", ',"salt"', ',"token":"78","salt"'),
        ("before-name", '"name":"age","token":"78797a"', '"token":"78797a","name":"age"'),
        ("of-key-file", '"kind":"plugin"', '"kind":"key-file"'), ("by-scrypt", '"kdf":"hkdf"', '"kdf":"scrypt","log2_n":14,"r":8,"p":1'),
    ]:
        text = store(one).sidecar().decode()
        start = text.index('{"record":"slot"')
        slot = text[start:text.index("\n", start)]
        assert old in slot, name
        refused(name, "a token that is not as the format says", 5, one, edit=(slot, slot.replace(old, new, 1)))


def pending_tokens(v: Vectors, key: bytes) -> None:
    kind, secret = "plugin", stream("secret of a device", 32)
    slots = [Slot(1, "key-file", key), Slot(2, kind, secret, token=("age", b"the blob"))]
    both = SlotStore("pending tokens", slots, kept=slots)
    dropped = SlotStore("pending tokens dropped", slots, kept=slots[:1])
    added = SlotStore("pending tokens added", slots[:1], kept=slots)
    same = SlotStore("pending tokens same", slots)
    for state, pages in [("rotating", 0), ("switching", 5)]:
        for name, store in [("kept", both), ("dropped", dropped)]:
            v.add(f"keyslot/token-{state}-{name}", "ok", f"a rotation of the master key, {state}; the keyslot is {name}",
                  {"sidecar": store.sidecar(state, 3, pages=pages)}, **device(kind, secret),
                  **result(store, state, 3, 2, result_next_key="none"))
        v.add(f"keyslot/token-{state}-same-master", "ok", f"a rotation of the data key, {state}",
              {"sidecar": same.sidecar(state, 3, pages=pages)}, **device(kind, secret),
              **result(same, state, 3, 2, result_next_key=same.next_key))
    v.add("keyslot/token-pending-alone", "ok", "only a pending keyslot has a token",
          {"sidecar": added.sidecar("rotating", 3, next_id=3)}, raw_key=key, **result(added, "rotating", 3, 1, result_next_key="none"))
    v.add("keyslot/token-pending-in-version-2", "sidecarDamaged", "version 2 in the number alone",
          {"sidecar": added.sidecar("rotating", 3, version=2, next_id=3)}, raw_key=key, result_line=1)
    v.add("keyslot/token-after-rotation", "ok", "after the rotation that drops the last one: version 2",
          {"sidecar": dropped.rotated().sidecar()}, raw_key=key, **(result(dropped.rotated(), slot=1) | {"result_epoch": 2}))


# Recovery keys as text

def recovery_vectors(v: Vectors) -> None:
    key = stream("recovery key", 32)
    text = print_recovery(key)
    lines = text.splitlines()

    def add(name: str, content: str, comment: str, expect: str = "invalidKey") -> None:
        v.add(f"recovery/{name}", expect, comment, {"text": content.encode()}, **({"result_key": key} if expect == "ok" else {}))

    add("four-lines", text, "as it is printed", "ok")
    add("no-last-newline", text[:-1], "the last line is not ended", "ok")
    add("one-line", text.replace("\n", " "), "all in one line", "ok")
    add("carriage-returns", text.replace("\n", "\r\n"), "lines of Windows", "ok")
    add("small-letters", text.lower(), "small letters", "ok")
    add("no-hyphens", text.replace("-", ""), "without hyphens", "ok")
    add("letters-for-digits", text.replace("1", "I").replace("0", "O"), "I for 1, O for 0", "ok")
    add("small-l-for-1", text.lower().replace("1", "l").replace("0", "o"), "l for 1, o for 0", "ok")
    add("numbered-lines", "".join(f"{i + 1}. {line}\n" for i, line in enumerate(lines)), "a number before each line", "ok")
    add("numbered-with-bracket", "".join(f"{i + 1}) {line}\n" for i, line in enumerate(lines)), "1) before each line", "ok")
    add("dashes", text.replace("-", "\u2013"), "dashes of a word processor", "ok")
    add("byte-order-mark", "\ufeff" + text, "a byte order mark at the beginning", "ok")
    add("blank-lines", text.replace("\n", "\n\n"), "blank lines between the lines", "ok")
    for number in range(1, 5):
        line = lines[number - 1]
        wrong = ("2" if line[0] != "2" else "3") + line[1:]
        add(f"line-{number}-mistyped", text.replace(line, wrong), f"one wrong character in line {number}")
    add("neighbours-swapped", text.replace(lines[0], lines[0][1] + lines[0][0] + lines[0][2:]), "two characters are swapped")
    add("lines-swapped", "\n".join([lines[1], lines[0], *lines[2:]]), "the check of a line covers its number")
    add("line-missing", "\n".join(lines[:3]), "three lines")
    add("line-repeated", "\n".join(lines + lines[3:]), "five lines")
    add("character-missing", text[:-2], "one character is missing")
    add("character-added", text.replace("\n", "0\n", 1), "one character too many")
    add("letter-u", text.replace(lines[2][0], "U", 1) if lines[2][0] not in lines[0] else "U" + text[1:],
        "U is not a character of the alphabet")
    add("punctuation", text.replace("-", "_", 1), "an underscore is skipped by no reader")
    add("empty", "", "no text")
    add("hexadecimal", hashlib.sha256(b"hexadecimal").hexdigest(), "64 hexadecimal digits are no recovery key")
