import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// The pending part of a sidecar, of every mode: everything that may be done to its lines.
@Suite("Pending parts of a sidecar")
struct PendingFormatTests {
    /// A sidecar during a rotation, with the keys of both sides.
    struct Pending {
        let sidecar: Sidecar
        let present: SidecarKeys
        let next: SidecarKeys

        init(_ kind: RotationCase, switching: Bool = false) throws {
            let fixture = try RotationFixture(kind)
            let keys = try fixture.journal.begin(kind.mode())
            if switching { try fixture.journal.announceSwitch(pages: 4_294_967_294) }
            sidecar = try #require(fixture.files.read().main.parsed?.claimed)
            present = keys.current
            next = keys.next
        }

        var bytes: [UInt8] { get throws { try sidecar.encoded(keys: present, next: next) } }

        /// Whether a holder of either key takes bytes for genuine.
        func isGenuine(_ bytes: [UInt8]) throws -> (present: Bool, next: Bool) {
            do {
                return try isGenuine(UnauthenticatedSidecar.parse(bytes))
            } catch is SidecarSyntaxError {
                return (false, false)
            }
        }

        func isGenuine(_ parsed: UnauthenticatedSidecar) throws -> (present: Bool, next: Bool) {
            var (byPresent, byNext) = (false, false)
            if case .genuine = try parsed.authenticate(present) { byPresent = true }
            if case .genuine = try parsed.authenticateSuccessor(next) { byNext = true }
            return (byPresent, byNext)
        }
    }

