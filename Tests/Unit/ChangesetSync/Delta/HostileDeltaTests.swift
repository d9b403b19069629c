import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Damaged and hostile deltas")
struct HostileDeltaTests {
    typealias F = DeltaFixture

    /// A body with one table, whose columns are named and whose session bytes are given.
    private func body(columns: [String] = ["id", "name", "score"], _ session: String) -> [UInt8] {
        let names = columns.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        return [1, 1, UInt8(columns.count)] + names + F.bytes(session)
    }

    private func code(_ bytes: [UInt8]) -> DeltaError.Code? {
        #expect(throws: DeltaError.self) { try Delta(encoded: bytes[...]) }?.code
    }

    /// The header of `t(id, name, score)` with the key `id`, then changes.
    private func code(changes: String) -> DeltaError.Code? { code(body("5403010000" + "7400" + changes)) }

    @Test("the bytes of the tests below are right in all but what they are about")
    func control() throws {
        let delta = try Delta(encoded: body("5403010000" + "7400" + "1200" + "0100000000000000010505")[...])
        #expect(delta.tables.first?.changes == [.insert(F.row(.integer(1), .null, .null))])
    }

    // MARK: Every byte

    @Test("every truncation is an error with an offset within the bytes, or has the first of the changes")
    func truncations() throws {
        let sample = try F.sample()
        let bytes = sample.encoded()
        var shorter = 0
        for count in 0..<bytes.count {
            do throws(DeltaError) {
                let delta = try Delta(encoded: bytes[..<count])
                #expect(delta.encoded() == Array(bytes[..<count]) && delta.changeCount < sample.changeCount)
                shorter += 1
            } catch {
                let offset = try #require(error.offset)
                #expect(offset >= 0 && offset <= count)
            }
        }
        // The last table has four changes. The format does not say where the last one ends; commits have a length.
        #expect(shorter == 3)
        for more in [0x00, 0x01, 0x12, 0x54, 0xff] as [UInt8] {
            #expect(throws: DeltaError.self) { try Delta(encoded: bytes[...] + [more]) }
        }
    }

    @Test("each byte with other values is an error or another delta with exactly these bytes")
    func flippedBytes() throws {
        let sample = try F.sample()
        let bytes = sample.encoded()
        var decoded = 0
        for index in bytes.indices {
            for value in F.otherValues(of: bytes[index]) {
                var changed = bytes
                changed[index] = value
                guard let delta = try? Delta(encoded: changed[...]) else { continue }
                decoded += 1
                #expect(delta != sample && delta.encoded() == changed, "byte \(index) as \(value)")
                _ = delta.inverted
                _ = try? sample.followed(by: delta)
                _ = try? delta.followed(by: sample)
            }
        }
        // Most bytes are content, so most of their values are another delta: the test sees both.
        #expect(decoded > bytes.count && decoded < bytes.count * 11)
    }

    @Test("random bytes and random edits of bytes are an error or a delta, never a trap")
    func randomBytes() throws {
        let seed = F.seed()
        var numbers = Seed(value: seed).numbers(0)
        let bytes = try F.sample().encoded()
        for _ in 0..<5000 {
            var changed = bytes
            for _ in 0..<Int.random(in: 1...4, using: &numbers) {
                let index = Int.random(in: 0..<changed.count, using: &numbers)
                switch Int.random(in: 0..<3, using: &numbers) {
                case 0: changed[index] = .random(in: .min ... .max, using: &numbers)
                case 1: changed.insert(.random(in: .min ... .max, using: &numbers), at: index)
                default: changed.remove(at: index)
                }
            }
            guard let delta = try? Delta(encoded: changed[...]) else { continue }
            #expect(delta.encoded() == changed, "CIPHERSTORE_SEED=\(seed)")
        }
    }

    // MARK: Lengths and counts

    @Test("a length beyond the bytes is refused before memory is taken", arguments: ["03", "04"])
    func lengths(storageClass: String) {
        let start = "1200" + "010000000000000001" + storageClass
        // 2^31 - 1, the greatest length that is read.
        #expect(code(changes: start + "87ffffff7f" + "05") == .truncated)
        #expect(code(changes: start + "05" + "61") == .truncated)
        // 2^31, 2^35 - 1, and the greatest lengths of nine bytes, which would be negative.
        for length in ["8880808000", "ffffffff7f", "ffffffffffffffffff", "80ffffffffffffff7f", "c080808080808080ff"] {
            #expect(code(changes: start + length + "05") == .malformedLength)
        }
        // One byte more than it takes.
        #expect(code(changes: start + "8000" + "05") == .malformedLength)
        #expect(code(changes: start + "808061" + "05") == .malformedLength)
        #expect(code(changes: start + "ff") == .truncated)
    }

