import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// Version 2 of the sidecar: every kind of slot, a pending rotation, and everything that may be done to its lines.
@Suite("Sidecar with keyslots")
struct SlotSidecarTests {
    private let made: (sidecar: Sidecar, keys: SidecarKeys)
    private let rotating: Sidecar

    init() throws {
        made = try SlotFixture.store()
        rotating = try SlotFixture.rotating(made)
    }

    private func verdict(_ bytes: [UInt8], _ keys: SidecarKeys? = nil) throws -> UnauthenticatedSidecar.Verdict {
        try UnauthenticatedSidecar.parse(bytes).authenticate(keys ?? made.keys)
    }

    private func error(_ bytes: [UInt8]) -> SidecarSyntaxError? {
        #expect(throws: SidecarSyntaxError.self) { try UnauthenticatedSidecar.parse(bytes) }
    }

    /// Whether the library takes bytes for what the holder of the keys wrote.
    private func isGenuine(_ bytes: [UInt8]) throws -> Bool {
        do {
            if case .genuine = try verdict(bytes) { return true }
        } catch is SidecarSyntaxError {}
        return false
    }

    @Test("it is read back as it was written, in every state and with every derivation")
    func roundTrip() throws {
        var all = made.sidecar
        var slotted = try #require(all.slotted)
        let wrapped = slotted.table.slots[0].wrapped
        let derivations: [(Keyslot.Kind, SlotDerivation)] = [
            (.passphrase, .scrypt(log2Rounds: 20, blockSize: 8, lanes: 1)), (.command, SlotFixture.cheap),
            (.credential, .hkdf), (.recovery, .hkdf), (.passphrase, .standardArgon2id), (.command, .hkdf),
        ]
        for (kind, derivation) in derivations {
            try slotted.table.add(
                Keyslot(
                    id: slotted.table.nextID, kind: kind, created: 0, label: SlotLabel("~ {},:[]'"),
                    derivation: derivation, salt: Fixture.salt(), wrapped: wrapped))
        }
        all.scheme = .slots(slotted)
        for sidecar in try [made.sidecar, all, rotating, SlotFixture.switching(made), made.sidecar.next(.creating)] {
            let bytes = try sidecar.encoded(keys: made.keys)
            #expect(try UnauthenticatedSidecar.parse(bytes).claimed == sidecar)
            #expect(try verdict(bytes) == .genuine(sidecar))
            #expect(try verdict(bytes, SlotFixture.store().keys) == .wrongKey)
            #expect(try verdict(bytes, .direct(Fixture.dataKey())) == .wrongKey)
        }
    }

    @Test("whatever byte has a flipped bit, it is never taken for genuine nor for a later version")
    func everyBit() throws {
        for sidecar in [made.sidecar, rotating] {
            let bytes = try sidecar.encoded(keys: made.keys)
            for position in bytes.indices {
                for bit in [position % 8, (position + 3) % 8] {
                    var flipped = bytes
                    flipped[position] ^= 1 << bit
                    do {
                        let verdict = try verdict(flipped)
                        #expect(verdict == .forged || verdict == .wrongKey, "byte \(position), bit \(bit)")
                    } catch let error as SidecarSyntaxError {
                        #expect(!error.isAhead, "byte \(position), bit \(bit): \(error)")
                    }
                }
            }
        }
    }

    @Test("no line of a sidecar with slots may be missing, come twice, stand elsewhere, or come from another version")
    func lines() throws {
        let lines = try rotating.encoded(keys: made.keys).text.split(separator: "\n").map { String($0) + "\n" }
        let other = try rotating.announcingSwitch(pages: 7).encoded(keys: made.keys).text.split(separator: "\n").map {
            String($0) + "\n"
        }
        #expect(lines.count == other.count)
        for first in lines.indices {
            var changed = lines
            changed.remove(at: first)
            #expect(try !isGenuine(changed.joined().bytes), "without line \(first + 1)")
            for second in lines.indices {
                changed = lines
                changed.insert(lines[first], at: second)
                #expect(try !isGenuine(changed.joined().bytes), "line \(first + 1) again as \(second + 1)")
                guard first != second else { continue }
                changed = lines
                changed.swapAt(first, second)
                #expect(try !isGenuine(changed.joined().bytes), "lines \(first + 1) and \(second + 1) exchanged")
            }
            guard lines[first] != other[first] else { continue }
            changed = lines
            changed[first] = other[first]
            #expect(try !isGenuine(changed.joined().bytes), "line \(first + 1) of the next version")
        }
    }

