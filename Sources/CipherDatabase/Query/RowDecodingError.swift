/// A column that cannot be read as the requested type. Names column, row and types, never the value.
public struct RowDecodingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the column.
    public let columnName: String
    /// The position of the column in its row, counted from 0; nil when the row has no such column.
    public let columnIndex: Int?
    /// The position of the row in its result, counted from 0; nil for a copied row.
    public let rowIndex: Int?
    /// What the column holds; nil when the row has no such column.
    public let storageClass: StorageClass?
    /// The requested type.
    public let typeName: String

    @usableFromInline
    init(column: String, index: Int?, found: DatabaseValue?, row: Int?, wanted: Any.Type) {
        columnName = column
        columnIndex = index
        rowIndex = row
        storageClass = found?.storageClass
        typeName = String(describing: wanted)
    }

    public var description: String {
        var text = "could not read a value of type \(typeName) from column \(String(reflecting: columnName))"
        if let columnIndex { text += " (at index \(columnIndex))" }
        if let rowIndex { text += " of row \(rowIndex)" }
        return switch storageClass {
        case nil: text + ", which the row does not have"
        case .null: text + ", which holds NULL"
        case let storageClass?: text + ", which holds a value of class \(storageClass)"
        }
    }
}

extension DatabaseValue {
    /// The storage class of the value.
    public var storageClass: StorageClass {
        switch storage {
        case .null: .null
        case .int64: .integer
        case .double: .real
        case .string: .text
        case .blob: .blob
        }
    }
}
