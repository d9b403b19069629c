"""The conformance vectors of several files: pairs of sidecars, rotations, backups, key logs, whole stores and files of
SQLCipher's standard form. Used by make_conformance.py.
"""

import hashlib

from conformance_parts import CIPHER, DirectStore, LogLines, Pages, Slot, SlotStore, Vectors, backup_manifest, database, wal
from make_vectors import data_key, stream

PAGE = 4096
FRAME = PAGE + 24
KEY_FILE, RECOVERY = stream("key file", 32), stream("recovery key", 32)


# Two copies of a sidecar

def pair_vectors(v: Vectors) -> None:
    store = DirectStore("pair")
    old, new = store.sidecar(generation=4), store.sidecar(generation=5)
    forged = new.replace(b'"epoch":1', b'"epoch":2')
    damaged = new[:200]
    other = DirectStore("pair other").sidecar()
    twin = DirectStore("pair", store_id=stream("twin id", 16)).sidecar(generation=5)
    ahead = store.sidecar(version=4, edit=('"scheme":', '"purpose":"new","scheme":'))
    creating = store.sidecar("creating", generation=5)

    def add(name: str, comment: str, main: bytes, backup: bytes, expect: str = "ok", copy: str = "main", generation: int = 5,
            notes: str = "none", secret: dict = None, limit: str = None) -> None:
        files = {part: content for part, content in [("main", main), ("backup", backup)] if content is not None}
        results = {"result_copy": copy, "result_generation": generation, "result_notes": notes} if expect == "ok" else {}
        v.add(f"sidecar-pair/{name}", expect, comment, files, limit=limit, **(secret or store.secret), **results)

    restored = "restoredFromBackup"
    add("equal", "both copies are the same", new, new)
    add("backup-missing", "the backup copy is written again", new, None, notes="missing backup")
    add("main-missing", "the backup copy counts", None, new, copy="backup", notes=f"{restored}, missing main")
    add("backup-older", "a change was interrupted after the main copy", new, old, notes="stale backup")
    add("main-older", "no crash leaves this: an old main copy was put back", old, new, copy="backup",
        notes=f"{restored}, stale main")
    add("both-older", "both copies were put back", old, old, generation=4,
        limit="two older copies cannot be told from the newest by themselves; the store remembers the generation")
    add("backup-damaged", "the backup copy is cut", new, damaged, notes="damaged backup")
    add("main-damaged", "the main copy is cut", damaged, new, copy="backup", notes=f"{restored}, damaged main")
    add("both-damaged", "no copy can be used", damaged, damaged, "sidecarDamaged")
    add("main-damaged-backup-missing", "no copy can be used", damaged, None, "sidecarDamaged")
    add("backup-empty", "the backup copy has no bytes", new, b"", notes="damaged backup")
    add("backup-forged", "the backup copy was changed without the key", new, forged, notes="forged backup")
    add("main-forged", "the main copy was changed without the key", forged, new, copy="backup",
        notes=f"{restored}, forged main")
    add("main-forged-backup-older", "an older genuine copy counts before a newer forged one", forged, old, copy="backup",
        generation=4, notes=f"{restored}, forged main",
        limit="the forged copy was perhaps the newest; the store remembers the generation")
    add("both-forged", "the key is right, and both copies were changed", forged, forged, "sidecarForged")
    add("main-forged-backup-damaged", "the key is right, and no copy is genuine", forged, damaged, "sidecarForged")
    add("backup-of-another-key", "the backup copy of another store", new, other, notes="otherKey backup")
    add("main-of-another-key", "the main copy of another store", other, new, copy="backup", notes=f"{restored}, otherKey main")
    add("both-of-another-key", "the sidecar of another store", other, other, "wrongKey")
    add("main-of-another-key-backup-damaged", "nothing fits the key", other, damaged, "wrongKey")
    add("two-stores-with-one-key", "both are genuine, with different identifiers", new, twin, "foreignSidecar")
    add("same-generation-differing", "both are genuine and equally new: the main copy counts", new, creating,
        notes="differing")
    add("main-ahead", "a newer version wrote the main copy", ahead, new, "sidecarAhead")
    add("backup-ahead", "a newer version wrote the backup copy", new, ahead, "sidecarAhead")
    pair_rotations(v, add)
    pair_slots(add)


def pair_rotations(v: Vectors, add) -> None:
    store = DirectStore("pair rotation")
    rotating, switching = (store.sidecar(state, 5, pages=pages) for state, pages in [("rotating", 0), ("switching", 9)])
    done = store.rotated()
    complete = done.sidecar(generation=6)
    own, following = store.secret, {"raw_key": store.next_key}
    add("rotating", "while pages are copied the present key counts", rotating, rotating, secret=own)
    add("rotating-next-key", "the next key opens nothing yet", rotating, rotating, "rotationPending", secret=following)
    add("switching", "in the middle of the switch nothing opens the store", switching, switching, "rotationPending", secret=own)
    add("switching-next-key", "in the middle of the switch nothing opens the store", switching, switching, "rotationPending",
        secret=following)
    add("switched", "the switch was interrupted between the two copies", complete, switching, generation=6,
        notes="stale backup", secret=following)
    add("switched-former-key", "the newest copy counts even when the key opened only the other", complete, switching,
        "wrongKey", secret=own)
    add("switched-main-older", "the main copy was put back", switching, complete, copy="backup", generation=6,
        notes="restoredFromBackup, stale main", secret=following)


def pair_slots(add) -> None:
    both = [Slot(1, "key-file", KEY_FILE), Slot(2, "recovery", RECOVERY)]
    store = SlotStore("pair slots", both)
    full, less = store.sidecar(generation=4), store.sidecar(generation=5, slots=both[:1])
    first, second = {"raw_key": KEY_FILE}, {"raw_key": RECOVERY}
    add("slot-removed-kept-slot", "a removal was interrupted: the newest copy counts", less, full, notes="stale backup",
        secret=first)
    add("slot-removed-removed-slot", "the master key of the older copy verifies the newest, which lacks the keyslot", less,
        full, "wrongKey", secret=second)
    add("slot-removed-main-put-back", "an old main copy still has the keyslot, and the newest counts", full, less, "wrongKey",
        secret=second)
    add("slot-removed-both-put-back", "both copies still have the keyslot", full, full, generation=4, secret=second,
        limit="two older copies cannot be told from the newest by themselves; the store remembers the generation")
    direct = DirectStore("pair converted")
    converted = SlotStore("pair converted slots", both, store_id=direct.id)
    converted.key, converted.salt = direct.key, direct.salt
    after, before = converted.sidecar(generation=3, origin="direct"), direct.sidecar(generation=2)
    add("converted-to-slots", "the conversion was interrupted: the data key verifies the former copy", after, before,
        generation=3, notes="stale backup", secret=first)
    add("converted-to-slots-raw-key", "the raw key opens the former copy alone and cannot verify the newer one", after, before,
        copy="backup", generation=2, notes="restoredFromBackup, otherKey main", secret=direct.secret)


# Interrupted rotations

