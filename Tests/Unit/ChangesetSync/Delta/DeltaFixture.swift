import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// Keys/vectors/changesets.json, which Keys/generators/make_changesets.py wrote with SQLite's session extension.
struct ChangesetVectors: Decodable, Sendable {
    struct Session: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        /// The rows of each table as encoded records: before, between and after the changesets.
        var states: [[String: [String]]]
        var changesets: [String]
        var canonical: [String]
        var inverted: [String]
        var composed: String
        var testDescription: String { name }
    }

    struct Encoded: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var bytes: String
        var key: String?
        var id: String?
        var testDescription: String { name }
    }

    var sessions: [Session]
    var deltas: [Encoded]
    var commits: [Encoded]

    static let all: ChangesetVectors = {
        let file = DeltaFixture.root.appending(path: "Keys/vectors/changesets.json")
        return try! JSONDecoder().decode(ChangesetVectors.self, from: Data(contentsOf: file))
    }()

    static let columns = [
        "player": ["id", "name", "score"], "Pair": ["a", "b \"quoted\"", "c", "d"], "Größe": ["x", "y", "z"],
        "apart": ["v", "k1", "w", "k2"],
    ]

    /// Reads a changeset of the extension; the columns have the names of the tables of the generator.
    static func delta(_ hex: String) throws -> Delta {
        try SessionFormat.decode(DeltaFixture.bytes(hex)) { name, _ in columns[name] ?? [] }
    }
}

/// What the tests of deltas and commits share.
enum DeltaFixture {
    /// Tests/Unit/ChangesetSync/Delta/DeltaFixture.swift is five levels below the root.
    static let root = (0..<5).reduce(URL(filePath: #filePath).resolvingSymlinksInPath()) { url, _ in
        url.deletingLastPathComponent()
    }

    static func bytes(_ hex: String) -> ArraySlice<UInt8> {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).map { index in
            UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16)!
        }[...]
    }

    static func hex(_ bytes: some Sequence<UInt8>) -> String { bytes.map { String(format: "%02x", $0) }.joined() }

    /// The byte with each of its bits flipped, and other values at the ends of the range and beside it.
    static func otherValues(of byte: UInt8) -> Set<UInt8> {
        Set((0..<8).map { byte ^ 1 << $0 } + [0, 0xff, 0x7f, 0x80, byte &+ 1, byte &- 1]).subtracting([byte])
    }

    static let player = try! DeltaTable(name: "player", columns: ["id", "name", "score"], keyOrdinals: [1, 0, 0])

    static func row(_ values: DeltaValue...) -> DeltaRecord { DeltaRecord(values) }

    /// A delta of the table ``player``.
    static func delta(_ changes: RowChange...) throws -> Delta {
        try Delta([TableDelta(table: player, changes: changes)])
    }

    /// A delta with every operation, every storage class and two tables.
    static func sample() throws -> Delta {
        let pair = try DeltaTable(name: "Größe", columns: ["a", "b", "c"], keyOrdinals: [2, 0, 1])
        return try Delta([
            TableDelta(
                table: player,
                changes: [
                    .delete(row(.integer(7), .string("seven"), .real(0.5))),
                    .update(
                        old: row(.integer(1), .undefined, .integer(10)),
                        new: row(.undefined, .undefined, .blob([1, 2, 3])), indirect: true),
                    .insert(row(.integer(-3), .string("Zoë"), .null)),
                    .insert(row(.integer(9), .text([0xff, 0]), .blob([]))),
                ]),
            TableDelta(
                table: pair,
                changes: [.insert(row(.string("k"), .text(Array(repeating: 97, count: 130)[...]), .real(1)))]),
        ])
    }

    /// The seed of `CIPHERSTORE_SEED`, or a random one; the test prints it when it fails.
    static func seed() -> UInt64 {
        ProcessInfo.processInfo.environment["CIPHERSTORE_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)
    }
}

/// Rows of tables in plain Swift, changed by deltas.
struct RowModel: Hashable {
    struct Misfit: Error {}

    /// By the bytes of the table's name: Swift holds two spellings of one character equal.
    var rows: [[UInt8]: [[DeltaValue]: [DeltaValue]]] = [:]

    /// Does what a delta says, and throws where a row is not as the delta expects.
    func applying(_ delta: Delta) throws -> RowModel {
        var result = self
        for table in delta.tables { try result.apply(table) }
        result.rows = result.rows.filter { !$0.value.isEmpty }
        return result
    }

