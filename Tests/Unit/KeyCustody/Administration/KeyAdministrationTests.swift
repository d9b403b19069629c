import Foundation
import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization
import Testing

@testable import KeyCustody

@Suite("Changing keys")
struct KeyAdministrationTests {
    private func code(_ body: () throws -> Void) -> StoreError.Code? {
        let error = #expect(throws: StoreError.self) { try body() }
        return error?.code
    }

    @Test("a slot that was added opens the store, and the others still do")
    func add() throws {
        let fixture = try KeyFixture()
        let before = try fixture.administration.sidecar()
        let added = try fixture.administration.add(SlotFixture.passphrase("second", label: "laptop"))
        #expect(added.id == 3 && added.label.text == "laptop" && added.kind == .passphrase)
        #expect(try fixture.opened("second") == 3 && fixture.opened("first") == 1)
        #expect(try fixture.opened(SlotFixture.rawKey(0)) == 2)
        let after = try fixture.administration.sidecar()
        #expect(after.generation == before.generation + 1)
        #expect(after.slots.dropLast() == before.slots[...] && after.slotted?.dataKey == before.slotted?.dataKey)
        #expect(try fixture.content(.main) == fixture.content(.backup))
        #expect(try fixture.opened("third") == nil)
    }

    @Test("a slot that was removed opens no file that is left, and none holds its bytes")
    func remove() throws {
        let fixture = try KeyFixture()
        let slot = try fixture.administration.sidecar().slots[0]
        // The possible leftovers of former crashes and damages.
        let former = try fixture.content(.main)
        for name in ["app.db-sidecar.damaged", "app.db-sidecar.bak.damaged", "app.db-sidecar.tmp-1-0123abcd"] {
            try Data(former).write(to: URL(filePath: fixture.folder.file(name)))
        }
        #expect(try fixture.openedFromAnyFile("first").count == 5)
        #expect(try fixture.holds(slot.wrapped.sealed) && fixture.holds(slot.salt.bytes))
        try fixture.administration.remove(1)
        #expect(try fixture.openedFromAnyFile("first") == [])
        #expect(try !fixture.holds(slot.wrapped.sealed) && !fixture.holds(slot.salt.bytes))
        #expect(try fixture.folder.names() == ["app.db-keylog", "app.db-lock", "app.db-sidecar", "app.db-sidecar.bak"])
        #expect(try fixture.opened(SlotFixture.rawKey(0)) == 2)
        #expect(code { try fixture.administration.remove(2) } == .lastSlot)
        #expect(code { try fixture.administration.remove(1) } == .slotNotFound)
    }

    // A removal that was killed between the two files, and is asked for again: the slot is gone, and the backup has it.
    @Test("a removal that was cut is completed by the next one, which finds nothing to remove")
    func removeAgain() throws {
        let fixture = try KeyFixture()
        let before = try fixture.content(.main)
        try fixture.administration.remove(1)
        try fixture.files.write(before, to: .backup)
        #expect(code { try fixture.administration.remove(1) } == .slotNotFound)
        #expect(try fixture.openedFromAnyFile("first") == [])
    }

    @Test("a changed slot keeps its number and label, and its former secret opens nothing")
    func change() throws {
        let fixture = try KeyFixture([SlotFixture.passphrase("first", label: "laptop"), SlotFixture.keyFile(0)])
        let before = try fixture.administration.sidecar().slots[0]
        let changed = try fixture.administration.change(1, to: SlotFixture.passphrase("other"))
        #expect(changed.id == 1 && changed.label.text == "laptop" && changed.salt != before.salt)
        #expect(try fixture.opened("other") == 1)
        #expect(try fixture.openedFromAnyFile("first") == [])
        #expect(try !fixture.holds(before.wrapped.sealed))
        try fixture.administration.change(1, to: SlotFixture.keyFile(9, label: "server"))
        #expect(try fixture.opened("other") == nil && fixture.opened(SlotFixture.rawKey(9)) == 1)
        #expect(try fixture.administration.sidecar().slots[0].label.text == "server")
        #expect(code { try fixture.administration.change(7, to: SlotFixture.keyFile()) } == .slotNotFound)
    }