def rotation_vectors(v: Vectors) -> None:
    store = DirectStore("rotation")
    texts = ["first", "second"]
    plain, newer = database(texts), database(["first, changed", "second"])
    old = store.pages.file(plain)
    log = wal([(3, 4, store.pages.encrypt(3, newer[2], " wal"))])
    copy = store.next_pages.file(newer)
    sidecars = {"rotating": store.sidecar("rotating", 3), "switching": store.sidecar("switching", 4, pages=4),
                "ready": store.sidecar("ready", 2), "complete": store.rotated().sidecar("ready", 5)}
    own, following = store.secret, {"raw_key": store.next_key}

    def add(name: str, comment: str, state: str, expect: str = "ok", epoch: int = 1, database: bytes = old, log: bytes = log,
            copy: bytes = None, backup: str = None, secret: dict = own, after: bytes = None, sidecars: dict = sidecars) -> None:
        files = {"database": database, "wal": log, "rotating": copy, "main": sidecars[state],
                 "backup": sidecars[backup or state]}
        files = {k: c for k, c in files.items() if c is not None}
        results = unchanged(files) if expect != "ok" else {
            "result_epoch": epoch, "result_rotating": "absent",
            "result_database_sha256": hashlib.sha256(after or (copy if epoch == 2 and copy else database)).hexdigest()}
        v.add(f"rotation/{name}", expect, comment, files, **secret, **results)

    flipped = bytes([copy[5000] ^ 1 if i == 5000 else b for i, b in enumerate(copy)])
    bad_log = log[:1000] + bytes([log[1000] ^ 1]) + log[1001:]
    refused = "rotationPending"
    add("none", "no rotation is pending", "ready")
    add("none-with-leftover", "a copy that is a leftover is removed", "ready", copy=copy)
    add("rotating-without-copy", "interrupted before the copy: undone", "rotating")
    add("rotating-part-of-copy", "interrupted in the copy: undone", "rotating", copy=copy[:PAGE * 2])
    add("rotating-whole-copy", "the switch was not announced: undone", "rotating", copy=copy)
    add("rotating-next-key", "only the present key undoes a rotation", "rotating", refused, copy=copy, secret=following)
    add("rotating-database-has-next-key", "a sidecar from before the switch was put back: the database takes precedence",
        "rotating", epoch=2, database=copy, log=b"")
    add("rotating-main-switching-backup", "the newest copy counts: the switch was announced", "rotating", epoch=2, copy=copy,
        backup="switching")
    for name, comment, more in [
        ("whole", "the copy replaces the database", {}), ("next-key", "the next key completes the switch", {"secret": following}),
        ("wal-emptied", "the WAL was emptied for the switch", {"log": b""}),
        ("wal-missing", "the WAL is missing", {"log": None}),
    ]:
        add(f"switching-{name}", comment, "switching", epoch=2, copy=copy, **more)
    add("switching-renamed", "the copy has replaced the database: the sidecar is completed", "switching", epoch=2,
        database=copy, log=b"")
    add("switched-backup-behind", "only the backup copy is left to write", "complete", epoch=2, database=copy, log=b"",
        backup="switching", secret=following)
    for name, comment, bad in [
        ("missing", "the copy is missing", None), ("short", "the copy lacks a page", copy[:-PAGE]),
        ("cut", "the copy lacks a byte", copy[:-1]), ("long", "the copy has a page too many", copy + copy[-PAGE:]),
        ("flipped", "a page of the copy is damaged", flipped),
        ("present-key", "the copy has pages of the present key", store.pages.file(newer)),
        ("other-salt", "the copy has the next key and the present salt",
         Pages("rotation salt", store.next_key, store.salt).file(newer)),
        ("swapped", "two pages of the copy are swapped", copy[:2 * PAGE] + copy[3 * PAGE:] + copy[2 * PAGE:3 * PAGE]),
    ]:
        add(f"copy-{name}", f"{comment}, and the WAL is whole: undone", "switching", copy=bad)
        add(f"copy-{name}-wal-emptied", f"{comment}, and the last commits were in it alone", "switching", refused, copy=bad, log=b"")
    add("copy-missing-wal-flipped", "neither the copy nor the WAL is whole", "switching", refused, log=bad_log)
    add("copy-missing-wal-cut", "the WAL lacks its end", "switching", refused, log=log[:-1])
    two_commits = wal([(1, 4, store.pages.encrypt(1, newer[0], " wal")), (3, 4, store.pages.encrypt(3, newer[2], " wal"))])
    add("copy-missing-wal-of-two-commits", "the copy is missing, and both commits are there: undone", "switching", log=two_commits)
    add("copy-missing-wal-lacks-last-commit", "after the last whole commit there is a part of another", "switching", refused,
        log=two_commits[:-1])
    forged_log = wal([(3, 4, flipped[PAGE * 2:PAGE * 3])])
    add("copy-missing-wal-forged", "the WAL has right checksums and a page of another key", "switching", refused, log=forged_log)
    add("copy-missing-wal-other-length", "the WAL ends with another number of pages than the copy has", "switching", refused,
        log=wal([(3, 3, store.pages.encrypt(3, newer[2], " wal"))]))
    add("copy-missing-next-key", "only the present key undoes a rotation", "switching", refused, secret=following)
    thief = {"forged": store.sidecar("switching", 4, pages=4, pending_mac_key=stream("thief", 32))}
    add("forged", "a switch that only the present key announced (CVE-2021-4122)", "forged", "sidecarForged", copy=copy,
        sidecars=thief)
    add("forged-next-key", "the same, opened with the next key", "forged", "sidecarForged", copy=copy, secret=following,
        sidecars=thief)
    add("wrong-key", "the key is neither the present nor the next one", "switching", "wrongKey", copy=copy,
        secret={"raw_key": stream("thief", 32)})
    slot_rotations(v, plain, newer)


def unchanged(files: dict) -> dict:
    """What a reader finds after it has refused a rotation."""
    return {"result_rotating": "present" if "rotating" in files else "absent",
            "result_database_sha256": hashlib.sha256(files["database"]).hexdigest()}


def slot_rotations(v: Vectors, plain: list, newer: list) -> None:
    both = [Slot(1, "key-file", KEY_FILE), Slot(2, "recovery", RECOVERY)]
    for what, store in [("same-master", SlotStore("rotation slots", both)),
                        ("new-master", SlotStore("rotation renewed", both, kept=both[:1]))]:
        old, copy = store.pages.file(plain), store.next_pages.file(newer)
        log = wal([(3, 4, store.pages.encrypt(3, newer[2], " wal"))])
        for state, generation, pages in [("rotating", 3, 0), ("switching", 4, 4)]:
            sidecar = store.sidecar(state, generation, pages=pages)
            for slot in both:
                refused = what == "new-master" and state == "switching" and slot.number == 2
                is_complete = state == "switching"
                files = {"database": old, "wal": log, "rotating": copy, "main": sidecar, "backup": sidecar}
                results = unchanged(files) if refused else {
                    "result_epoch": 2 if is_complete else 1, "result_rotating": "absent",
                    "result_database_sha256": hashlib.sha256(copy if is_complete else old).hexdigest()}
                kept = "" if what == "same-master" else ", which the rotation keeps" if slot.number == 1 else (
                    ", which the rotation drops")
                v.add(f"rotation/{what}-{state}-slot-{slot.number}", "rotationPending" if refused else "ok",
                      f"opened with keyslot {slot.number}{kept}", files, raw_key=slot.secret, **results)
    forged_renewals(v, plain, newer)


def forged_renewals(v: Vectors, plain: list, newer: list) -> None:
    """A new master key: its own MAC shows that whoever has it announced the switch."""
    both = [Slot(1, "key-file", KEY_FILE), Slot(2, "recovery", RECOVERY)]
    store = SlotStore("rotation added", both[:1], kept=both)
    database, copy = store.pages.file(plain), store.next_pages.file(newer)
    log = wal([(3, 4, store.pages.encrypt(3, newer[2], " wal"))])

    def add(name: str, expect: str, comment: str, state: str, secret: bytes, epoch: int = 2, thief: bytes = None) -> None:
        sidecar = store.sidecar(state, 4, pages=4 if state == "switching" else 0, next_id=3, pending_mac_key=thief)
        files = {"database": database, "wal": log, "rotating": copy, "main": sidecar, "backup": sidecar}
        results = unchanged(files) if expect != "ok" else {
            "result_epoch": epoch, "result_rotating": "absent",
            "result_database_sha256": hashlib.sha256(copy if epoch == 2 else database).hexdigest()}
        v.add(f"rotation/new-master-{name}", expect, comment, files, raw_key=secret, **results)

    added = "opened with a keyslot that only the new master key has"
    add("rotating-added-slot", "rotationPending", added, "rotating", RECOVERY)
    add("switching-added-slot", "ok", added, "switching", RECOVERY)
    announced = "a switch that only the present master key announced (CVE-2021-4122)"
    thief = store.master
    add("forged", "sidecarForged", announced, "switching", KEY_FILE, thief=thief)
    add("forged-added-slot", "sidecarForged", f"{announced}, {added}", "switching", RECOVERY, thief=thief)
    add("rotating-forged", "sidecarForged", "a rotation that only the present master key began", "rotating", KEY_FILE,
        thief=thief)