    private mutating func apply(_ delta: TableDelta) throws {
        var rows = rows[Array(delta.table.name.utf8)] ?? [:]
        for change in delta.changes {
            let (old, new) = (change.old?.values, change.new?.values)
            let values = try #require(old ?? new)
            let key = delta.table.keyColumns.map { values[$0] }
            let present = rows[key]
            switch change.operation {
            case .insert:
                guard present == nil else { throw Misfit() }
                rows[key] = new
            case .delete:
                guard present != nil, present == old else { throw Misfit() }
                rows[key] = nil
            case .update:
                guard var present, let old, let new else { throw Misfit() }
                for column in old.indices where old[column] != .undefined {
                    guard present[column] == old[column] else { throw Misfit() }
                    if new[column] != .undefined { present[column] = new[column] }
                }
                rows[key] = present
            }
        }
        self.rows[Array(delta.table.name.utf8)] = rows
    }
}

/// Random schemas, rows and deltas that a seed repeats.
struct DeltaWorld {
    var numbers: RandomNumbers
    var tables: [DeltaTable] = []

    init(seed: UInt64) throws {
        numbers = Seed(value: seed).numbers(0)
        let names = ["player", "Player's \"team\"", "Größe", "e\u{301}", "\u{e9}", "z"].shuffled(using: &numbers)
        for name in names.prefix(Int.random(in: 1...4, using: &numbers)) {
            let count = Int.random(in: 1...6, using: &numbers)
            let keys = (0..<count).shuffled(using: &numbers).prefix(Int.random(in: 1...count, using: &numbers))
            var ordinals = [UInt8](repeating: 0, count: count)
            for (ordinal, column) in keys.enumerated() { ordinals[column] = UInt8(ordinal + 1) }
            tables.append(
                try DeltaTable(name: name, columns: (0..<count).map { "column \($0)" }, keyOrdinals: ordinals))
        }
    }

    mutating func value() -> DeltaValue {
        switch Int.random(in: 0..<8, using: &numbers) {
        case 0: .null
        case 1: .integer([0, 1, -1, .max, .min].randomElement(using: &numbers) ?? 0)
        case 2: .integer(.random(in: -5...5, using: &numbers))
        case 3:
            .real(
                [0, -0.0, 1, .infinity, -.greatestFiniteMagnitude, .leastNonzeroMagnitude].randomElement(
                    using: &numbers) ?? 0)
        case 4: .string(["", "a", "Ω", "e\u{301}", "\u{e9}"].randomElement(using: &numbers) ?? "")
        case 5: .text([0xff, 0x00, 0x80])
        case 6: .blob([])
        default: .blob(Array(repeating: 7, count: Int.random(in: 0..<300, using: &numbers))[...])
        }
    }

    mutating func row(_ table: DeltaTable) -> [DeltaValue] {
        table.keyOrdinals.map { ordinal in
            if ordinal == 0 { return value() }
            let key = Int64.random(in: 0..<4, using: &numbers)
            return [.integer(key), .real(Double(key)), .string("\(key)")].randomElement(using: &numbers)
                ?? .integer(key)
        }
    }

    /// Another state: some rows are deleted, changed or added.
    mutating func edited(_ state: RowModel) -> RowModel {
        var state = state
        for table in tables {
            var rows = state.rows[Array(table.name.utf8)] ?? [:]
            for _ in 0..<Int.random(in: 0..<12, using: &numbers) {
                let row = row(table)
                rows[table.keyColumns.map { row[$0] }] = row
            }
            let keys = rows.keys.sorted { "\($0)" < "\($1)" }
            for key in keys.shuffled(using: &numbers).prefix(keys.count / 3) { rows[key] = nil }
            for key in keys.shuffled(using: &numbers).prefix(2) {
                guard let column = table.keyOrdinals.firstIndex(of: 0) else { continue }
                let value = value()
                rows[key]?[column] = value
            }
            state.rows[Array(table.name.utf8)] = rows.isEmpty ? nil : rows
        }
        return state
    }

    /// The exact difference, made row by row in any order.
    mutating func delta(from old: RowModel, to new: RowModel) throws -> Delta {
        let found = try tables.map { table in
            let (before, after) = (old.rows[Array(table.name.utf8)] ?? [:], new.rows[Array(table.name.utf8)] ?? [:])
            let changes = try Set(before.keys).union(after.keys).compactMap { key in
                try table.change(from: before[key].map { DeltaRecord($0) }, to: after[key].map { DeltaRecord($0) })
            }
            return try TableDelta(table: table, changes: changes.shuffled(using: &numbers))
        }
        return try Delta(found.shuffled(using: &numbers))
    }
}
