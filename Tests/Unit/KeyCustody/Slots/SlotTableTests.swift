import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Keyslots")
struct SlotTableTests {
    private let master = try! MasterKey.random()

    private func slot(_ id: UInt64, _ new: NewSlot? = nil) throws -> Keyslot {
        try PreparedSlot(new ?? SlotFixture.keyFile(), for: Fixture.storeID()).slot(
            id, of: Fixture.storeID(), holding: master)
    }

    private func table(_ count: Int) throws -> SlotTable {
        var table = SlotTable()
        let one = try PreparedSlot(SlotFixture.keyFile(), for: Fixture.storeID())
        for _ in 0..<count { try table.add(one.slot(table.nextID, of: Fixture.storeID(), holding: master)) }
        return table
    }

    private func code(_ body: () throws -> Void) -> StoreError.Code? {
        let error = #expect(throws: StoreError.self) { try body() }
        return error?.code
    }

    @Test("a store has at most 32 slots")
    func full() throws {
        var table = try table(32)
        #expect(table.slots.map(\.id) == Array(1...32))
        let extra = try slot(33)
        #expect(code { try table.add(extra) } == .tooManySlots)
        #expect(table.slots.count == 32 && table.nextID == 33)
        #expect(SlotTable(slots: table.slots + [extra], nextID: 34) == nil)
        try table.remove(7)
        try table.add(extra)
        #expect(table.slots.last?.id == 33)
    }

    @Test("the number of a removed slot is not given again")
    func numbers() throws {
        var table = try table(3)
        try table.remove(3)
        #expect(table.nextID == 4)
        try table.add(slot(4))
        #expect(table.slots.map(\.id) == [1, 2, 4])
    }

    @Test("the last slot that can be used on this machine stays")
    func last() throws {
        var table = try table(2)
        try table.remove(1)
        #expect(code { try table.remove(2) } == .lastSlot)
        #expect(table.slots.map(\.id) == [2])
        guard !KeyDerivation.hasArgon2id else { return }
        let unusable = Keyslot(
            id: 3, kind: .passphrase, created: 0, label: .none, derivation: .standardArgon2id, salt: try Fixture.salt(),
            wrapped: table.slots[0].wrapped)
        try table.add(unusable)
        #expect(code { try table.remove(2) } == .lastSlot)
        try table.remove(3)
    }

    @Test("a slot that is not there is named in the error, with those that are")
    func missing() throws {
        var table = try table(3)
        try table.remove(2)
        let error = #expect(throws: StoreError.self) { try table.find(2) }
        #expect(error?.code == .slotNotFound && error?.why.contains("1, 3") == true)
        #expect(code { try table.remove(9) } == .slotNotFound)
        let stray = try slot(2)
        #expect(code { try table.replace(stray) } == .slotNotFound)
        #expect(try table.find(3).id == 3)
    }

    @Test("slots that together would keep an opener busy for minutes are refused")
    func cost() throws {
        let dear = SlotDerivation.scrypt(log2Rounds: 20, blockSize: 8, lanes: 4)
        #expect(dear.workBytes == CustodyLimits.slotWorkBytes)
        // Not `standard`, which is cheap in a process with CIPHERSTORE_CHEAP_SLOTS.
        let standard = SlotDerivation.scrypt(log2Rounds: 17, blockSize: 8, lanes: 1)
        #expect(standard.workBytes * CustodyLimits.keySlots == CustodyLimits.slotWorkBytes)
        var table = try table(1)
        func dearSlot(_ id: UInt64) throws -> Keyslot {
            Keyslot(
                id: id, kind: .passphrase, created: 0, label: .none, derivation: dear, salt: try Fixture.salt(),
                wrapped: table.slots[0].wrapped)
        }
        try table.add(dearSlot(2))
        #expect(code { try table.add(dearSlot(3)) } == .tooManySlots)
        try table.replace(dearSlot(2))
        #expect(code { try table.replace(dearSlot(1)) } == .tooManySlots)
    }

    @Test("numbers that do not ascend, or are not below the next one, make no table")
    func order() throws {
        let slots = try table(3).slots
        #expect(SlotTable(slots: slots, nextID: 4) != nil)
        #expect(SlotTable(slots: slots, nextID: 3) == nil)
        #expect(SlotTable(slots: slots.reversed(), nextID: 4) == nil)
        #expect(SlotTable(slots: [slots[0], slots[0]], nextID: 4) == nil)
        #expect(SlotTable(slots: [], nextID: 1) == nil)
    }

