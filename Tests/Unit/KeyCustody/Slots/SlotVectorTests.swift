import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// Sidecars that another implementation wrote from the document alone.
@Suite("Keyslots of another implementation")
struct SlotVectorTests {
    @Test(
        "every slot opens with its secret, and the data key with the master key", arguments: SlotVectors.load().vectors)
    func opens(vector: SlotVectors.Store) throws {
        let parsed = try UnauthenticatedSidecar.parse(vector.sidecar.bytes)
        let sidecar = parsed.claimed
        try check(sidecar.slots, vector.slots, of: sidecar, open: vector.master)
        try check(sidecar.pending?.table?.slots ?? [], vector.pendingSlots, of: sidecar, open: vector.nextMaster)
        let master = MasterKey(SecretBytes(copying: try vector.master.hexBytes))
        let keys = SidecarKeys.slots(master, openedBy: nil)
        #expect(try parsed.authenticate(keys) == .genuine(sidecar))
        #expect(
            Hex.text(sidecar.context(epoch: sidecar.epoch, salt: sidecar.salt).additionalData) == vector.dataKeyContext)
        let dataKey = try #require(try keys.dataKey(of: sidecar))
        #expect(dataKey.hex == vector.dataKey)
        let next = SidecarKeys.slots(MasterKey(SecretBytes(copying: try vector.nextMaster.hexBytes)), openedBy: nil)
        if let successor = sidecar.successor { #expect(try next.dataKey(of: successor)?.hex == vector.nextKey) }
        if sidecar.successorHasOwnKeys {
            #expect(try parsed.authenticateSuccessor(next) == .genuine(sidecar))
            #expect(try keys.successor(of: sidecar) == nil)
        } else if sidecar.pending != nil {
            #expect(try keys.pendingDataKey(of: sidecar)?.hex == vector.nextKey)
        }
        #expect(try sidecar.encoded(keys: keys, next: next).text == vector.sidecar)
        try checkPage(vector, dataKey, sidecar)
    }

    private func check(
        _ slots: [Keyslot], _ expected: [SlotVectors.Slot], of sidecar: Sidecar, open masterKey: String
    ) throws {
        #expect(slots.map(\.id) == expected.map(\.id))
        for (slot, expected) in zip(slots, expected) {
            #expect(slot.kind.rawValue == expected.kind)
            #expect(Hex.text(slot.context(sidecar.storeID).additionalData) == expected.additionalData)
            let secret = SecretBytes(copying: try expected.secret.hexBytes)
            let wrappingKey = try slot.derivation.wrappingKey(secret: secret, salt: slot.salt)
            #expect(wrappingKey.hex() == expected.slotKey)
            let master = try #require(try slot.open(.passphrase(Passphrase(secret)), sidecar.storeID))
            #expect(master.secret.hex() == masterKey)
        }
    }

