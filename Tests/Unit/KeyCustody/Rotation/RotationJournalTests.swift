import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Recording a rotation")
struct RotationJournalTests {
    @Test(
        "a rotation that is completed gives new keys and a new salt, and exactly the keys that go on open it",
        arguments: RotationCase.allCases)
    func completed(kind: RotationCase) throws {
        let fixture = try RotationFixture(kind)
        let before = try #require(fixture.files.read().main.parsed?.claimed)
        let keys = try fixture.journal.begin(kind.mode())
        #expect(keys.nextEpoch == 2 && keys.currentSalt == before.salt && keys.nextSalt != before.salt)
        #expect(!keys.currentDataKey.isEqual(to: keys.nextDataKey))
        #expect(try fixture.state() == .rotating && fixture.content(.main) == fixture.content(.backup))
        for key in kind.before { #expect(try fixture.epoch(openedBy: key) == 1, "raw key \(key)") }
        let pending = try #require(try fixture.journal.pending())
        #expect(pending.nextDataKey.isEqual(to: keys.nextDataKey))

        try fixture.journal.announceSwitch(pages: 12)
        let switching = try #require(fixture.files.read().backup.parsed?.claimed)
        #expect(switching.state == .switching && switching.pending?.pages == 12)
        try fixture.journal.complete()

        let after = try #require(fixture.files.read().main.parsed?.claimed)
        #expect(after.state == .ready && after.epoch == 2 && after.salt == keys.nextSalt && after.pending == nil)
        #expect(after.generation == before.generation + 3 && after.storeID == before.storeID)
        #expect(try fixture.content(.main) == fixture.content(.backup))
        for key: UInt8 in 0...8 {
            #expect(try fixture.epoch(openedBy: key) == (kind.after.contains(key) ? 2 : nil), "raw key \(key)")
        }
        #expect(try keys.next.dataKey(of: after)?.isEqual(to: keys.nextDataKey) == true)
        if kind == .newDataKey { #expect(after.slots == before.slots) }
        if kind == .compromised {
            #expect(after.slots.map(\.id) == [1, 3] && after.slotted?.table.nextID == 4)
            #expect(zip(after.slots, before.slots).allSatisfy { $0.label == $1.label && $0.created == $1.created })
            #expect(try keys.current.dataKey(of: after) == nil, "the former master key opens the new data key")
        }
        // The next rotation begins where this one ended.
        let again = RotationJournal(databasePath: fixture.files.databasePath, keys: keys.next)
        if kind != .direct { #expect(try again.begin(.newDataKey).nextEpoch == 3) }
    }

    // A member of the group that may write to the folder moved the file, and the process ended by SIGILL.
    @Test("a lock file that was moved away is an error, and nothing is recorded")
    func movedLockFile() throws {
        let fixture = try RotationFixture(.newDataKey)
        let (lock, away) = (fixture.files.databasePath + "-lock", fixture.files.databasePath + "-elsewhere")
        func refuses(_ step: () throws -> Void) throws {
            let before = try fixture.content(.main)
            #expect(rename(lock, away) == 0)
            let error = #expect(throws: StoreError.self) { try step() }
            #expect(error?.code == .storeMoved, "\(String(describing: error))")
            #expect(rename(away, lock) == 0)
            #expect(try fixture.content(.main) == before)
        }
        try refuses { try fixture.journal.begin(.newDataKey) }
        try fixture.journal.begin(.newDataKey)
        try refuses { try fixture.journal.announceSwitch(pages: 12) }
        try refuses { try fixture.journal.abandon() }
        try fixture.journal.announceSwitch(pages: 12)
        try refuses { try fixture.journal.complete() }
        try fixture.journal.complete()
        #expect(try fixture.state() == .ready)
    }

    // The error said to open the store for writing, and no opening was possible.
    @Test("a rotation whose sidecar was removed names the sidecar")
    func removedSidecar() throws {
        let fixture = try RotationFixture(.newDataKey)
        try fixture.journal.begin(.newDataKey)
        #expect(unlink(fixture.files.mainPath) == 0 && unlink(fixture.files.backupPath) == 0)
        let error = #expect(throws: StoreError.self) { try fixture.journal.announceSwitch(pages: 12) }
        #expect(error?.code == .saltMissing)
    }

    @Test(
        "a rotation that is given up leaves what was before, and nothing of the key to come",
        arguments: RotationCase.allCases)
    func abandoned(kind: RotationCase) throws {
        let fixture = try RotationFixture(kind)
        let before = try #require(fixture.files.read().main.parsed?.claimed)
        let keys = try fixture.journal.begin(kind.mode())
        try fixture.files.write(fixture.content(.main), to: .main)
        try Files.contents(of: fixture.files.mainPath, limitBytes: 1 << 20).write(fixture.files.setAsidePath(of: .main))
        try fixture.content(.main).write(fixture.files.mainPath + ".tmp-4711-0000abcd")
        try fixture.journal.abandon()
        var expected = before
        expected.generation += 2
        #expect(fixture.files.read().main.parsed?.claimed == expected)
        #expect(try fixture.folder.names() == ["app.db-lock", "app.db-sidecar", "app.db-sidecar.bak"])
        for key in kind.before { #expect(try fixture.epoch(openedBy: key) == 1) }
        #expect(try fixture.journal.rotation()?.sidecar == nil)
        let salt = Data(keys.nextSalt.hex.utf8)
        #expect(try Data(fixture.content(.backup)).range(of: salt) == nil)
    }

    @Test(
        "a rotation that is completed leaves no file beside the store that the former key opens",
        arguments: RotationCase.allCases)
    func leftovers(kind: RotationCase) throws {
        let fixture = try RotationFixture(kind)
        let old = try fixture.content(.main)
        try fixture.journal.begin(kind.mode())
        for copy in SidecarCopy.allCases { try old.write(fixture.files.setAsidePath(of: copy)) }
        try old.write(fixture.files.backupPath + ".tmp-4711-0000abcd")
        try fixture.journal.announceSwitch(pages: 1)
        try fixture.journal.complete()
        #expect(try fixture.folder.names() == ["app.db-lock", "app.db-sidecar", "app.db-sidecar.bak"])
    }

    @Test("the present key is refused as the new one, raw or as a passphrase")
    func sameKey() throws {
        let fixture = try RotationFixture(.direct)
        let same = RotationMode.direct(try SlotFixture.rawKey(0))
        #expect(storeErrorCode { _ = try fixture.journal.prepare(same) } == .invalidKey)
        var sidecar = try Fixture.sidecar()
        sidecar.settings.kdfRounds = 1
        let key = try SlotFixture.material("old").dataKey(salt: sidecar.salt, settings: sidecar.settings)
        try fixture.files.write(sidecar, dataKey: key)
        let journal = RotationJournal(databasePath: fixture.files.databasePath, keys: .direct(key))
        func begin(_ text: String) throws {
            _ = try journal.prepare(.direct(SlotFixture.material(text)))
        }
        #expect(storeErrorCode { try begin("old") } == .invalidKey)
        try begin("new")
        #expect(fixture.files.read().main.parsed?.claimed == sidecar)
    }

    @Test("an mode that does not fit the scheme is refused, and so is one that would keep no slot or a strange key")
    func conflicts() throws {
        let direct = try RotationFixture(.direct)
        let slots = try RotationFixture(.newDataKey)
        for mode in [RotationMode.newDataKey, .compromised(kept: [])] {
            #expect(storeErrorCode { _ = try direct.journal.prepare(mode) } == .modeConflict)
        }
        #expect(storeErrorCode { _ = try slots.journal.prepare(RotationCase.direct.mode()) } == .modeConflict)
        #expect(storeErrorCode { _ = try slots.journal.prepare(.compromised(kept: [])) } == .lastSlot)
        let strange = RotationMode.compromised(kept: try [0, 9].map { try SlotFixture.rawKey($0) })
        #expect(storeErrorCode { _ = try slots.journal.prepare(strange) } == .wrongKey)
    }

    @Test("a proposal names the slots that are kept and dropped, every slot of a kept secret among the former")
    func proposal() throws {
        let fixture = try KeyFixture([
            SlotFixture.passphrase("first", label: "a"), SlotFixture.keyFile(0), SlotFixture.passphrase("first"),
            SlotFixture.keyFile(1),
        ])
        let recovery = try RecoveryKey.random()
        try fixture.administration.add(recovery)
        let journal = RotationJournal(databasePath: fixture.path, keys: fixture.administration.keys)
        let typed = recovery.text().withBytes { Array($0) }
        let proposal = try journal.prepare(
            .compromised(kept: [
                try SlotFixture.material("first"),
                .passphrase(try Passphrase(bytes: typed)),
            ]))
        #expect(proposal.keptSlots.map(\.id) == [1, 3, 5] && proposal.droppedSlots.map(\.id) == [2, 4])
        let all = try journal.prepare(.newDataKey)
        #expect(all.keptSlots.count == 5 && all.droppedSlots.isEmpty)
    }

    @Test("keys that were changed since a proposal was made end it, and nothing is written")
    func outdatedProposal() throws {
        let fixture = try RotationFixture(.newDataKey)
        let proposal = try fixture.journal.prepare(.newDataKey)
        let other = try fixture.journal.prepare(.newDataKey)
        try fixture.journal.begin(proposal)
        #expect(storeErrorCode { try fixture.journal.begin(other) } == .rotationPending)
        try fixture.journal.abandon()
        // As it was but for its generation: a proposal stays good.
        try fixture.journal.begin(other)
        try fixture.journal.announceSwitch(pages: 1)
        try fixture.journal.complete()
        #expect(storeErrorCode { try fixture.journal.begin(proposal) } == .storeInUse)
        #expect(try fixture.state() == .ready)
    }

    @Test("what is out of its order is refused, and changes nothing")
    func order() throws {
        let fixture = try RotationFixture(.newDataKey)
        func refuses(_ body: () throws -> Void) throws {
            let before = try fixture.content(.main)
            #expect(storeErrorCode(body) == .rotationPending)
            #expect(try fixture.content(.main) == before)
        }
        try refuses { try fixture.journal.abandon() }
        try refuses { try fixture.journal.complete() }
        try refuses { try fixture.journal.announceSwitch(pages: 1) }
        try fixture.journal.begin(.newDataKey)
        try refuses { try fixture.journal.begin(.newDataKey) }
        try refuses { try fixture.journal.complete() }
        try refuses { try fixture.journal.announceSwitch(pages: 0) }
        try fixture.journal.announceSwitch(pages: 1)
        try refuses { try fixture.journal.abandon() }
        try refuses { try fixture.journal.announceSwitch(pages: 1) }
    }

    @Test("a switch is not announced while something else has the name of one copy")
    func halfAnnounced() throws {
        let fixture = try RotationFixture(.compromised)
        try fixture.journal.begin(fixture.kind.mode())
        // A folder in the backup's place: the library made none.
        try Files.remove(fixture.files.backupPath)
        try FileManager.default.createDirectory(
            atPath: fixture.files.backupPath + "/full", withIntermediateDirectories: true)
        #expect(throws: StoreError.self) { try fixture.journal.announceSwitch(pages: 1) }
        #expect(try fixture.state() == .rotating)
        try FileManager.default.removeItem(atPath: fixture.files.backupPath)
        try fixture.journal.abandon()
        #expect(try fixture.state() == .ready && fixture.content(.main) == fixture.content(.backup))
    }

    @Test("a source that gives no key, or a huge one, gives none to a rotation")
    func badSources() throws {
        let folder = try TemporaryFolder()
        for (name, bytes) in [("empty", []), ("line", [10]), ("huge", [UInt8](repeating: 97, count: 65_537))] {
            try bytes.write(folder.file(name))
            chmod(folder.file(name), 0o600)
            let code = storeErrorCode { _ = try KeySource.keyFile(path: folder.file(name)).read() }
            #expect(code == .invalidKey || code == .keyMissing, "\(name)")
            #expect(
                storeErrorCode { _ = try KeySource.rawKeyFile(path: folder.file(name)).read() } == .invalidKey)
        }
        #expect(storeErrorCode { _ = try KeySource.passphrase("").read() } == .invalidKey)
        #expect(storeErrorCode { _ = try KeySource.command(["true"]).read() } == .keyMissing)
    }
}

extension [UInt8] {
    fileprivate func write(_ path: String) throws { try Data(self).write(to: URL(filePath: path)) }
}