# Backups

def backup_vectors(v: Vectors) -> None:
    store = DirectStore("backup", cipher=CIPHER | {"page_bytes": 1024})
    plain = database(["one", "two", "three"], 1024)
    pages, sidecar = store.pages.file(plain), store.sidecar(generation=3)
    manifest = backup_manifest(store, pages, sidecar, 3)
    base = v.add("backup/whole", "ok", "a backup of a direct store",
                 {"manifest.json": manifest, "store.db": pages, "store.db-sidecar": sidecar}, **store.secret,
                 result_pages=5, result_epoch=1)
    slots = SlotStore("backup slots", [Slot(1, "key-file", KEY_FILE)], cipher=CIPHER | {"page_bytes": 1024})
    slot_pages, slot_sidecar = slots.pages.file(plain), slots.sidecar(generation=9)
    v.add("backup/whole-slots", "ok", "a backup of a store with keyslots",
          {"manifest.json": backup_manifest(slots, slot_pages, slot_sidecar, 9), "store.db": slot_pages,
           "store.db-sidecar": slot_sidecar}, raw_key=KEY_FILE, result_pages=5, result_epoch=1)

    def bad(name: str, comment: str, *edits: str, expect: str = "backupDamaged", line: int = None, **headers) -> None:
        v.add(f"backup/{name}", expect, comment, base=base, edits=edits, **headers, **({"result_line": line} if line else {}))

    bad("wrong-key", "the key of another store", expect="wrongKey", raw_key=stream("thief", 32))
    bad("page-flipped", "a page is damaged", "flip: store.db 2500 bit 3")
    bad("header-flipped", "the plaintext header is damaged: its bytes have no code, and the hash shows it",
        "flip: store.db 26 bit 3")
    bad("database-cut", "the database lacks a byte", "truncate: store.db to 5119")
    bad("database-lacks-a-page", "the database lacks a page", "truncate: store.db to 4096")
    bad("database-long", "the database has a byte too many", "append: store.db 00")
    bad("database-missing", "there is no database", "remove: store.db")
    bad("pages-swapped", "two pages are swapped", "swap: store.db 2048 with 3072 length 1024")
    bad("sidecar-missing", "there is no sidecar", "remove: store.db-sidecar")
    bad("sidecar-flipped", "the sidecar is not the one that the manifest names", "flip: store.db-sidecar 100 bit 0")
    bad("sidecar-cut", "the sidecar lacks a byte", f"truncate: store.db-sidecar to {len(sidecar) - 1}")
    bad("manifest-cut", "the manifest lacks its last lines", f"truncate: manifest.json to {len(manifest) - 60}", line=13)
    bad("manifest-missing", "a folder without a manifest is not a backup", "remove: manifest.json")
    bad("manifest-flipped", "a digit of the code is changed", f"flip: manifest.json {len(manifest) - 10} bit 0")
    combined_backups(v, store, plain, pages, sidecar, base)
    manifest_lines(v, store, pages, sidecar)


def combined_backups(v: Vectors, store, plain: list, pages: bytes, sidecar: bytes, base: str) -> None:
    """Backups whose files are each authentic, and were put together by somebody with or without the key."""
    def add(name: str, expect: str, comment: str, manifest: bytes, pages: bytes = pages, sidecar: bytes = sidecar,
            limit: str = None, secret: dict = store.secret, **headers) -> None:
        v.add(f"backup/{name}", expect, comment,
              {"manifest.json": manifest, "store.db": pages, "store.db-sidecar": sidecar}, limit=limit, **secret, **headers)

    older = store.pages.file(database(["one", "two", "other"], 1024, counter=5), " older")
    mixed = pages[:4096] + older[4096:]
    thief = stream("thief", 32)
    add("older-page-hash-recomputed", "backupDamaged", "a page of an older backup, with its hash in a manifest sealed by nobody",
        backup_manifest(store, mixed, sidecar, 3, mac_key=thief), mixed)
    add("older-database", "backupDamaged", "the database of an older backup under the manifest of a newer one",
        backup_manifest(store, pages, sidecar, 3), older)
    add("older-backup-whole", "ok", "a whole older backup", backup_manifest(store, older, sidecar, 3), older,
        limit="a whole older backup is a backup: its age is in the manifest", result_pages=5, result_epoch=1)
    add("manifest-of-another-key", "backupDamaged", "sealed with another key", backup_manifest(store, pages, sidecar, 3, mac_key=thief))
    add("manifest-under-another-label", "backupDamaged", "sealed under another label of HKDF",
        backup_manifest(store, pages, sidecar, 3, label="cipherstore sidecar mac v1"))
    for name, edit in [("store-id", (store.id.hex(), stream("other id", 16).hex())), ("epoch", ('"epoch": 1', '"epoch": 2')),
                       ("generation", ('"generation": 3', '"generation": 4'))]:
        add(f"manifest-other-{name}", "backupDamaged", "sealed, but the sidecar says otherwise" if name != "store-id" else
            "sealed under the store's identifier, and names another", backup_manifest(store, pages, sidecar, 3, edit=edit))
    add("manifest-other-page-bytes", "backupDamaged", "sealed, but the sidecar has another page size",
        backup_manifest(store, pages, sidecar, 3, page_bytes=512, pages=10))
    add("manifest-contradicts-itself", "backupDamaged", "sealed, but pages times page size is not the length",
        backup_manifest(store, pages, sidecar, 3, pages=4))
    add("manifest-contradicts-itself-wrong-key", "backupDamaged", "the lengths come before the key",
        backup_manifest(store, pages, sidecar, 3, pages=4), secret={"raw_key": thief})
    add("manifest-counts-a-page-too-many", "backupDamaged", "sealed, but the database ends before the last page",
        backup_manifest(store, pages, sidecar, 3, pages=6))
    add("manifest-other-sidecar-length", "backupDamaged", "sealed, with the right hash and another length of the sidecar",
        backup_manifest(store, pages, sidecar, 3, edit=(f'"bytes": {len(sidecar)},', f'"bytes": {len(sidecar) - 1},')))
    for state in ["creating", "rotating"]:
        other = store.sidecar(state, 3)
        add(f"sidecar-{state}", "backupDamaged", "sealed, but a backup's sidecar is in state ready",
            backup_manifest(store, pages, other, 3), sidecar=other)
    forged = sidecar.replace(b'"state":"ready"', b'"state":"creating"')
    add("sidecar-forged", "sidecarForged", "a changed sidecar, with its hash in the manifest",
        backup_manifest(store, pages, forged, 3), sidecar=forged)
    other = store.sidecar(generation=3, edit=('"kdf_rounds":1000', '"kdf_rounds":1001'))
    add("sidecar-exchanged", "backupDamaged", "another genuine sidecar of the store, which the manifest does not name",
        backup_manifest(store, pages, sidecar, 3), sidecar=other)
    add("sidecar-not-a-sidecar", "backupDamaged", "a sidecar that cannot be read, with its hash in the manifest",
        backup_manifest(store, pages, sidecar[:300], 3), sidecar=sidecar[:300])
    flipped = pages[:2500] + bytes([pages[2500] ^ 8]) + pages[2501:]
    add("page-flipped-before-the-backup", "backupDamaged", "a page that was damaged when the manifest was sealed",
        backup_manifest(store, flipped, sidecar, 3), flipped)


