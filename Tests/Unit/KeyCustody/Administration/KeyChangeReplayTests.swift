import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// Every pair of files that a cut change, or somebody who puts old files back, can leave.
@Suite("Copies of a sidecar with keyslots")
struct KeyChangeReplayTests {
    /// A fixture, and its sidecar before and after a change.
    private func changed(
        _ change: (KeyAdministration) throws -> Void
    ) throws -> (fixture: KeyFixture, old: [UInt8], new: [UInt8]) {
        let fixture = try KeyFixture()
        let old = try fixture.content(.main)
        try change(fixture.administration)
        return (fixture, old, try fixture.content(.main))
    }

    private func put(_ fixture: KeyFixture, main: [UInt8]?, backup: [UInt8]?) throws {
        for (copy, content) in [(SidecarCopy.main, main), (.backup, backup)] {
            if let content {
                try fixture.files.write(content, to: copy)
            } else {
                try Files.remove(fixture.files.path(of: copy))
            }
        }
    }

    @Test("once the main copy is without a slot, its secret opens nothing, though the backup still has it")
    func removed() throws {
        let (fixture, old, new) = try changed { try $0.remove(1) }
        for (main, backup, opens) in [(old, old, true), (new, old, false), (new, new, false)] {
            try put(fixture, main: main, backup: backup)
            #expect(try (fixture.opened("first") == 1) == opens)
            // The other slot opens in every state, by whichever copy, and mends what was cut.
            #expect(try fixture.opened(SlotFixture.rawKey(0)) == 2)
            let choice = try fixture.administration.choice()
            #expect(choice.standing.best.bytes == main && choice.copy == .main)
            let rewritten = try fixture.files.repair(choice, keyOpensDatabase: false)
            #expect(rewritten == (main == backup ? [] : [.backup]))
            #expect(try fixture.content(.backup) == main)
        }
    }

    // An old main copy put back beside a newer backup cannot come from a crash.
    @Test("an old copy that was put back alone brings no slot back")
    func putBack() throws {
        let (fixture, old, new) = try changed { try $0.remove(1) }
        try put(fixture, main: old, backup: new)
        #expect(try fixture.opened("first") == nil)
        #expect(try fixture.opened(SlotFixture.rawKey(0)) == 2)
        let choice = try fixture.administration.choice()
        #expect(choice.copy == .backup && choice.notes.contains { $0.isSuspicious })
        // Both copies put back: that is the store's own memory of the generation to tell.
        try put(fixture, main: old, backup: old)
        #expect(try fixture.opened("first") == 1)
        #expect(try fixture.administration.sidecar().isRolledBack(storeRemembersGeneration: 3))
    }

    @Test("a secret that was changed opens in exactly one of its forms, whichever file is the newer")
    func replaced() throws {
        let (fixture, old, new) = try changed { try $0.change(1, to: SlotFixture.passphrase("other")) }
        for (main, backup) in [(old, old), (new, old), (new, new), (old, new)] as [([UInt8], [UInt8])] {
            try put(fixture, main: main, backup: backup)
            let isNew = main == new || backup == new
            #expect(try fixture.opened("first") == (isNew ? nil : 1))
            #expect(try fixture.opened("other") == (isNew ? 1 : nil))
            #expect(try fixture.opened(SlotFixture.rawKey(0)) == 2)
        }
    }

    @Test("either copy alone opens the store, and a damaged one never stands in the way")
    func single() throws {
        let (fixture, _, new) = try changed { try $0.add(SlotFixture.passphrase("second")) }
        for (main, backup) in [(new, nil), (nil, new), (new, "".bytes), (Array(new.dropLast()), new)]
            as [([UInt8]?, [UInt8]?)]
        {
            try put(fixture, main: main, backup: backup)
            #expect(try fixture.opened("second") == 3 && fixture.opened("first") == 1)
        }
        try put(fixture, main: Array(new.dropLast()), backup: Array(new.dropFirst()))
        #expect(throws: StoreError.self) { _ = try fixture.opened("second") }
    }