    @Test("a guessable secret is never left to HKDF, and a random one never slowed down")
    func kinds() throws {
        #expect(try SlotFixture.passphrase("words").kind == .passphrase)
        #expect(try NewSlot(SlotFixture.material("words")).derivation == .standard)
        #expect(try NewSlot(SlotFixture.rawKey()).derivation == .hkdf)
        #expect(try NewSlot(SlotFixture.rawKey(), kind: .recovery).kind == .recovery)
        #expect(try NewSlot(SlotFixture.material("words"), kind: .command).derivation == .standard)
        let hexadecimal = "9f3c81d2e07b64a5f81e2d93c6b07a4f" + "15e8d3920b7c46fa8d21e59374c0b6af"
        #expect(try NewSlot(SlotFixture.material(hexadecimal), kind: .command).derivation == .hkdf)
        #expect(try NewSlot(SlotFixture.material(hexadecimal)).derivation == .standard)
        for short in ["123456", "deadbeef", String(hexadecimal.dropLast()), String(repeating: "A1b", count: 14)] {
            #expect(try NewSlot(SlotFixture.material(short), kind: .command).derivation == .standard)
        }
        let base64 = "hHq3v9y0Xc1bTn5zLw8kRj2sUf7gAe4dMi6pOoZqYtE="
        #expect(try NewSlot(SlotFixture.material(base64), kind: .credential).derivation == .hkdf)
        let sentence = "four score and seven years ago our fathers brought forth"
        #expect(try NewSlot(SlotFixture.material(sentence), kind: .command).derivation == .standard)

        func refuses(_ material: Secret, _ kind: Keyslot.Kind, _ derivation: SlotDerivation?) -> Bool {
            do throws(StoreError) {
                _ = try NewSlot(material, kind: kind, derivation: derivation)
                return false
            } catch {
                return error.code == .invalidKey
            }
        }
        #expect(refuses(try SlotFixture.material("words"), .passphrase, .hkdf))
        #expect(refuses(try SlotFixture.material("words"), .keyFile, nil))
        #expect(refuses(try SlotFixture.material("words"), .recovery, nil))
        #expect(refuses(try SlotFixture.rawKey(), .passphrase, nil))
        #expect(refuses(try SlotFixture.rawKey(), .keyFile, .standard))
        for derivation: SlotDerivation in [
            .scrypt(log2Rounds: 13, blockSize: 8, lanes: 1), .scrypt(log2Rounds: 21, blockSize: 8, lanes: 1),
            .scrypt(log2Rounds: 17, blockSize: 16, lanes: 1), .scrypt(log2Rounds: 17, blockSize: 8, lanes: 5),
            .argon2id(memoryKiB: 16383, iterations: 1, lanes: 1), .argon2id(memoryKiB: 65536, iterations: 0, lanes: 1),
            .argon2id(memoryKiB: 65536, iterations: 1, lanes: 9),
        ] { #expect(refuses(try SlotFixture.material("words"), .passphrase, derivation)) }
    }

    @Test("a label has up to 64 printable characters that need no escaping")
    func labels() throws {
        for text in ["", "a", "Anna's laptop (2026)", String(repeating: "x", count: 64)] {
            #expect(try SlotLabel(text).text == text)
        }
        for text in [
            " a", "a ", "a\"b", "a\\b", "a\nb", "ä", "\u{7f}", "\u{1b}[31m", String(repeating: "x", count: 65),
        ] {
            #expect(code { _ = try SlotLabel(text) } == .invalidKey)
        }
    }

    @Test("the source of a key tells the kind of its slot")
    func sources() throws {
        #expect(KeySource.passphrase("words").slotKind == .passphrase)
        #expect(KeySource.keyFile(path: "f").slotKind == .passphrase)
        #expect(KeySource.rawKeyFile(path: "f").slotKind == .keyFile)
        #expect(KeySource.command(["pass"]).slotKind == .command)
        #expect(KeySource.systemdCredential("c").slotKind == .credential)
    }

    /// A leak check reported master keys of processes that ended while a thread of theirs still had a store open.
    @Test("a leak check finds the master key through the keys of a sidecar")
    func reachable() {
        let keys: SidecarKeys? = .slots(master, openedBy: nil)
        let first = withUnsafeBytes(of: keys) { $0.loadUnaligned(as: UInt.self) }
        #expect(first == UInt(bitPattern: Unmanaged.passUnretained(master.secret).toOpaque()))
    }

    @Test("descriptions and reflection of keys, slots and sidecars show no byte of a secret or wrapped key")
    func descriptions() throws {
        let made = try SlotFixture.store()
        let master = try #require(made.keys.master)
        var dumped = ""
        dump(made.sidecar, to: &dumped)
        dump(made.keys, to: &dumped)
        dumped += "\(made.sidecar) \(made.keys) \(made.sidecar.slots)"
        let secret = master.secret.hex()
        #expect(!dumped.contains(secret))
        #expect(!dumped.contains(Hex.text(made.sidecar.slots[0].wrapped.sealed)))
        #expect("\(master)" == "MasterKey(32 bytes)")
    }
}