def manifest_lines(v: Vectors, store, pages: bytes, sidecar: bytes) -> None:
    """Deviations from the form of the manifest; all but the code would be right."""
    def bad(name: str, line: int, edit: tuple = None, content: bytes = None, expect: str = "backupDamaged",
            comment: str = "the line is not as the format says") -> None:
        manifest = content if content is not None else backup_manifest(store, pages, sidecar, 3, edit=edit)
        v.add(f"backup/manifest-{name}", expect, comment,
              {"manifest.json": manifest, "store.db": pages, "store.db-sidecar": sidecar}, **store.secret,
              **({"result_line": line} if line else {}))

    whole = backup_manifest(store, pages, sidecar, 3).decode()
    lines = whole.splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        bad(f"line-{number}-missing", number, content="".join(lines[:number - 1] + lines[number:]).encode(),
            comment="a line is missing")
    for name, line, old, new in [
        ("format-name", 2, "cipherstore-backup", "cipherstore-backups"), ("version-zero", 3, '"version": 1', '"version": 0'),
        ("id-capital", 4, store.id.hex(), store.id.hex().upper()), ("id-short", 4, store.id.hex(), store.id.hex()[2:]),
        ("epoch-leading-zero", 5, '"epoch": 1', '"epoch": 01'), ("epoch-negative", 5, '"epoch": 1', '"epoch": -1'),
        ("generation-as-text", 6, '"generation": 3', '"generation": "3"'),
        ("created-19-digits", 7, '"created": 1', '"created": 1000000000'),
        ("page-bytes-1000", 8, '"page_bytes": 1024', '"page_bytes": 1000'), ("pages-zero", 9, '"pages": 5', '"pages": 0'),
        ("pages-4294967296", 9, '"pages": 5', '"pages": 4294967296'),
        ("database-other-name", 10, '"store.db"', '"other.db"'), ("database-path", 10, '"store.db"', '"../store.db"'),
        ("sidecar-other-name", 11, '"store.db-sidecar"', '"x"'), ("library-quote", 12, "4.6.1 ", '4.6.1\\"'),
        ("library-65-characters", 12, "4.6.1 community", "x" * 65), ("library-not-ascii", 12, "community", "café"),
        ("three-blanks", 5, '  "epoch"', '   "epoch"'), ("tab", 5, '  "epoch"', '\t"epoch"'),
        ("blank-at-the-end", 4, '",\n  "epoch"', '", \n  "epoch"'), ("carriage-return", 1, "{\n", "{\r\n"),
        ("field-repeated", 6, '  "generation"', '  "epoch": 1,\n  "generation"'),
        ("fields-swapped", 5, '  "epoch": 1,\n  "generation": 3,\n', '  "generation": 3,\n  "epoch": 1,\n'),
        ("field-unknown", 13, '"library": "4.6.1 community",\n', '"library": "4.6.1 community",\n  "host": "x",\n'),
    ]:
        bad(name, line, (old, new))
    bad("later-version", None, ('"version": 1', '"version": 2'), expect="sidecarAhead", comment="of a later version")
    bad("bytes-after-the-end", len(lines) + 1, content=whole.encode() + b"\n", comment="a byte after the end")
    bad("no-last-newline", len(lines), content=whole[:-1].encode(), comment="the last line is not ended")
    bad("empty", 1, content=b"", comment="no bytes")
    bad("too-long", None, content=whole.encode() + b" " * 65536, comment="longer than 64 KiB")


# Key logs

def keylog_vectors(v: Vectors) -> None:
    def log() -> LogLines:
        return (LogLines().add("store-created", scheme="slots").add("slot-added", slot=2, kind="recovery")
                .add("recovery-key-made").add("rotation-begun", **{"from": 1}, to=2).add("rotation-completed", to=2)
                .add("backup-made"))
    base_log = log()
    lines = base_log.lines

    def add(name: str, comment: str, content, problems: str = "none", count: int = None, notes: int = 0, limit: str = None,
            acknowledged: int = 0, former: bytes = None) -> None:
        content = "".join(content).encode() if isinstance(content, list) else content
        files = {"keylog": content} | ({"keylog.1": former} if former is not None else {})
        count = len(content.splitlines()) if count is None else count
        v.add(f"keylog/{name}", "ok" if problems == "none" else "keyLogChanged", comment, files, limit=limit,
              result_lines=count, result_problems=problems, result_notes=notes, result_acknowledged=acknowledged)

    add("whole", "six lines in a chain", lines)
    add("empty", "no line", b"")
    add("one-line", "one line", lines[:1])
    add("last-lines-missing", "lines were removed from the end", lines[:3],
        limit="lines removed from the end are not detected: a log without its last lines is a valid shorter one")
    add("missing-first-lines", "the first two lines were removed", lines[2:], "keylog:1", notes=1)
    for number in range(2, 6):
        add(f"line-{number}-removed", "a line was removed", lines[:number - 1] + lines[number:], f"keylog:{number}")
    for number in [1, 3, 6]:
        changed = lines[number - 1].replace('"user":1000', '"user":1001')
        add(f"line-{number}-changed", "a line was changed: its own hash fails", lines[:number - 1] + [changed] + lines[number:],
            f"keylog:{number}", 5)
    rehashed = LogLines(3, log_previous(lines[1])).add("slot-removed", slot=1).lines
    add("line-3-replaced", "a line was replaced, with a right hash of its own: the next one does not follow",
        lines[:2] + rehashed + lines[3:], "keylog:4")
    new_chain = (LogLines(3, log_previous(lines[1])).add("slot-removed", slot=1).add("slot-added", slot=3, kind="key-file")
                 .lines)
    add("chain-rewritten", "everything from line 3 on was written anew, by anybody", lines[:2] + new_chain,
        limit="the hashes have no key: who may write the file can make a new chain from any line on")
    skipped = LogLines(4, log_previous(lines[1])).add("backup-made").lines
    add("number-skipped", "a line follows the one before by its hash, and not by its number", lines[:2] + skipped, "keylog:3")
    add("lines-swapped", "lines 3 and 4 are swapped", lines[:2] + [lines[3], lines[2]] + lines[4:], "keylog:3 keylog:4 keylog:5")
    add("line-repeated", "line 3 is there twice", lines[:3] + lines[2:], "keylog:4")
    add("line-inserted", "a line of another log", lines[:3] + LogLines(4, "ab" * 32).add("key-revealed").lines + lines[3:],
        "keylog:4 keylog:5")
    add("first-line-with-a-predecessor", "the first line names a hash before it",
        LogLines(1, "ab" * 32).add("store-created", scheme="direct").lines, "keylog:1")
    forms = [
        ("capital-hash", lambda line: line[:-67] + line[-67:].upper().replace('"}', '"}'), "capital digits"),
        ("blank", lambda line: line.replace('"time":', '"time": '), "a blank"),
        ("keys-swapped", lambda line: line.replace('"process":4711,"user":1000', '"user":1000,"process":4711'), "another order"),
        ("leading-zero", lambda line: line.replace('"user":1000', '"user":01000'), "a leading zero"),
        ("fraction", lambda line: line.replace('"user":1000', '"user":1000.0'), "a fraction"),
        ("negative", lambda line: line.replace('"user":1000', '"user":-1'), "a sign"),
        ("extra-key", lambda line: line[:-2] + ',"more":1}\n', "a key after the hash"),
        ("carriage-return", lambda line: line[:-1] + "\r\n", "a carriage return"),
    ]
    for name, change, comment in forms:
        bad = rehash(change(lines[2]))
        add(f"form-{name}", f"{comment} in line 3: it is not a line of a key log, though its hash is right",
            lines[:2] + [bad] + lines[3:], "keylog:3", 5)
    for name, values, comment in [
        ("word-33-characters", {"scheme": "a" * 33}, "a word of 33 characters"),
        ("name-33-characters", {"a" * 33: 1}, "a name of 33 characters"),
        ("detail-19-digits", {"slot": 10 ** 18}, "a number of 19 digits"),
    ]:
        add(f"form-{name}", comment, LogLines().add("slot-added", **values).lines, "keylog:1", 0)
    for name, old, new, expected in [
        ("process-largest", '"process":4711', '"process":2147483647', "none"),
        ("process-too-large", '"process":4711', '"process":2147483648', "keylog:1"),
        ("user-largest", '"user":1000', '"user":4294967295', "none"),
        ("user-too-large", '"user":1000', '"user":4294967296', "keylog:1"),
        ("number-zero", '"number":1,', '"number":0,', "keylog:1"),
        ("detail-called-process", '"process":4711', '"process":4711,"process":4711', "keylog:1"),
    ]:
        add(f"form-{name}", "a field at its bound, or beyond it", rehash(lines[0].replace(old, new)).encode(), expected,
            1 if expected == "none" else 0)
    add("word-32-characters", "the longest word and the longest name", LogLines().add(
        "slot-added", scheme="a" * 32, **{"b" * 32: 1}).lines)
    long = LogLines().add("store-created", scheme="slots", **{f"word{i}": "a" * 30 for i in range(24)}).lines
    add("line-too-long", "a line of more than 1,024 bytes", long, "keylog:1", 0)
    add("unknown-event", "an event of a newer version", LogLines().add("store-created", scheme="slots").add(
        "quorum-met", holders=3, of="key-holders").lines)
    add("not-a-log", "another text file", b"hello\nworld\n", "keylog:1 keylog:2", 0)
    add("binary", "zeros", bytes(100), count=0, notes=1)
    torn_logs(add, lines)
    two_files(add, lines)
    acknowledged_logs(add, lines)