    @Test("no field of a line may be missing, come twice, stand elsewhere, or be another slot's")
    func fields() throws {
        let lines = try rotating.encoded(keys: made.keys).text.split(separator: "\n").map(String.init)
        for (number, line) in lines.enumerated() {
            let fields = line.dropFirst().dropLast().split(separator: ",").map(String.init)
            func check(_ changed: [String], _ what: String) throws {
                var whole = lines
                whole[number] = "{\(changed.joined(separator: ","))}"
                if whole[number] == line { return }
                let text = whole.map { $0 + "\n" }.joined()
                #expect(try !isGenuine(text.bytes), "line \(number + 1): \(what)")
            }
            for first in fields.indices {
                try check(fields.indices.filter { $0 != first }.map { fields[$0] }, "without \(fields[first])")
                try check(fields + [fields[first]], "with \(fields[first]) twice")
                try check(fields + ["\"extra\":1"], "with another field")
                for second in fields.indices where second > first {
                    var changed = fields
                    changed.swapAt(first, second)
                    try check(changed, "\(fields[first]) and \(fields[second]) exchanged")
                }
                for other in lines where other != line {
                    let name = fields[first].prefix { $0 != ":" } + ":"
                    for value in other.dropFirst().dropLast().split(separator: ",") where value.hasPrefix(name) {
                        var changed = fields
                        changed[first] = String(value)
                        try check(changed, "\(name) of another line")
                    }
                }
            }
        }
    }

