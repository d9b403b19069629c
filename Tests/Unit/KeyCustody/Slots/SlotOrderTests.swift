import StoreCrypto
import Synchronization
import Testing

@testable import KeyCustody

/// A passphrase was tried on all keyslots, the newest first, without a word: a wrong one took 11 s.
@Suite("The order of keyslots that a secret is tried on")
struct SlotOrderTests {
    /// The trials of a secret on a sidecar.
    private final class Trials: Sendable {
        let all = Mutex<[KeyslotTrial]>([])

        func source(_ source: KeySource) -> KeySource {
            source.reportingTrials { trial in self.all.withLock { $0.append(trial) } }
        }

        /// The number of derivations since the last call.
        func take() -> [KeyslotTrial] {
            all.withLock { all in
                defer { all.removeAll() }
                return all
            }
        }
    }

    @Test("the slot that opened a store last is tried first, then those of the source's kind, then the newest")
    func likely() throws {
        let trials = Trials()
        let weak = try Secret.passphrase(Passphrase("1111")).with(slotKind: .command)
        let slots =
            try ["first", "second", "third"].map { try SlotFixture.passphrase($0) }
            + [NewSlot(weak, kind: .command, derivation: SlotFixture.cheap)]
        let sidecar = try SlotFixture.store(slots).sidecar
        func derivations(_ source: KeySource) throws -> Int? {
            let opened = try trials.source(source).read().unlock(sidecar)
            let seen = trials.take()
            #expect(seen.last?.hasEnded == true && seen.dropLast().allSatisfy { !$0.hasEnded && $0.count == 4 })
            #expect(seen.dropLast().map(\.number) == Array(1...max(1, seen.count - 1)))
            return opened == nil ? nil : seen.count - 1
        }
        func passphrase(_ text: String) -> KeySource { .custom("typed") { try Passphrase(text) } }

        #expect(try derivations(passphrase("third")) == 1, "the newest of the kind")
        #expect(try derivations(passphrase("first")) == 3)
        #expect(try derivations(passphrase("first")) == 1, "it opened the store last")
        #expect(try derivations(passphrase("third")) == 2)
        #expect(try derivations(passphrase("none of them")) == nil)
        let other = try SlotFixture.store(slots).sidecar
        #expect(try passphrase("first").read().unlock(other)?.openedBy?.id == 1, "a store without a last opening")
    }

    @Test("the slots of the source's kind are tried before newer ones of other kinds")
    func kind() throws {
        let trials = Trials()
        let weak = try Secret.passphrase(Passphrase("1111")).with(slotKind: .command)
        let slots = try [NewSlot(weak, kind: .command, derivation: SlotFixture.cheap), SlotFixture.passphrase("typed")]
        let sidecar = try SlotFixture.store(slots).sidecar
        let command = KeySource(giving: weak, name: "a command")
        #expect(try trials.source(command).read().unlock(sidecar)?.openedBy?.id == 1)
        #expect(trials.take().count == 2, "one trial, and the end")
    }

    @Test("a raw key is tried on no slot of a passphrase, and reports nothing")
    func rawKey() throws {
        let trials = Trials()
        let sidecar = try SlotFixture.store([SlotFixture.passphrase("one"), SlotFixture.keyFile()]).sidecar
        let right = KeySource.customRawKey("key") { try RawKey(bytes: Fixture.keyBytes) }
        let wrong = KeySource.customRawKey("key") { try RawKey(bytes: Fixture.keyBytes.map { $0 ^ 9 }) }
        #expect(try trials.source(right).read().unlock(sidecar)?.openedBy?.id == 2)
        #expect(try trials.source(wrong).read().unlock(sidecar) == nil)
        #expect(trials.take().isEmpty)
    }
}