def log_previous(line: str) -> str:
    return line[-67:-3]


def rehash(line: str) -> str:
    """The line with the hash of its present bytes, if it ends with a hash at all."""
    if not line.endswith('"}\n') or ',"hash":"' not in line:
        return line
    covered = line[:line.index(',"hash":"')]
    digest = hashlib.sha256(covered.encode()).hexdigest()
    old = line[line.index(',"hash":"') + 9:][:64]
    return covered + f',"hash":"{digest.upper() if old != old.lower() else digest}"}}\n'


def torn_logs(add, lines: list) -> None:
    torn = lines[3][:100]
    add("last-line-incomplete", "a write was interrupted, or is running", lines[:3] + [torn], count=3, notes=1)
    add("last-line-without-newline", "the last line lacks its end", lines[:2] + [lines[2][:-1]], count=3, notes=1)
    chain = LogLines(4, log_previous(lines[2])).add("log-damaged", bytes=100).add("slot-added", slot=3, kind="key-file")
    add("torn-line-recorded", "the next writer recorded the interrupted line", lines[:3] + [torn + "\n"] + chain.lines, count=5,
        notes=1)
    chain = LogLines(4, log_previous(lines[2])).add("log-damaged", bytes=99).add("slot-added", slot=3, kind="key-file")
    add("torn-line-recorded-with-another-length", "the record does not fit the bytes", lines[:3] + [torn + "\n"] + chain.lines,
        "keylog:4", 5)
    chain = LogLines(4, log_previous(lines[2])).add("slot-added", slot=3, kind="key-file")
    add("torn-line-not-recorded", "nobody recorded the interrupted line", lines[:3] + [torn + "\n"] + chain.lines, "keylog:4", 4)
    chain = LogLines(4, log_previous(lines[1])).add("log-damaged", bytes=100)
    add("torn-line-recorded-after-another", "the record does not follow the line before", lines[:3] + [torn + "\n"] + chain.lines,
        "keylog:4", 4)


def two_files(add, lines: list) -> None:
    former, present = "".join(lines[:3]).encode(), "".join(lines[3:])
    add("two-files", "the log was full and continues in a new file", [present], count=6, former=former)
    add("two-files-former-cut", "the former file lacks its last line", [present], "keylog:1", 5,
        former="".join(lines[:2]).encode())
    add("two-files-former-changed", "a line of the former file was changed", [present], "keylog.1:2", 5,
        former=former.replace(b'"slot":2', b'"slot":3'))
    add("former-alone", "only the former file is there", b"", count=3, former=former)
    add("former-without-first-lines", "the log was full twice: the first lines were dropped", [present], count=5, notes=1,
        former="".join(lines[1:3]).encode())


def acknowledged_logs(add, lines: list) -> None:
    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()[:32]

    broken = "".join(lines[:2] + lines[3:]).encode()
    words = {"problems": 1, "epoch": 2}
    after = LogLines(7, log_previous(lines[5]))
    note = after.add("log-acknowledged", **words, present=digest(broken)).lines[0].encode()
    add("acknowledged", "a user has examined the missing line", broken + note, count=6, acknowledged=1)
    changed = broken.replace(b'"backup-made"', b'"backup-lost"')
    add("acknowledged-then-changed", "the bytes were changed after they were examined", changed + note, "keylog:3 keylog:5", 5)
    wrong = LogLines(7, log_previous(lines[5])).add("log-acknowledged", **words, present="0" * 32).lines[0].encode()
    add("acknowledged-other-bytes", "the acknowledgement is one of other bytes", broken + wrong, "keylog:3", 6)
    former = "".join(lines[:2]).encode()
    present = "".join(lines[3:]).encode()
    note = (LogLines(7, log_previous(lines[5])).add("log-acknowledged", **words, former=digest(former), present=digest(present))
            .lines[0].encode())
    add("acknowledged-with-former-file", "a line is missing between two files, and acknowledged", present + note, count=6,
        former=former, acknowledged=1)
    add("acknowledged-former-file-changed", "the former file was changed after it was examined", present + note,
        "keylog.1:2", 5, former=former.replace(b'"slot":2', b'"slot":9'))


# Whole stores

def store_vectors(v: Vectors) -> None:
    store = DirectStore("store")
    texts = ["one", "two", "three", "four"]
    plain = database(texts, spare=2)
    pages, sidecar = store.pages.file(plain), store.sidecar(generation=2)
    base = v.add("store/whole", "ok", "eight pages, two of them free; an empty WAL",
                 {"database": pages, "main": sidecar, "backup": sidecar}, **store.secret, result_pages=8, result_frames=0)
    other_forms(v, texts)
    page_attacks(v, base)
    header_attacks(v, base)
    length_attacks(v, base)
    foreign_files(v, base, store, plain, texts)
    wal_attacks(v, store, plain, pages, sidecar)
    sidecar_attacks(v, base, store, plain, pages)
    standard_vectors(v)


def other_forms(v: Vectors, texts: list) -> None:
    for name, more in [("page-bytes-1024", {"page_bytes": 1024}), ("page-bytes-8192", {"page_bytes": 8192}),
                       ("page-bytes-65536", {"page_bytes": 65536}), ("standard-form", {"plaintext_header_bytes": 0}),
                       ("hmac-sha256", {"hmac_hash": "sha256"}), ("all-sha1", {"hmac_hash": "sha1", "kdf_hash": "sha1"})]:
        cipher = CIPHER | more
        store = DirectStore(f"store {name}", cipher=cipher)
        short = texts[:1] if name == "page-bytes-65536" else texts[:2]
        reserved = store.pages.reserved
        plain = database(short, cipher["page_bytes"], reserved)
        files = {"database": store.pages.file(plain), "main": store.sidecar(), "backup": store.sidecar()}
        v.add(f"store/{name}", "ok", "a store with other settings", files, **store.secret, result_pages=len(plain),
              result_frames=0)
    store = DirectStore("store passphrase", "sesame street")
    files = {"database": store.pages.file(database(texts[:2])), "main": store.sidecar(), "backup": store.sidecar()}
    v.add("store/passphrase", "ok", "a direct store with a passphrase", files, **store.secret, result_pages=4, result_frames=0)
    v.add("store/passphrase-wrong", "wrongKey", "another passphrase", base="store/passphrase", passphrase="sesame Street")