    @Test("cut and extended ones are not read")
    func lengths() throws {
        let bytes = try rotating.encoded(keys: made.keys)
        for count in 0..<bytes.count { #expect(error(Array(bytes[..<count]))?.isAhead == false) }
        for extra in ["\n", " ", "\0", "}", bytes.text] { #expect(error(bytes + extra.bytes)?.isAhead == false) }
        #expect(
            error(bytes + [UInt8](repeating: 32, count: CustodyLimits.sidecarBytes)) == .tooLong(limitBytes: 65_536))
    }

    private static let scrypt = "scrypt\",\"log2_n\":14,\"r\":8,\"p\":1"

    private static func argon2id(_ memoryKiB: Int, _ iterations: Int, _ lanes: Int) -> String {
        "argon2id\",\"memory_kib\":\(memoryKiB),\"iterations\":\(iterations),\"lanes\":\(lanes)"
    }

    @Test(
        "parameters out of their bounds are refused by name, before any derivation",
        arguments: [
            ("\"log2_n\":14", "\"log2_n\":13", "log2_n"), ("\"log2_n\":14", "\"log2_n\":21", "log2_n"),
            ("\"log2_n\":14", "\"log2_n\":999999999999999999", "log2_n"), ("\"r\":8", "\"r\":9", "r"),
            ("\"r\":8", "\"r\":0", "r"), ("\"p\":1", "\"p\":5", "p"), ("\"p\":1", "\"p\":0", "p"),
            ("\"id\":1,", "\"id\":0,", "id"), ("\"id\":1,", "\"id\":3,", "id"),
            ("\"next_id\":2", "\"next_id\":1", "id"),
            ("\"log2_n\":14,\"r\":8,\"p\":1", "\"log2_n\":20,\"r\":8,\"p\":4", nil),
            (scrypt, argon2id(1_048_577, 1, 1), "memory_kib"), (scrypt, argon2id(16_383, 1, 1), "memory_kib"),
            (scrypt, argon2id(16_384, 17, 1), "iterations"), (scrypt, argon2id(16_384, 1, 9), "lanes"),
            (scrypt, argon2id(1_048_576, 5, 1), "kdf"), (scrypt, argon2id(1_048_576, 4, 8), nil),
        ] as [(String, String, String?)])
    func bounds(part: String, replacement: String, field: String?) throws {
        let vector = try #require(SlotVectors.load().vectors.first { $0.name == "one slot" })
        let changed = vector.sidecar.replacingOccurrences(of: part, with: replacement)
        #expect(changed != vector.sidecar)
        guard let field else {
            _ = try UnauthenticatedSidecar.parse(changed.bytes)
            return
        }
        guard case .outOfRange(_, field) = error(changed.bytes) else {
            Issue.record("\(replacement) was not out of range")
            return
        }
    }

    @Test("33 slots, and slots that together cost too much, are refused before any derivation")
    func tooManySlots() throws {
        var lines = try made.sidecar.encoded(keys: made.keys).text.split(separator: "\n").map { String($0) + "\n" }
        let slot = try #require(lines.first { $0.hasPrefix("{\"record\":\"slot\"") })
        lines.removeAll { $0.hasPrefix("{\"record\":\"slot") }
        func with(_ count: Int, _ slot: String) -> [UInt8] {
            let slots = (1...count).map { slot.replacingOccurrences(of: "\"id\":1,", with: "\"id\":\($0),") }
            return (lines[..<3] + ["{\"record\":\"slots\",\"next_id\":99}\n"] + slots + lines[3...]).joined().bytes
        }
        #expect(try UnauthenticatedSidecar.parse(with(32, slot)).claimed.slots.count == 32)
        #expect(error(with(33, slot)) == .outOfRange(line: 37, field: "slot"))
        let dear = slot.replacingOccurrences(of: "key-file", with: "passphrase").replacingOccurrences(
            of: "\"hkdf\"", with: "\"scrypt\",\"log2_n\":18,\"r\":8,\"p\":1")
        #expect(try UnauthenticatedSidecar.parse(with(16, dear)).claimed.slots.count == 16)
        #expect(error(with(17, dear)) == .outOfRange(line: 21, field: "kdf"))
    }

    @Test(
        "what the format does not allow in a slot is refused",
        arguments: [
            ("\"label\":\"~ only one ~\"", "\"label\":\"a\\u0041\""), ("\"label\":\"~ only", "\"label\":\" only"),
            ("\"label\":\"~ only", "\"label\":\"ä only"), ("one ~\"", "one \""), ("\"label\":\"~", "\"label\":\"\\\""),
            ("\"kind\":\"passphrase\"", "\"kind\":\"password\""), ("\"kind\":\"passphrase\"", "\"kind\":\"key-file\""),
            ("\"kdf\":\"scrypt\",\"log2_n\":14,\"r\":8,\"p\":1", "\"kdf\":\"hkdf\""), ("\"scrypt\"", "\"bcrypt\""),
            ("\"origin\":\"random\"", "\"origin\":\"direct\" "), ("\"origin\":\"random\"", "\"origin\":\"other\""),
            ("\"record\":\"data-key\",\"epoch\":1", "\"record\":\"data-key\",\"epoch\":2"),
            ("\"record\":\"slots\"", "\"record\":\"slotz\""), ("\"state\":\"creating\"", "\"state\":\"rotating\""),
            ("\"scheme\":\"slots\"", "\"scheme\":\"direct\""), ("\"version\":2", "\"version\":1"),
            ("\"version\":2", "\"version\":3"),
        ])
    func strictness(part: String, replacement: String) throws {
        let vector = try #require(SlotVectors.load().vectors.first { $0.name == "one slot" })
        let changed = vector.sidecar.replacingOccurrences(of: part, with: replacement)
        #expect(changed != vector.sidecar)
        #expect(error(changed.bytes)?.isAhead == false)
    }

    @Test("random changes of a sidecar with slots never crash the parser, and what it accepts is canonical")
    func fuzz() throws {
        let seed = SeededGenerator.seed()
        var generator = SeededGenerator(seed: seed)
        let original = try rotating.encoded(keys: made.keys)
        let pool = Array("{}[]\",:\\ \n0123456789abcdefrecordslotpendingmac\u{0}é".utf8) + [0xff, 0x80]
        for round in 0..<5_000 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let position = Int.random(in: 0..<bytes.count, using: &generator)
                let length = min(Int.random(in: 0...3, using: &generator), bytes.count - position)
                let noise = (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                    pool[Int.random(in: 0..<pool.count, using: &generator)]
                }
                bytes.replaceSubrange(position..<(position + length), with: noise)
            }
            guard let parsed = try? UnauthenticatedSidecar.parse(bytes) else { continue }
            var again = parsed.claimed.body(keyCheck: parsed.seal.keyCheck)
            if let pending = parsed.seal.pending { again += Sidecar.pendingMacLine(pending.value) }
            again += Sidecar.macLine(parsed.seal.mac.value)
            #expect(again == bytes, "CIPHERSTORE_SEED=\(seed), round \(round)")
        }
    }
}