    @Test(
        "it is read back as it was written, and each key shows what it reaches", arguments: RotationCase.allCases,
        [false, true])
    func roundTrip(kind: RotationCase, switching: Bool) throws {
        let pending = try Pending(kind, switching: switching)
        let parsed = try UnauthenticatedSidecar.parse(pending.bytes)
        #expect(parsed.claimed == pending.sidecar)
        #expect(try parsed.authenticate(pending.present) == .genuine(pending.sidecar))
        #expect(try (parsed.authenticateSuccessor(pending.next) == .genuine(pending.sidecar)) == (kind != .newDataKey))
        for stranger in [try SlotFixture.store().keys, .direct(try Fixture.dataKey(0x99))] {
            #expect(
                try parsed.authenticate(stranger) == .wrongKey && parsed.authenticateSuccessor(stranger) == .wrongKey)
        }
        if kind == .compromised {
            #expect(try pending.present.successor(of: pending.sidecar) == nil)
            #expect(storeErrorCode { _ = try pending.sidecar.encoded(keys: pending.present) } == .settingsConflict)
        }
    }

    @Test(
        "whatever byte has a flipped bit, no key takes it for genuine nor for a later version",
        arguments: [RotationCase.compromised, .direct])
    func everyBit(kind: RotationCase) throws {
        let pending = try Pending(kind)
        let bytes = try pending.bytes
        // The last line is the present key's: the next key alone does not see it.
        let lastLine = try #require(UnauthenticatedSidecar.parse(bytes).seal.mac.coveredBytes as Int?)
        for position in bytes.indices {
            for bit in [position % 8, (position + 3) % 8] {
                var flipped = bytes
                flipped[position] ^= 1 << bit
                do {
                    let (byPresent, byNext) = try pending.isGenuine(UnauthenticatedSidecar.parse(flipped))
                    #expect(!byPresent && (!byNext || position >= lastLine), "byte \(position), bit \(bit)")
                } catch let error as SidecarSyntaxError {
                    #expect(!error.isAhead, "byte \(position), bit \(bit)")
                }
            }
        }
    }

    @Test(
        "no line of a rotating sidecar may be missing, come twice, stand elsewhere, or come from another version",
        arguments: RotationCase.allCases)
    func lines(kind: RotationCase) throws {
        let pending = try Pending(kind)
        func split(_ sidecar: Sidecar) throws -> [String] {
            try sidecar.encoded(keys: pending.present, next: pending.next).text.split(separator: "\n").map {
                String($0) + "\n"
            }
        }
        let lines = try split(pending.sidecar)
        let other = try split(pending.sidecar.announcingSwitch(pages: 5))
        func check(_ changed: [String], _ what: String) throws {
            if changed == lines { return }
            #expect(try pending.isGenuine(changed.joined().bytes) == (false, false), "\(what)")
        }
        for first in lines.indices {
            var changed = lines
            changed.remove(at: first)
            try check(changed, "without line \(first + 1)")
            for second in lines.indices {
                changed = lines
                changed.insert(lines[first], at: second)
                try check(changed, "line \(first + 1) again as \(second + 1)")
                changed = lines
                changed.swapAt(first, second)
                try check(changed, "lines \(first + 1) and \(second + 1) exchanged")
            }
            changed = lines
            changed[first] = other[first]
            // All but the last line is what the next key looks at.
            if first < lines.count - 1 { try check(changed, "line \(first + 1) of the next version") }
        }
    }

    @Test(
        "the pending part of another store, or of another rotation of the same one, is never taken",
        arguments: RotationCase.allCases)
    func foreignParts(kind: RotationCase) throws {
        let pending = try Pending(kind)
        let lines = try pending.bytes.text.split(separator: "\n").map { String($0) + "\n" }
        func isPending(_ line: String) -> Bool {
            line.hasPrefix("{\"record\":\"pending") || line.hasPrefix("{\"pending-mac")
        }
        for foreign in [try Pending(kind), try Pending(kind, switching: true)] {
            let others = try foreign.bytes.text.split(separator: "\n").map { String($0) + "\n" }
            guard others.count == lines.count else { continue }
            let mixed = zip(lines, others).map { isPending($0) ? $1 : $0 }
            let (byPresent, byNext) = try pending.isGenuine(mixed.joined().bytes)
            // Two rotations of one direct store to the same key: what the other one wrote is that key's own word.
            #expect(!byPresent && (!byNext || kind == .direct))
            #expect(try foreign.isGenuine(mixed.joined().bytes).present == false)
        }
    }

    @Test("a rotation that somebody with one key alone wrote is not taken up by the holder of the other")
    func oneKeyAlone() throws {
        // The present key's holder cannot make the pending code of a new key; the new key's cannot make the last line.
        for kind in [RotationCase.compromised, .direct] {
            let pending = try Pending(kind)
            let parsed = try UnauthenticatedSidecar.parse(pending.bytes)
            let body = Array(parsed.bytes[..<(try #require(parsed.seal.pending)).coveredBytes])
            let forged = body + Sidecar.pendingMacLine([UInt8](repeating: 7, count: 32))
            let byPresent =
                try forged
                + Sidecar.macLine(SidecarSeal.mac(of: forged, storeID: pending.sidecar.storeID, keys: pending.present))
            #expect(try pending.isGenuine(byPresent).next == false)
            #expect(
                try pending.isGenuine(byPresent).present == (kind == .compromised), "a dropped slot goes by its own key"
            )
            let right = Array(parsed.bytes[..<parsed.seal.mac.coveredBytes])
            let byNext = right + Sidecar.macLine([UInt8](repeating: 7, count: 32))
            #expect(try pending.isGenuine(byNext) == (false, true))
        }
    }

    @Test("numbers and lines out of their bounds are refused")
    func bounds() throws {
        let rotating = try Pending(.compromised).bytes.text
        let switching = try Pending(.compromised, switching: true).bytes.text
        func refused(_ text: String, _ part: String, _ replacement: String) throws {
            let changed = text.replacingOccurrences(of: part, with: replacement)
            #expect(changed != text)
            let error = #expect(throws: SidecarSyntaxError.self) { try UnauthenticatedSidecar.parse(changed.bytes) }
            #expect(error?.isAhead == false)
        }
        try refused(rotating, "\"pages\":0", "\"pages\":1")
        try refused(switching, "\"pages\":4294967294", "\"pages\":0")
        try refused(switching, "\"pages\":4294967294", "\"pages\":4294967295")
        try refused(switching, "\"record\":\"pending\",\"epoch\":2", "\"record\":\"pending\",\"epoch\":1")
        try refused(switching, "\"record\":\"pending\",\"epoch\":2", "\"record\":\"pending\",\"epoch\":3")
        try refused(rotating, "\"state\":\"rotating\"", "\"state\":\"ready\"")
        try refused(rotating, "\"state\":\"rotating\"", "\"state\":\"switching\"")
        try refused(rotating, "\"record\":\"pending-slot\",\"id\":1", "\"record\":\"pending-slot\",\"id\":9")
        let line = try #require(rotating.split(separator: "\n").first { $0.hasPrefix("{\"record\":\"pending-slot\"") })
        let many = (1...33).map { "\(line)\n".replacingOccurrences(of: "\"id\":1,", with: "\"id\":\($0),") }
        let wide = rotating.replacingOccurrences(of: "\"next_id\":4", with: "\"next_id\":99")
        let second = try #require(
            rotating.split(separator: "\n").last { $0.hasPrefix("{\"record\":\"pending-slot\"") })
        let rest = wide.replacingOccurrences(of: "\(second)\n", with: "")
        _ = try UnauthenticatedSidecar.parse(
            rest.replacingOccurrences(of: "\(line)\n", with: many.dropLast().joined()).bytes)
        try refused(rest, "\(line)\n", many.joined())
    }

    @Test(
        "random changes of a rotating sidecar never crash the parser, and what it accepts is canonical",
        arguments: RotationCase.allCases)
    func fuzz(kind: RotationCase) throws {
        let seed = SeededGenerator.seed()
        var generator = SeededGenerator(seed: seed)
        let original = try Pending(kind, switching: true).bytes
        let pool = Array("{}[]\",:\\ \n0123456789abcdefpendingslotkeycheckmacpages\u{0}é".utf8) + [0xff, 0x80]
        for round in 0..<3_000 {
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
            let seal = parsed.seal
            var again = parsed.claimed.body(keyCheck: seal.keyCheck, pendingKeyCheck: seal.pendingKeyCheck)
            if let pending = seal.pending { again += Sidecar.pendingMacLine(pending.value) }
            again += Sidecar.macLine(seal.mac.value)
            #expect(again == bytes, "CIPHERSTORE_SEED=\(seed), round \(round)")
        }
    }
}