def page_attacks(v: Vectors, base: str) -> None:
    def bad(name: str, page: int, comment: str, *edits: str, pages: str = None, **headers) -> None:
        if page > 1 and not headers:
            headers = {"result_damaged_pages": pages or page}
        v.add(f"store/{name}", f"pageDamaged {page}", comment, base=base, edits=edits, **headers)

    for page in [1, 2, 3, 6, 8]:
        start = PAGE * (page - 1)
        for region, offset in [("ciphertext", 40), ("iv", 4020), ("code", 4040)]:
            bad(f"page-{page}-flip-{region}", page, f"one bit of page {page} is flipped", f"flip: database {start + offset} bit 5")
    bad("pages-swapped", 3, "two pages are swapped", f"swap: database {2 * PAGE} with {3 * PAGE} length {PAGE}", pages="3 4")
    bad("page-copied", 5, "a page at the place of another", f"take: database {4 * PAGE} length {PAGE} from {base} database {2 * PAGE}")
    bad("page-of-zeros", 4, "a page with content is blanked", f"zeros-at: database {3 * PAGE} length {PAGE}",
        result_zero_pages=4)
    bad("page-1-second-half-zeros", 1, "page 1 is written by half", f"zeros-at: database 2048 length 2048")
    bad("page-torn", 5, "a page is written by half", f"take: database {4 * PAGE + 2048} length 2048 from {base} database {2 * PAGE}")
    bad("sector-of-zeros", 3, "a sector is lost", f"zeros-at: database {2 * PAGE + 512} length 512")
    bad("three-pages-damaged", 2, "every damaged page is named", *[f"flip: database {PAGE * i + 77} bit 1" for i in [1, 4, 6]],
        pages="2 5 7")
    v.add("store/free-page-of-zeros", "ok", "a free page is blanked: it is reported, and holds nothing", base=base,
          edits=[f"zeros-at: database {7 * PAGE} length {PAGE}"], result_pages=8, result_frames=0, result_zero_pages=8,
          limit="a page of zeros is not authentic; where it is free, nothing is lost")


def header_attacks(v: Vectors, base: str) -> None:
    for offset, bit in [(0, 0), (15, 0), (16, 5), (17, 0), (18, 3), (19, 3), (20, 0), (21, 1), (22, 1), (23, 1)]:
        v.add(f"store/header-byte-{offset}", "headerDamaged", f"byte {offset} of the header is changed", base=base,
              edits=[f"flip: database {offset} bit {bit}"])
    v.add("store/header-reserve-zero", "headerDamaged", "no reserve: reads pass, writes destroy pages", base=base,
          edits=["write: database 20 00"])
    v.add("store/header-page-count-lowered", "headerDamaged", "a lowered page count: writes overwrite pages", base=base,
          edits=["write: database 28 00000005"])
    v.add("store/header-page-count-raised", "truncated", "a raised page count: pages seem to be missing", base=base,
          edits=["write: database 28 0000000a"], result_missing_pages="9 10")
    v.add("store/header-change-counter", "ok", "a changed change counter makes SQLite count pages by the file's length", base=base,
          edits=["write: database 24 00000063"], result_pages=8, result_frames=0, limit="bytes 24 to 27 are not authenticated")
    v.add("store/header-rollback-journal", "ok", "bytes 18 and 19 say rollback journal", base=base,
          edits=["write: database 18 0101"], result_pages=8, result_frames=0,
          limit="bytes 18 and 19 are not authenticated; both values are valid")


def length_attacks(v: Vectors, base: str) -> None:
    for name, length, missing in [("page-missing", 7 * PAGE, "8"), ("byte-missing", 8 * PAGE - 1, "8"),
                                  ("half-missing", 4 * PAGE, "5 6 7 8"), ("one-page-left", PAGE, "2 3 4 5 6 7 8")]:
        v.add(f"store/cut-{name}", "truncated", "the end of the file is missing", base=base, edits=[f"truncate: database to {length}"],
              result_missing_pages=missing)
    for length in [4095, 600, 100, 1]:
        v.add(f"store/cut-{length}-bytes-left", "truncated", "not even page 1 is whole", base=base,
              edits=[f"truncate: database to {length}"])
    v.add("store/cut-no-bytes", "emptyFile", "the file has no bytes, and its sidecar says that it had", base=base,
          edits=["truncate: database to 0"])
    v.add("store/database-missing", "databaseMissing", "the sidecar says that there was a store", base=base, edits=["remove: database"])
    v.add("store/appended-page", "headerDamaged", "a page after the end", base=base,
          edits=[f"zeros: database {PAGE}"])
    v.add("store/appended-copy-of-a-page", "headerDamaged", "an authentic page of another number after the end", base=base,
          edits=[f"zeros: database {PAGE}", f"take: database {8 * PAGE} length {PAGE} from {base} database {2 * PAGE}"])
    v.add("store/appended-byte", "headerDamaged", "a byte after the end", base=base, edits=["append: database 00"])
    v.add("store/appended-page-counter-changed", "pageDamaged 9", "a page after the end, which SQLite counts by the file's length",
          base=base, edits=[f"zeros: database {PAGE}", f"take: database {8 * PAGE} length {PAGE} from {base} database {2 * PAGE}",
                            "write: database 24 00000063"], result_damaged_pages=9)


def foreign_files(v: Vectors, base: str, store: DirectStore, plain: list, texts: list) -> None:
    def add(name: str, expect: str, comment: str, database_bytes: bytes, limit: str = None, **headers) -> None:
        if expect == "ok":
            headers |= {"result_pages": 8, "result_frames": 0}
        v.add(f"store/{name}", expect, comment, {"database": database_bytes, "main": store.sidecar(), "backup": store.sidecar()},
              limit=limit, **store.secret, **headers)

    pages = store.pages.file(plain)
    older = database(["one", "two", "three, older", "four"], spare=2, counter=5)
    old_page = store.pages.encrypt(5, older[4], " older")
    replay = "an older version of a page, with the same key, salt and number, is authentic"
    add("page-replayed", "ok", "an older version of page 5", pages[:4 * PAGE] + old_page + pages[5 * PAGE:], limit=replay)
    add("file-replayed", "ok", "an older version of the whole file", store.pages.file(older, " older"),
        limit="an older version of the whole file set is authentic; only a counter outside of it would show its age")
    twin = database(["uno", "due", "tre", "quattro"], spare=2)
    twin_pages = store.pages.file(twin, " twin")
    add("page-of-a-database-with-the-same-key-and-salt", "ok", "a page of a copy of the store that went its own way",
        pages[:4 * PAGE] + twin_pages[4 * PAGE:5 * PAGE] + pages[5 * PAGE:],
        limit="a page of another database with the same key and salt is authentic")
    add("database-with-the-same-key-and-salt", "ok", "another database with the same key and salt", twin_pages,
        limit="a database with the same key and salt is authentic; one salt for each file prevents it")
    salted = Pages("store salt", store.key, stream("store other salt", 16)).file(twin)
    add("page-of-another-salt", "pageDamaged 5", "a page of a database with the same key and another salt",
        pages[:4 * PAGE] + salted[4 * PAGE:5 * PAGE] + pages[5 * PAGE:], result_damaged_pages=5)
    keyed = Pages("store key", stream("store other key", 32), store.salt).file(twin)
    add("page-of-another-key", "pageDamaged 5", "a page of another key, as a connection left open after a rotation writes",
        pages[:4 * PAGE] + keyed[4 * PAGE:5 * PAGE] + pages[5 * PAGE:], result_damaged_pages=5)
    add("database-of-another-key", "foreignSidecar", "the database of another store under the sidecar of this one", keyed)
    add("database-of-another-salt", "foreignSidecar", "the database of another store with the same key", salted)
    add("page-1-of-another-salt", "pageDamaged 1", "page 1 of a database with the same key and another salt", salted[:PAGE] + pages[PAGE:])
    add("plain-sqlite", "notEncrypted", "SQLite without encryption in place of the store", b"".join(database(texts, reserved=0)))
    add("text-file", "notEncrypted", "a text file in place of the store", b"Four score and seven years ago " * 1000)
    add("zeros", "notEncrypted", "a file of zeros", bytes(8 * PAGE))
    add("random-bytes", "foreignSidecar", "random bytes in place of the store", stream("random bytes", 8 * PAGE))
    standard = Pages("store standard", store.key, store.salt, CIPHER | {"plaintext_header_bytes": 0})
    add("standard-form-in-place", "foreignSidecar", "the standard form in place of the store", standard.file(plain))
    one = "one byte in place of the store, which SQLite would take for a new database"
    add("one-byte", "truncated", one, b"x")