    @Test("a label changes and nothing else")
    func label() throws {
        let fixture = try KeyFixture()
        let before = try fixture.administration.sidecar().slots
        try fixture.administration.label(2, SlotLabel("server"))
        let after = try fixture.administration.sidecar().slots
        #expect(after[0] == before[0] && after[1].label.text == "server" && after[1].wrapped == before[1].wrapped)
        #expect(try fixture.opened(SlotFixture.rawKey(0)) == 2)
    }

    @Test("a recovery key opens the store as it was printed")
    func recovery() throws {
        let fixture = try KeyFixture()
        let recovery = try RecoveryKey.random()
        let slot = try fixture.administration.add(recovery, label: SlotLabel("safe"))
        #expect(slot.kind == .recovery && slot.derivation == .hkdf)
        let printed = recovery.text().withBytes { Array($0).text }
        #expect(try fixture.opened(printed) == slot.id)
        #expect(try fixture.opened(printed.lowercased()) == slot.id)
        let typed = try RecoveryKey(reading: printed)
        #expect(try fixture.opened(.rawKey(RawKey(typed.key.bytes))) == slot.id)
    }

    @Test("a wrong passphrase is tried on every slot and opens none, and each right one opens its own")
    func severalPassphrases() throws {
        let names = ["one", "two", "three", "four"]
        let fixture = try KeyFixture(names.map { try SlotFixture.passphrase($0) })
        for (index, name) in names.enumerated() { #expect(try fixture.opened(name) == UInt64(index + 1)) }
        for wrong in ["One", "one ", "five"] { #expect(try fixture.opened(wrong) == nil) }
        #expect(try fixture.opened(SlotFixture.rawKey(0)) == nil)
    }

    @Test("of several slots with one secret the one that costs nothing opens, and otherwise the newest")
    func order() throws {
        let words = "9f3c81d2e07b64a5f81e2d93c6b07a4f" + "15e8d3920b7c46fa8d21e59374c0b6af"
        let fixture = try KeyFixture([
            SlotFixture.passphrase(words), SlotFixture.passphrase(words), SlotFixture.keyFile(0),
        ])
        #expect(try fixture.opened(words) == 2)
        let slot = try fixture.administration.add(NewSlot(SlotFixture.material(words), kind: .command))
        try fixture.administration.add(SlotFixture.passphrase(words))
        #expect(slot.derivation == .hkdf)
        #expect(try fixture.opened(words) == slot.id)
    }

    @Test("a slot that this library cannot derive is passed over, and named when nothing else opens")
    func unavailableDerivation() throws {
        let fixture = try KeyFixture()
        let argon2id = try NewSlot(SlotFixture.material("argon"), derivation: .standardArgon2id)
        if KeyDerivation.hasArgon2id {
            let slot = try fixture.administration.add(argon2id)
            #expect(try fixture.opened("argon") == slot.id)
            return
        }
        #expect(code { try fixture.administration.add(argon2id) } == .unsupportedLibrary)
        // Made by somebody with a newer library.
        try fixture.administration.change(removesSecrets: false) { sidecar in
            var next = sidecar
            var slotted = try #require(sidecar.slotted)
            try slotted.table.add(
                Keyslot(
                    id: 3, kind: .passphrase, created: .max / 100, label: .none, derivation: .standardArgon2id,
                    salt: Fixture.salt(), wrapped: slotted.table.slots[0].wrapped))
            next.scheme = .slots(slotted)
            return (next, fixture.administration.keys)
        }
        #expect(try fixture.opened("first") == 1)
        #expect(code { _ = try fixture.opened("argon") } == .unsupportedLibrary)
    }

    @Test("a 33rd slot is refused and changes nothing")
    func full() throws {
        let fixture = try KeyFixture((0..<32).map { try SlotFixture.keyFile(UInt8($0)) })
        let before = try fixture.content(.main)
        #expect(code { try fixture.administration.add(SlotFixture.keyFile(99)) } == .tooManySlots)
        #expect(try fixture.content(.main) == before && fixture.content(.backup) == before)
        for number in 0..<32 { #expect(try fixture.opened(SlotFixture.rawKey(UInt8(number))) == UInt64(number + 1)) }
    }

    @Test("changes of several threads all happen, one after another")
    func concurrent() throws {
        let fixture = try KeyFixture()
        let failures = Mutex(0)
        DispatchQueue.concurrentPerform(iterations: 12) { index in
            do {
                // Each knows the store from its own opening, like a process of its own.
                let mine = try KeyAdministration.unlock(databasePath: fixture.path, with: SlotFixture.rawKey(0))
                try mine.add(SlotFixture.keyFile(UInt8(100 + index)))
            } catch {
                failures.withLock { $0 += 1 }
            }
        }
        #expect(failures.withLock { $0 } == 0)
        let sidecar = try fixture.administration.sidecar()
        #expect(sidecar.slots.map(\.id) == Array(1...14) && sidecar.generation == 2 + 12)
        for index in 0..<12 { #expect(try fixture.opened(SlotFixture.rawKey(UInt8(100 + index))) != nil) }
    }

    @Test(
        "a change waits for openers and for other changes, and gives up in time", arguments: [LockByte.opening, .admin])
    func locks(byte: LockByte) throws {
        let fixture = try KeyFixture()
        let before = try fixture.content(.main)
        var administration = fixture.administration
        administration.wait = .milliseconds(30)
        let waits = Mutex<[String]>([])
        administration.onWait = { wait in waits.withLock { $0.append(wait) } }
        let lock = try LockFile(path: fixture.path + "-lock", likeFile: nil).tryLock(byte, .exclusive)
        #expect(code { try administration.remove(1) } == .storeInUse)
        // An opening takes no time to speak of; a rotation does.
        #expect(waits.withLock { $0.count } == (byte == .admin ? 1 : 0))
        administration.wait = .seconds(60)
        administration.isCancelled = { true }
        #expect(throws: CancellationError.self) { try administration.remove(1) }
        #expect(try fixture.content(.main) == before)
        lock?.release()
        administration.isCancelled = nil
        try administration.remove(1)
    }

    @Test("while a rotation is pending or a store is being created its keys stay as they are")
    func wrongState() throws {
        let fixture = try KeyFixture()
        let keys = fixture.administration.keys
        let ready = try fixture.administration.sidecar()
        let rotating = try ready.rotating(to: Fixture.dataKey(1), salt: Fixture.salt(1), keys: keys, next: keys)
        for (sidecar, expected) in [
            (rotating, StoreError.Code.rotationPending), (try rotating.announcingSwitch(pages: 1), .rotationPending),
            (ready.next(.creating), .noSuchStore),
        ] {
            try fixture.files.write(sidecar, keys: keys)
            #expect(code { try fixture.administration.remove(1) } == expected)
            #expect(try fixture.administration.sidecar() == sidecar)
        }
    }

    @Test("a copy that fits another key stops a change, and a damaged one is kept aside")
    func strangeCopies() throws {
        let fixture = try KeyFixture()
        let other = try SlotFixture.store()
        try fixture.files.write(other.sidecar.encoded(keys: other.keys), to: .backup)
        #expect(code { try fixture.administration.label(1, SlotLabel("a")) } == .foreignSidecar)
        try fixture.files.write("nonsense".bytes, to: .backup)
        try fixture.administration.label(1, SlotLabel("a"))
        #expect(try fixture.content(.main) == fixture.content(.backup))
        #expect(try fixture.folder.names().contains("app.db-sidecar.bak.damaged"))
        try Files.remove(fixture.files.mainPath)
        try fixture.administration.label(1, SlotLabel("b"))
        #expect(try fixture.administration.sidecar().slots[0].label.text == "b")
    }

    @Test("a path without a sidecar has no keys to change")
    func absent() throws {
        let folder = try TemporaryFolder()
        #expect(
            code { _ = try KeyAdministration.unlock(databasePath: folder.file("a"), with: SlotFixture.rawKey()) }
                == .noSuchStore)
    }
}
