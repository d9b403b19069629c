import StoreCrypto
import Testing

@testable import KeyCustody

@Suite("A second secret for an open store")
struct SecondSecretTests {
    @Test("is tried on every slow slot except the one that is open, for which passphrases are compared")
    func derivations() async throws {
        // In a process of its own: derivations of other tests would be counted too.
        await #expect(processExitsWith: .success) {
            let slots = try ["first", "second", "third"].map { try SlotFixture.passphrase($0) }
            let sidecar = try SlotFixture.store(slots + [SlotFixture.keyFile()]).sidecar
            let known = try SlotFixture.material("second")
            let opened = try known.unlock(sidecar)?.openedBy
            #expect(opened?.id == 2)
            let cases: [(String, UInt64?, Int)] = [
                ("other", nil, 2), ("second", 2, 0), ("first", 1, 2), ("third", 3, 1),
            ]
            for (text, slot, derivations) in cases {
                let before = WorkCount.derivations.current
                let found = try SlotFixture.material(text).openedSlot(of: sidecar, knowing: known, opened: opened)
                #expect(found?.id == slot, "\(text)")
                #expect(WorkCount.derivations.current - before == derivations, "\(text)")
            }
            // A passphrase is not compared with the bytes of a raw key.
            let raw = try SlotFixture.rawKey()
            #expect(try raw.openedSlot(of: sidecar, knowing: known, opened: opened)?.id == 4)
            #expect(try known.openedSlot(of: sidecar, knowing: raw, opened: sidecar.slots.last)?.id == 2)
        }
    }

    @Test("is found to be the recovery key that opened the store, however it is written")
    func recovery() throws {
        let recovery = try RecoveryKey.random()
        let material = Secret.rawKey(try RawKey(recovery.key.bytes))
        let sidecar = try SlotFixture.store([SlotFixture.keyFile(), NewSlot(material, kind: .recovery)]).sidecar
        let printed = recovery.text().withBytes { Array($0).text }
        let known = try SlotFixture.material(printed)
        let opened = try known.unlock(sidecar)?.openedBy
        #expect(opened?.kind == .recovery)
        let typed = try SlotFixture.material(printed.lowercased())
        #expect(try typed.openedSlot(of: sidecar, knowing: known, opened: opened)?.id == 2)
    }
}