def wal_attacks(v: Vectors, store: DirectStore, plain: list, pages: bytes, sidecar: bytes) -> None:
    newer = database(["one, newer", "two", "three", "four"], spare=2, counter=8)
    latest = database(["one, latest", "two", "three, latest", "four"], spare=2, counter=9)

    def frame(number: int, commit: int, plain: list, what: str) -> tuple:
        return number, commit, store.pages.encrypt(number, plain[number - 1], what)
    frames = [frame(1, 0, newer, " newer"), frame(3, 8, newer, " newer"), frame(3, 0, latest, " latest"),
              frame(5, 8, latest, " latest")]
    base = v.add("store/wal-whole", "ok", "two commits that are only in the WAL",
                 {"database": pages, "wal": wal(frames), "main": sidecar, "backup": sidecar}, **store.secret, result_pages=8,
                 result_frames=4)

    def add(name: str, comment: str, *edits: str, expect: str = "ok", frames: int = 4, limit: str = None, **headers) -> None:
        if expect == "ok":
            headers |= {"result_pages": 8, "result_frames": frames}
        v.add(f"store/wal-{name}", expect, comment, base=base, edits=edits, limit=limit, **headers)

    lost = "a deleted, cut or bit-flipped WAL is an earlier commit"
    add("deleted", "the WAL is gone", "remove: wal", frames=0, limit=lost)
    add("cut-to-no-bytes", "the WAL has no bytes", "truncate: wal to 0", frames=0, limit=lost)
    add("last-commit-cut", "the last commit is missing", f"truncate: wal to {32 + 2 * FRAME}", frames=2, limit=lost)
    add("cut-in-a-frame", "the last frame is incomplete", f"truncate: wal to {32 + 4 * FRAME - 1}", frames=2, limit=lost)
    add("frame-flipped", "a bit of the third frame is flipped", f"flip: wal {32 + 2 * FRAME + 99} bit 0", frames=2, limit=lost)
    add("header-flipped", "a bit of the WAL's header is flipped", "flip: wal 16 bit 0", frames=0, limit=lost)
    add("superseded-page-damaged", "a checkpoint was interrupted in page 3, which the WAL has",
        f"flip: database {2 * PAGE + 5} bit 0")
    add("superseded-page-1-damaged", "a checkpoint was interrupted in page 1, which the WAL has", "flip: database 200 bit 0")
    add("page-damaged-elsewhere", "page 4 is damaged, and the WAL does not have it", f"flip: database {3 * PAGE + 5} bit 0",
        expect="pageDamaged 4", result_damaged_pages=4)
    wal_pages(v, store, plain, pages, sidecar, frames)


def wal_pages(v: Vectors, store: DirectStore, plain: list, pages: bytes, sidecar: bytes, frames: list) -> None:
    def add(name: str, comment: str, made: bytes, expect: str = "ok", main: bytes = pages, limit: str = None, **headers) -> None:
        v.add(f"store/wal-{name}", expect, comment, {"database": main, "wal": made, "main": sidecar, "backup": sidecar},
              limit=limit, **store.secret, **headers)

    def flipped(frame: tuple) -> tuple:
        page = frame[2]
        return frame[0], frame[1], page[:900] + bytes([page[900] ^ 1]) + page[901:]
    add("frame-forged", "a page in the WAL is changed, and every checksum computed again",
        wal(frames[:3] + [flipped(frames[3])]), "frameDamaged 4", result_damaged_frames=4)
    add("frame-of-page-1-forged", "page 1 in the WAL is changed, and every checksum computed again",
        wal([flipped(frames[0])] + frames[1:]), "frameDamaged 1", result_damaged_frames=1)
    add("frames-of-two-pages-exchanged", "the images of two pages are exchanged, and every checksum computed again",
        wal(frames[:2] + [(3, 0, frames[3][2]), (5, 8, frames[2][2])]), "frameDamaged 3", result_damaged_frames="3 4")
    keyed = Pages("store key", stream("store other key", 32), store.salt)
    add("frame-of-another-key", "a connection left open after a rotation wrote with the former key",
        wal(frames + [(4, 8, keyed.encrypt(4, plain[3]))]), "frameDamaged 5", result_damaged_frames=5)
    add("older-frame-replayed", "an older image of page 3 is committed again, with right checksums",
        wal(frames + [(3, 8, frames[1][2])]), result_pages=8, result_frames=5,
        limit="an older version of a page, with the same key, salt and number, is authentic")
    add("of-another-run", "the WAL of an earlier moment, whole", wal(frames[:2], salts=(7, 8)), result_pages=8, result_frames=2,
        limit="an older WAL is authentic: it is an earlier commit")
    grown = database(["one", "two", "three", "four"], spare=3, counter=8)
    made = [(n, 9 if n == 9 else 0, store.pages.encrypt(n, grown[n - 1], " grown")) for n in [1, 7, 9]]
    add("grows-the-database", "page 9 is only in the WAL", wal(made), result_pages=9, result_frames=3)
    add("grows-the-database-page-missing", "pages 8 and 9 are neither in the file nor in the WAL", wal(made[:1] + [
        (7, 9, made[1][2])]), "truncated", pages[:7 * PAGE], result_missing_pages="8 9")
    cut = [(n, 8 if n == 8 else 0, store.pages.encrypt(n, plain[n - 1], " again")) for n in [7, 8]]
    add("has-the-end-of-a-cut-file", "the file is cut, and the WAL has the missing pages", wal(cut), main=pages[:6 * PAGE],
        result_pages=8, result_frames=2)
    add("of-another-page-size", "the WAL of a database with another page size, which SQLite would take for this one's",
        wal([(1, 1, bytes(1024))], 1024), "logDamaged")


