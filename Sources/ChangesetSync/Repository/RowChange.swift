import CipherDatabase
import Foundation

/// The change of one row by a commit, or by several.
public struct RowChange: Hashable, Sendable {
    public enum Kind: String, Sendable {
        case inserted
        case updated
        case deleted
    }

    /// The name of the table in commits.
    public let table: String
    public let kind: Kind
    /// The values of the key, in its order.
    public let key: [DatabaseValue]
    /// The values that were written, by the first names of the columns.
    public internal(set) var values: [String: DatabaseValue]
    /// The sums that were added to counters, by the first names of the columns.
    public internal(set) var steps: [String: Int64]
}

extension RowChange {
    init(_ write: Write) {
        table = write.shape.table.text
        kind =
            switch write.shape.kind {
            case .insert: .inserted
            case .update: .updated
            case .delete: .deleted
            }
        key = write.key.values.map(\.databaseValue)
        (values, steps) = ([:], [:])
        for cell in write.copied?.cells ?? [] {
            values[cell.column.name.text] = (cell.value.values.first ?? .null).databaseValue
        }
        for (column, value) in zip(write.shape.columns, write.values.values) {
            values[column.name.text] = value.databaseValue
        }
        for (column, step) in zip(write.shape.counters, write.steps) { steps[column.name.text] = step }
    }

    /// This change and then another one of the same row; nil if nothing is left of both.
    func followed(by next: RowChange) -> RowChange? {
        switch (kind, next.kind) {
        case (.inserted, .deleted): return nil
        case (.deleted, .inserted), (.deleted, .updated):
            return RowChange(table: table, kind: .updated, key: key, values: next.values, steps: next.steps)
        case (_, .deleted), (_, .inserted): return next
        case (_, .updated):
            var both = self
            both.values.merge(next.values) { $1 }
            both.steps.merge(next.steps) { $0 &+ $1 }
            return both
        }
    }
}

extension CellValue {
    /// The value as programs read it. A text that is no UTF-8 has replacement characters.
    var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let number): number.databaseValue
        case .real(let number): number.databaseValue
        case .text(let bytes): String(decoding: bytes, as: UTF8.self).databaseValue
        case .blob(let bytes): Data(bytes).databaseValue
        }
    }
}