    @Test(
        "a direct store that is rotated opens with either passphrase as far as that reaches",
        arguments: SlotVectors.load().direct)
    func direct(vector: SlotVectors.Direct) throws {
        let parsed = try UnauthenticatedSidecar.parse(vector.sidecar.bytes)
        let sidecar = parsed.claimed
        let present = try SlotFixture.material(vector.passphrase).unlock(sidecar)
        let keys = try #require(present)
        #expect(try parsed.authenticate(keys) == .genuine(sidecar))
        #expect(
            try keys.dataKey(of: sidecar)?.hex == vector.key && keys.pendingDataKey(of: sidecar)?.hex == vector.nextKey)
        let successor = try #require(sidecar.successor)
        let next = try #require(try SlotFixture.material(vector.nextPassphrase).unlock(successor))
        #expect(try next.dataKey(of: successor)?.hex == vector.nextKey)
        #expect(try parsed.authenticateSuccessor(next) == .genuine(sidecar))
        #expect(try parsed.authenticate(next) == .wrongKey && parsed.authenticateSuccessor(keys) == .wrongKey)
        #expect(try sidecar.encoded(keys: keys).text == vector.sidecar)
        let context = WrappingContext.nextDataKey(
            epoch: successor.epoch, salt: successor.salt, settings: sidecar.settings, storeID: sidecar.storeID)
        #expect(Hex.text(context.additionalData) == vector.additionalData)
    }

    /// The data key is that of a page of SQLCipher's.
    private func checkPage(_ vector: SlotVectors.Store, _ dataKey: DataKey, _ sidecar: Sidecar) throws {
        let page = try vector.page.hexBytes
        let macKey = try dataKey.withSecret { try sidecar.settings.deriveMacKey(dataKey: $0, salt: sidecar.salt.bytes) }
        var authenticator = try PageAuthenticator(hash: sidecar.settings.hmacHash, key: macKey)
        let isAuthentic = try page.withUnsafeBytes { bytes in
            try authenticator.verify(
                UnsafeRawBufferPointer(rebasing: bytes[32..<4032]), number: 1,
                code: UnsafeRawBufferPointer(rebasing: bytes[4032..<4096]))
        }
        #expect(isAuthentic)
    }

    @Test("a secret opens its own slot among all others, as a source would give it")
    func unlocks() throws {
        let vector = try #require(SlotVectors.load().vectors.first { $0.name == "every kind" })
        let claimed = try UnauthenticatedSidecar.parse(vector.sidecar.bytes).claimed
        for slot in vector.slots {
            let secret = try slot.secret.hexBytes
            let isRaw = slot.kind == "key-file" || slot.kind == "recovery"
            let material: Secret =
                isRaw ? .rawKey(try RawKey(bytes: secret)) : .passphrase(try Passphrase(bytes: secret))
            #expect(try material.unlock(claimed)?.openedBy?.id == slot.id)
        }
        // The printed key works wherever a passphrase does.
        let recovery = try #require(vector.slots.last)
        let printed = RecoveryKey(try RawKey(bytes: recovery.secret.hexBytes)).text()
        let typed = Secret.passphrase(try Passphrase(printed))
        #expect(try typed.unlock(claimed)?.openedBy?.id == recovery.id)
    }

    @Test("the example of the document holds, value for value")
    func document() throws {
        let page = try String(contentsOf: SlotVectors.root.appending(path: "Docs/Formats/Sidecar.md"), encoding: .utf8)
        let vector = try #require(SlotVectors.load().vectors.last)
        #expect(page.contains("```\n\(vector.sidecar)```\n"))
        let sidecar = try UnauthenticatedSidecar.parse(vector.sidecar.bytes).claimed
        let recovery = RecoveryKey(try RawKey(bytes: vector.slots[2].secret.hexBytes)).text()
        #expect(page.contains("```\n\(recovery.withBytes { Array($0).text })```\n"))
        let master = MasterKey(SecretBytes(copying: try vector.master.hexBytes))
        let keys = SidecarKeys.slots(master, openedBy: nil)
        let next = try #require(try keys.pendingDataKey(of: sidecar))
        guard let pendingMacKey = try SidecarSeal.pendingMacKey(of: sidecar, next: keys)?.hex() else {
            Issue.record("the pending part does not open")
            return
        }
        let rows = [
            ("master key", vector.master), ("data key of epoch 1", vector.dataKey), ("data key of epoch 2", next.hex),
            ("slot key of slot 1", vector.slots[0].slotKey), ("slot key of slot 2", vector.slots[1].slotKey),
            ("slot key of slot 3", vector.slots[2].slotKey),
            ("additional data of slot 1", vector.slots[0].additionalData),
            ("additional data of the data key of epoch 1", vector.dataKeyContext),
            ("wrap key", try master.derived(MasterKey.dataKeyWrappingLabel, sidecar.storeID).hex()),
            ("mac key", try master.derived(MasterKey.macLabel, sidecar.storeID).hex()),
            ("pending mac key", pendingMacKey),
        ]
        for (name, value) in rows { #expect(page.contains("| \(name) | `\(value)` |"), "\(name)") }
    }

    @Test("the examples of rotations in the document hold, value for value")
    func documentOfRotations() throws {
        let page = try String(contentsOf: SlotVectors.root.appending(path: "Docs/Formats/Sidecar.md"), encoding: .utf8)
        let vectors = SlotVectors.load()
        let direct = try #require(vectors.direct.last)
        let renewing = try #require(vectors.vectors.first { $0.name == "the document's example of a new master key" })
        for sidecar in [direct.sidecar, renewing.sidecar] { #expect(page.contains("```\n\(sidecar)```\n")) }
        #expect(page.contains("present passphrase is `\(direct.passphrase)`, the next one `\(direct.nextPassphrase)`"))
        let section = try #require(page.components(separatedBy: "### Version 1, at the switch").last)
        for (name, value) in [
            ("data key of epoch 1", direct.key), ("data key of epoch 2", direct.nextKey),
            ("additional data of the data key of epoch 2", direct.additionalData),
        ] { #expect(section.contains("| \(name) | `\(value)` |"), "\(name)") }
        let last = try #require(page.components(separatedBy: "### Version 2, at the switch").last)
        let next = MasterKey(SecretBytes(copying: try renewing.nextMaster.hexBytes))
        let sidecar = try UnauthenticatedSidecar.parse(renewing.sidecar.bytes).claimed
        guard
            let pendingMacKey = try SidecarSeal.pendingMacKey(of: sidecar, next: .slots(next, openedBy: nil))?.hex()
        else {
            Issue.record("the pending part does not open")
            return
        }
        for (name, value) in [
            ("master key", renewing.master), ("next master key", renewing.nextMaster),
            ("data key of epoch 2", renewing.nextKey), ("slot key of pending slot 2", renewing.pendingSlots[0].slotKey),
            ("slot key of pending slot 3", renewing.pendingSlots[1].slotKey), ("pending mac key", pendingMacKey),
            ("next wrap key", try next.derived(MasterKey.dataKeyWrappingLabel, sidecar.storeID).hex()),
        ] { #expect(last.contains("| \(name) | `\(value)` |"), "\(name)") }
    }

    @Test("the document names every label, kind, derivation, origin and bound")
    func names() throws {
        let text = try String(contentsOf: SlotVectors.root.appending(path: "Docs/Formats/Sidecar.md"), encoding: .utf8)
        let page = text.replacing("\n", with: " ")
        for label in [
            SlotDerivation.wrappingLabel, MasterKey.dataKeyWrappingLabel, MasterKey.macLabel, MasterKey.keyCheckLabel,
            SidecarSeal.pendingMacLabel, SidecarSeal.directPendingMacLabel, SidecarSeal.pendingSlotsMacLabel,
            DataKey.nextKeyWrappingLabel,
        ] { #expect(page.contains("\"\(label)\"")) }
        for kind in Keyslot.Kind.allCases { #expect(page.contains("`\"\(kind.rawValue)\"`")) }
        for origin in SlottedKeys.Origin.allCases { #expect(page.contains("`\"\(origin.rawValue)\"`")) }
        func bounds(_ range: ClosedRange<Int>) -> String { "\(range.lowerBound) to \(range.upperBound)" }
        for text in [
            "`log2_n` \(bounds(CustodyLimits.scryptLog2Rounds)), `r` \(CustodyLimits.scryptBlockSize), `p` \(bounds(CustodyLimits.scryptLanes))",
            "`memory_kib` \(bounds(CustodyLimits.argon2MemoryKiB)), `iterations` \(bounds(CustodyLimits.argon2Iterations)), "
                + "`lanes` \(bounds(CustodyLimits.argon2Lanes))",
            "1 to \(CustodyLimits.keySlots) of these lines", "0 to \(CustodyLimits.keySlots) of these lines",
            "1 to \(CustodyLimits.databasePages): the pages", "0 to \(CustodyLimits.slotLabelCharacters) characters",
            "The additional data are \(WrappingContext.byteCount) bytes", "ASCII `\(WrappingContext.magic)`",
        ] { #expect(page.contains(text), "\(text)") }
        #expect(page.contains("at most 4,294,967,296 bytes") && CustodyLimits.slotWorkBytes == 4_294_967_296)
    }
}