def sidecar_attacks(v: Vectors, base: str, store: DirectStore, plain: list, pages: bytes) -> None:
    def add(name: str, expect: str, comment: str, main: bytes, backup: bytes = b"", limit: str = None, pages: bytes = pages,
            secret: dict = store.secret, **headers) -> None:
        files = {"database": pages, "main": main, "backup": main if backup == b"" else backup}
        if expect == "ok":
            headers = {"result_pages": 8, "result_frames": 0} | headers
        v.add(f"store/{name}", expect, comment, {k: c for k, c in files.items() if c is not None}, limit=limit, **secret, **headers)

    good = store.sidecar()
    add("wrong-key", "wrongKey", "the key of another store", good, secret={"raw_key": stream("thief", 32)})
    add("sidecar-missing", "saltMissing", "without a sidecar there is no salt", None, None)
    add("sidecar-one-copy", "ok", "one copy is enough", good, None)
    add("sidecar-forged", "sidecarForged", "both copies were changed without the key", good.replace(b'"epoch":1', b'"epoch":2'))
    add("sidecar-damaged", "sidecarDamaged", "both copies are cut", good[:150])
    add("sidecar-ahead", "sidecarAhead", "a newer version wrote it",
        store.sidecar(version=4, edit=('"scheme":', '"purpose":"new","scheme":')))
    add("sidecar-of-a-store-with-the-same-key", "foreignSidecar", "the sidecar of another store with the same key: another salt",
        sealed_twin(store))
    add("sidecar-salt-changed-by-the-owner", "foreignSidecar", "sealed with the right key, with another salt",
        store.sidecar(edit=(store.salt.hex(), "5a" * 16)))
    add("sidecar-older", "ok", "an older sidecar of a direct store", store.sidecar(generation=1),
        limit="an older sidecar of a direct store opens nothing that the newest does not open")
    add("sidecar-of-a-former-epoch", "wrongKey", "the sidecar from before a rotation", DirectStore("store former").sidecar(),
        secret=store.secret)
    add("sidecar-former-epoch-former-key", "foreignSidecar", "the sidecar and the key from before a rotation",
        DirectStore("store former", store_id=store.id).sidecar(), secret=DirectStore("store former").secret)
    add("creating", "ok", "the sidecar was not completed after the creation", store.sidecar("creating", 1))
    add("rotating", "ok", "pages are being copied: the present key counts", store.sidecar("rotating", 3))
    add("switching", "rotationPending", "the switch was interrupted", store.sidecar("switching", 4, pages=8))
    add("switching-forged", "sidecarForged", "a switch that only the present key announced (CVE-2021-4122)",
        store.sidecar("switching", 4, pages=8, pending_mac_key=store.key))
    rolled_back(v, add)


def sealed_twin(store: DirectStore) -> bytes:
    twin = DirectStore("store twin")
    twin.key = store.key
    return twin.sidecar()


def rolled_back(v: Vectors, add) -> None:
    both = [Slot(1, "key-file", KEY_FILE), Slot(2, "recovery", RECOVERY)]
    store = SlotStore("store slots", both)
    texts = ["one", "two", "three", "four"]
    secret = {"raw_key": KEY_FILE}

    def pages(generation: int = None, store_id: bytes = store.id) -> bytes:
        return store.pages.file(database(texts, custody=(store_id, generation) if generation else None))
    old, new = store.sidecar(generation=4), store.sidecar(generation=5, slots=both[:1])
    count = {"result_pages": 7}
    add("slots", "ok", "a store with keyslots that remembers its generation", new, pages=pages(5), secret=secret, **count)
    add("slots-remembers-less", "ok", "the row may be too low after a crash", new, pages=pages(4), secret=secret, **count)
    add("slots-rolled-back", "sidecarRolledBack", "an older sidecar restores a removed keyslot; the store remembers a newer one",
        old, pages=pages(5), secret={"raw_key": RECOVERY})
    add("slots-rolled-back-kept-key", "sidecarRolledBack", "whatever the key", old, pages=pages(5), secret=secret)
    add("slots-rolled-back-one-copy", "wrongKey", "the newest copy counts: it lacks the keyslot", old, new, pages=pages(5),
        secret={"raw_key": RECOVERY})
    add("slots-rolled-back-with-the-database", "ok", "sidecar and database are both older", old, pages=pages(4),
        secret={"raw_key": RECOVERY}, **count, limit="an older version of the whole file set is authentic")
    add("slots-nothing-remembered", "ok", "a store from which no key was removed remembers nothing", old, pages=pages(),
        secret={"raw_key": RECOVERY}, result_pages=6,
        limit="an older sidecar is not detected where no key was ever removed; it opens nothing more")
    add("slots-row-of-another-store", "ok", "a row of another store means nothing", old,
        pages=pages(5, stream("another id", 16)), secret={"raw_key": RECOVERY}, **count)
    add("slots-removed-key", "wrongKey", "the removed keyslot opens nothing", new, pages=pages(5), secret={"raw_key": RECOVERY})


# Files of SQLCipher's standard form, which `adopt` makes stores of

def standard_vectors(v: Vectors) -> None:
    cipher = CIPHER | {"plaintext_header_bytes": 0, "kdf_rounds": 256_000}
    pages = Pages("standard", stream("standard key", 32), stream("standard salt", 16), cipher)
    plain = database(["one", "two", "three"], version=1, spare=3)
    base = v.add("standard/whole", "ok", "a file of SQLCipher 4 with three free pages", {"database": pages.file(plain)},
                 raw_key=pages.key, result_pages=8)

    def add(name: str, expect: str, comment: str, *edits: str, **headers) -> None:
        v.add(f"standard/{name}", expect, comment, base=base, edits=edits, **headers)

    add("wrong-key", "wrongKey", "the key of another file", raw_key=stream("thief", 32))
    for page in [2, 3, 5]:
        add(f"page-{page}-flipped", f"pageDamaged {page}", "a page with content is damaged", f"flip: database {PAGE * (page - 1) + 9} bit 2")
    for page in [6, 7, 8]:
        add(f"free-page-{page}-flipped", f"pageDamaged {page}", "a free page is damaged: no query reads it",
            f"flip: database {PAGE * (page - 1) + 9} bit 2")
    add("page-unused-bytes-flipped", "pageDamaged 4", "bytes that no row uses are damaged", f"flip: database {3 * PAGE + 2000} bit 2")
    add("pages-swapped", "pageDamaged 7", "two free pages are swapped", f"swap: database {6 * PAGE} with {7 * PAGE} length {PAGE}")
    add("page-1-flipped", "wrongKey", "page 1 is all that shows whether the key fits", "flip: database 2000 bit 2",
        limit="without a sidecar a damaged page 1 cannot be told from a wrong key")
    add("salt-flipped", "wrongKey", "with another salt no page is authentic", "flip: database 3 bit 2",
        limit="without a sidecar a changed salt cannot be told from a wrong key")
    add("cut-by-a-page", "truncated", "the last page is missing", f"truncate: database to {7 * PAGE}")
    add("cut-by-half", "truncated", "half of the file is missing", f"truncate: database to {4 * PAGE}")
    add("cut-to-one-page", "truncated", "only page 1 is left", f"truncate: database to {PAGE}")
    add("cut-by-a-sector", "truncated", "the last sector is missing", f"truncate: database to {8 * PAGE - 512}")
    add("no-bytes", "notAdoptable", "the file has no bytes", "truncate: database to 0")
    add("plain-sqlite", "notAdoptable", "SQLite without encryption", "truncate: database to 0", f"zeros: database {PAGE}",
        "write: database 0 " + database(["x"], reserved=0)[0][:100].hex())
    add("zeros", "notAdoptable", "a file of zeros", f"zeros-at: database 0 length {8 * PAGE}")
    old = b"sesame street"
    salt = stream("standard 3 salt", 16)
    for version, rounds in [(3, 64_000), (2, 4_000)]:
        cipher3 = {"page_bytes": 1024, "plaintext_header_bytes": 0, "kdf_rounds": rounds, "kdf_hash": "sha1", "hmac_hash": "sha1"}
        former = Pages(f"standard {version}", data_key(old, salt, rounds, "sha1"), salt, cipher3)
        v.add(f"standard/sqlcipher-{version}", "otherVersion", f"a file of SQLCipher {version}",
              {"database": former.file(database(["one", "two"], 1024, 48, 1))}, passphrase=old.decode())
    small = Pages("standard 1024", pages.key, stream("standard 1024 salt", 16), cipher | {"page_bytes": 1024, "hmac_hash": "sha256"})
    v.add("standard/page-bytes-1024-sha256", "ok", "SQLCipher 4 with other settings",
          {"database": small.file(database(["one", "two"], 1024, 48, 1))}, raw_key=pages.key, result_pages=4)