    @Test("a table has 1 to 32,767 columns, and as many names")
    func columnCounts() throws {
        #expect(code(body("5400" + "7400" + "1200")) == .columnCount(0))
        #expect(code([1, 1, 0]) == .columnCount(0))
        // 32,768 and 2^31 - 1.
        #expect(code(body("54" + "828000" + "7400" + "1200")) == .columnCount(32_768))
        #expect(code([1, 1] + F.bytes("828000")) == .columnCount(32_768))
        #expect(code([1, 1] + F.bytes("87ffffff7f")) == .columnCount(Int(Int32.max)))
        #expect(
            code(body(columns: ["id", "name"], "5403010000" + "7400" + "1200" + "0100000000000000010505"))
                == .columnCount(3))
        // As many tables as can be, of which none is there.
        #expect(code([1] + F.bytes("87ffffff7f")) == .truncated)
        #expect(code([1, 5, 1, 1, 97]) == .truncated)

        let most = Limits.columns
        let table = try DeltaTable(
            name: "wide", columns: (0..<most).map { "c\($0)" },
            keyOrdinals: [1] + [UInt8](repeating: 0, count: most - 1))
        let row = DeltaRecord([.integer(1)] + [DeltaValue](repeating: .null, count: most - 1))
        let delta = try Delta([TableDelta(table: table, changes: [.insert(row)])])
        #expect(try Delta(encoded: delta.encoded()[...]) == delta)
        #expect(throws: DeltaError(.columnCount(most + 1))) {
            try DeltaTable(
                name: "wide", columns: (0...most).map { "c\($0)" },
                keyOrdinals: [1] + [UInt8](repeating: 0, count: most))
        }
    }

    // MARK: Tables

    @Test("names are not empty, not repeated, without zero bytes, and UTF-8")
    func names() {
        let row = "1200" + "0100000000000000010505"
        #expect(code(body("5403010000" + "00" + row)) == .emptyName)
        #expect(code(body(columns: ["id", "", "score"], "5403010000" + "7400" + row)) == .emptyName)
        #expect(code(body(columns: ["id", "a\0b", "score"], "5403010000" + "7400" + row)) == .nulInName)
        #expect(code(body(columns: ["id", "a", "a"], "5403010000" + "7400" + row)) == .duplicateColumn)
        // SQLite does not distinguish the case of ASCII letters.
        #expect(code(body(columns: ["id", "Name", "nAME"], "5403010000" + "7400" + row)) == .duplicateColumn)
        #expect(code(body("5403010000" + "ff00" + row)) == .notUTF8)
        #expect(code([1, 1, 1, 1, 0xc3] + F.bytes("540101" + "7400" + "1200" + "010000000000000001")) == .notUTF8)
        #expect(code(body("5403010000" + "74")) == .truncated)
        #expect(throws: DeltaError(.emptyName)) { try DeltaTable(name: "", columns: ["a"], keyOrdinals: [1]) }
        #expect(throws: DeltaError(.nulInName)) { try DeltaTable(name: "a\0", columns: ["a"], keyOrdinals: [1]) }
    }

    @Test("two spellings of a name that Swift holds equal are two names")
    func spellings() throws {
        let table = try DeltaTable(name: "t", columns: ["e\u{301}", "\u{e9}"], keyOrdinals: [1, 0])
        let other = try DeltaTable(name: "t", columns: ["\u{e9}", "e\u{301}"], keyOrdinals: [1, 0])
        #expect(table != other)
        let tables = try ["\u{e9}", "e\u{301}"].map { name in
            let table = try DeltaTable(name: name, columns: ["a"], keyOrdinals: [1])
            return try TableDelta(table: table, changes: [.insert(F.row(.integer(1)))])
        }
        let delta = try Delta(tables)
        #expect(try Delta(encoded: delta.encoded()[...]).tables.map(\.table.name.utf8.count) == [3, 2])
    }

    @Test("the columns of a primary key are numbered 1, 2, 3")
    func keyOrdinals() {
        let row = "1200" + "0100000000000000010505"
        #expect(code(body("5403000000" + "7400" + row)) == .noKey)
        for ordinals in ["020000", "010100", "010300", "00ff00", "020300"] {
            #expect(code(body("5403" + ordinals + "7400" + row)) == .keyOrdinals)
        }
        let ordinals = (1...255).map { UInt8($0) }
        let names = (1...256).map { "c\($0)" }
        #expect(throws: Never.self) { try DeltaTable(name: "t", columns: names, keyOrdinals: ordinals + [0]) }
        #expect(throws: DeltaError(.keyOrdinals)) {
            try DeltaTable(name: "t", columns: names, keyOrdinals: ordinals + [1])
        }
        #expect(throws: DeltaError(.valueCount(255, columns: 256))) {
            try DeltaTable(name: "t", columns: names, keyOrdinals: ordinals)
        }
    }

    @Test("a table comes once, with changes, in the order of the names")
    func tables() {
        let (a, b) = (
            "540101" + "6100" + "1200" + "010000000000000001", "540101" + "6200" + "1200" + "010000000000000001"
        )
        let names = F.bytes("0102" + "010178" + "010178")
        #expect(throws: Never.self) { try Delta(encoded: names + F.bytes(a + b)) }
        #expect(code(Array(names + F.bytes(b + a))) == .notCanonical)
        #expect(code(Array(names + F.bytes(a + a))) == .notCanonical)
        let upper = "540101" + "4100" + "1200" + "010000000000000001"
        #expect(code(Array(names + F.bytes(upper + a))) == .duplicateTable)
        #expect(code(Array(names + F.bytes(a))) == .truncated)
        #expect(code(Array(names + F.bytes(a + b + b))) == .trailingBytes)
        #expect(code(body("5403010000" + "7400")) == .tableWithoutChanges)
        #expect(throws: DeltaError(.duplicateTable, at: nil)) {
            let table = try TableDelta(table: F.player, changes: [.insert(F.row(.integer(1), .null, .null))])
            return try Delta([table, table])
        }
    }

    // MARK: Changes

    @Test("operations, flags and storage classes are known ones")
    func kinds() {
        #expect(code(changes: "1300" + "0100000000000000010505") == .unknownOperation(0x13))
        #expect(code(changes: "1202" + "0100000000000000010505") == .unknownFlag(2))
        #expect(code(changes: "1200" + "0100000000000000010506") == .unknownValue(6))
        #expect(code(body("5003010000" + "7400" + "1200" + "0100000000000000010505")) == .patchset)
        #expect(code([2, 0]) == .unsupportedVersion(2))
        #expect(code([0, 0]) == .unsupportedVersion(0))
        #expect(code([]) == .truncated)
        #expect(code([1, 0, 0x54]) != nil)
    }

    @Test(
        "a real that is not a number is refused: SQLite would store NULL",
        arguments: ["7ff8000000000000", "fff0000000000001"])
    func notANumber(bits: String) {
        #expect(code(changes: "1200" + "010000000000000001" + "02" + bits + "05") == .notANumber)
    }

    @Test("a row that is inserted or deleted has all values, and a key that is not NULL", arguments: ["12", "09"])
    func rows(operation: String) {
        #expect(code(changes: operation + "00" + "000505") == .keyUndefined)
        #expect(code(changes: operation + "00" + "050505") == .nullKey)
        #expect(code(changes: operation + "00" + "0100000000000000010500") == .undefinedInRow)
    }

    @Test("an update has the key once, and both values of what changed")
    func updates() {
        let (one, two) = ("010000000000000001", "010000000000000002")
        let sound = body("5403010000" + "7400" + "1700" + one + one + "00" + "00" + two + "00")
        #expect(throws: Never.self) { try Delta(encoded: sound[...]) }
        #expect(code(changes: "1700" + "00" + one + "00" + "00" + two + "00") == .keyUndefined)
        #expect(code(changes: "1700" + "05" + one + "00" + "00" + two + "00") == .nullKey)
        #expect(code(changes: "1700" + one + one + "00" + one + two + "00") == .keyInNewValues)
        #expect(code(changes: "1700" + one + one + "00" + "00" + "00" + "00") == .halfUpdatedColumn)
        #expect(code(changes: "1700" + one + "00" + "00" + "00" + two + "00") == .halfUpdatedColumn)
        #expect(code(changes: "1700" + one + one + "00" + "00" + one + "00") == .unchangedColumn)
        #expect(code(changes: "1700" + one + "0000" + "000000") == .updateWithoutChange)
    }

    @Test("rows come once, and in their order")
    func order() {
        let row = { (key: Int) in "01" + String(format: "%016x", key) + "0505" }
        let update = { (key: Int) in
            "1700" + "01" + String(format: "%016x", key) + "0500" + "00" + "0300" + "00"
        }
        #expect(throws: Never.self) {
            try Delta(
                encoded: body("5403010000" + "7400" + "0900" + row(5) + update(3) + "1200" + row(1) + "1200" + row(2))[
                    ...])
        }
        #expect(code(changes: "1200" + row(2) + "1200" + row(1)) == .notCanonical)
        #expect(code(changes: "1200" + row(1) + "0900" + row(2)) == .notCanonical)
        #expect(code(changes: update(1) + "0900" + row(2)) == .notCanonical)
        #expect(code(changes: "1200" + row(1) + update(2)) == .notCanonical)
        #expect(code(changes: "1200" + row(1) + "1200" + row(1)) == .duplicateRow)
        #expect(code(changes: "0900" + row(1) + "0900" + row(2) + "1200" + row(2)) == .duplicateRow)
        #expect(code(changes: "0900" + row(3) + update(3)) == .duplicateRow)
        #expect(code(changes: update(3) + "1200" + row(1) + "1200" + row(3)) == .duplicateRow)
    }

    @Test("a changeset of the session extension may come in any order, but no row twice")
    func sessionOrder() throws {
        let row = { (key: Int) in "01" + String(format: "%016x", key) + "0505" }
        let read = { (session: String) in
            try SessionFormat.decode(F.bytes(session)) { _, count in (0..<count).map { "c\($0)" } }
        }
        let header = "5403010000" + "7400"
        let delta = try read(header + "1200" + row(2) + "0900" + row(1) + "1200" + row(0))
        #expect(delta.tables.first?.changes.map(\.operation) == [.delete, .insert, .insert])
        #expect(throws: DeltaError.self) { try read(header + "1200" + row(2) + "0900" + row(1) + "1200" + row(2)) }
        #expect(throws: DeltaError.self) { try read(header + "1200" + row(2) + "0900" + row(2)) }
    }

    @Test("what a program makes is checked like what is read")
    func made() throws {
        let table = F.player
        let refused: [(RowChange, DeltaError.Code)] = [
            (.insert(F.row(.integer(1), .null)), .valueCount(2, columns: 3)),
            (.insert(F.row(.null, .null, .null)), .nullKey),
            (.delete(F.row(.undefined, .null, .null)), .keyUndefined),
            (.delete(F.row(.integer(1), .undefined, .null)), .undefinedInRow),
            (
                try .update(old: F.row(.integer(1), .null, .undefined), new: F.row(.undefined, .null, .undefined)),
                .unchangedColumn
            ),
        ]
        for (change, code) in refused {
            #expect(throws: DeltaError(code, at: nil)) { try TableDelta(table: table, changes: [change]) }
        }
        let row = F.row(.integer(1), .null, .null)
        #expect(throws: DeltaError(.duplicateRow, at: nil)) {
            try TableDelta(table: table, changes: [.delete(row), .insert(row)])
        }
        #expect(throws: DeltaError(.valueCount(1, columns: 3), at: nil)) {
            try RowChange.update(old: row, new: F.row(.null))
        }
        #expect(throws: DeltaError(.nullKey, at: nil)) { try table.change(from: nil, to: F.row(.null, .null, .null)) }
        #expect(throws: DeltaError(.valueCount(1, columns: 3), at: nil)) {
            try table.change(from: row, to: F.row(.integer(1)))
        }
    }

    @Test("an error names the offset and what to do, and no value of a row")
    func messages() {
        let secret = "72756262657220647563" + "6b"
        let changes = "1200" + "010000000000000001" + "030b" + secret + "06"
        let error = #expect(throws: DeltaError.self) { try Delta(encoded: body("5403010000" + "7400" + changes)[...]) }
        let text = error?.description ?? ""
        #expect(text == "delta: 6 is no storage class at offset 48. Fetch the bytes again.")
    }
}