    @Test("slots of another store open nothing, alone or mixed into this one's lines")
    func swappedSlots() throws {
        let mine = try KeyFixture()
        let other = try KeyFixture([SlotFixture.passphrase("stranger"), SlotFixture.keyFile(0x50)])
        func lines(_ fixture: KeyFixture) throws -> [String] {
            try fixture.content(.main).text.split(separator: "\n").map { String($0) + "\n" }
        }
        let own = try lines(mine)
        let foreign = try lines(other)
        for number in own.indices where own[number] != foreign[number] {
            var mixed = own
            mixed[number] = foreign[number]
            try put(mine, main: mixed.joined().bytes, backup: nil)
            #expect(throws: StoreError.self, "line \(number + 1)") {
                _ = try KeyAdministration.unlock(databasePath: mine.path, with: SlotFixture.material("stranger"))
            }
            #expect(throws: StoreError.self, "line \(number + 1)") { _ = try mine.administration.sidecar() }
        }
        // If the slot itself is made to open in this store, its additional data are not those of its wrapping.
        let slot = try other.administration.sidecar().slots[1]
        let secret = Secret.rawKey(try RawKey(bytes: Fixture.keyBytes.map { $0 ^ 0x50 }))
        #expect(try slot.open(secret, other.administration.sidecar().storeID) != nil)
        #expect(try slot.open(secret, mine.administration.sidecar(restoring: own, mine)) == nil)
    }

    @Test("every value that a slot is bound to keeps it from opening when it is another")
    func boundValues() throws {
        let store = try Fixture.storeID()
        let master = try MasterKey.random()
        let slot = try PreparedSlot(SlotFixture.keyFile(), for: store).slot(5, of: store, holding: master)
        let secret = SecretBytes(copying: Fixture.keyBytes)
        let key = try slot.derivation.wrappingKey(secret: secret, salt: slot.salt)
        func opens(_ context: WrappingContext) throws -> Bool { try slot.wrapped.unwrap(with: key, context) != nil }
        #expect(try opens(slot.context(store)))
        let others: [WrappingContext] = [
            .slot(6, kind: .keyFile, derivation: .hkdf, salt: slot.salt, storeID: store),
            .slot(5, kind: .recovery, derivation: .hkdf, salt: slot.salt, storeID: store),
            .slot(5, kind: .keyFile, derivation: .standard, salt: slot.salt, storeID: store),
            .slot(5, kind: .keyFile, derivation: .hkdf, salt: try Fixture.salt(9), storeID: store),
            .slot(5, kind: .keyFile, derivation: .hkdf, salt: slot.salt, storeID: try Fixture.storeID(1)),
            .dataKey(epoch: 5, salt: slot.salt, settings: .plaintextHeader, storeID: store),
        ]
        for (index, other) in others.enumerated() { #expect(try !opens(other), "context \(index)") }
    }

    @Test("every value that a data key is bound to keeps it from opening when it is another")
    func boundDataKey() throws {
        let made = try SlotFixture.store()
        let master = try #require(made.keys.master)
        #expect(try made.sidecar.unwrapDataKey(under: master) != nil)
        var others = [Sidecar](repeating: made.sidecar, count: 7)
        others[0].epoch = 2
        others[1].salt = try Fixture.salt()
        others[2].settings.pageBytes = 8192
        others[3].settings.plaintextHeaderBytes = 0
        others[4].settings.kdfRounds = 1
        others[5].settings.kdfHash = .sha256
        others[6].settings.hmacHash = .sha1
        for (index, other) in others.enumerated() {
            #expect(try other.unwrapDataKey(under: master) == nil, "value \(index)")
        }
    }
}

extension KeyAdministration {
    /// The identifier of a fixture's store once its own lines are back.
    fileprivate func sidecar(restoring lines: [String], _ fixture: KeyFixture) throws -> StoreID {
        try fixture.files.write(lines.joined().bytes, to: .main)
        return try sidecar().storeID
    }
}
