/// A column that cannot be read as the requested type. Names column, row and types, and the value only with
/// ``Configuration/publicStatementArguments``.
public struct RowDecodingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the column.
    public let columnName: String
    /// The position of the column in its row, counted from 0; nil when the row has no such column.
    public let columnIndex: Int?
    /// The position of the row in its result, counted from 0; nil for a copied row.
    public let rowIndex: Int?
    /// The value of the column; nil if the row has no such column.
    public let storageClass: StorageClass?
    /// The requested type.
    public let typeName: String

    /// The table that the record belongs to; nil for values that were not read into a record.
    public let tableName: String?
    /// The declared type of the column, as in `VARCHAR(20)`; nil when there is none.
    public let declaredType: String?
    /// The place in a JSON text that cannot be read, as in `address.lines[2]`; empty for the text as a whole. nil where
    /// no JSON is read. Keys of dictionaries are data: they are written as `*`.
    public let jsonPath: String?
    /// The value, only with ``Configuration/publicStatementArguments``; nil otherwise, and for rows kept apart from
    /// their result.
    public let value: DatabaseValue?

    @usableFromInline
    init(
        column: String, index: Int?, found: DatabaseValue?, row: Int?, wanted: Any.Type, table: String? = nil,
        declaredType: String? = nil, jsonPath: String? = nil, showsValue: Bool = false
    ) {
        tableName = table
        self.jsonPath = jsonPath
        value = showsValue ? found : nil
        self.declaredType = declaredType
        columnName = column
        columnIndex = index
        rowIndex = row
        storageClass = found?.storageClass
        typeName = String(describing: wanted)
    }

    public var description: String {
        var text = "could not read a value of type \(typeName) from column \(String(reflecting: columnName))"
        if let columnIndex { text += " (at index \(columnIndex))" }
        if let declaredType { text += " declared \(declaredType)" }
        if let tableName { text += " of table \(String(reflecting: tableName))" }
        if let rowIndex { text += " of row \(rowIndex)" }
        switch storageClass {
        case nil: return text + ", which the row does not have"
        case .null: return text + ", which holds NULL"
        case let storageClass?: text += ", which holds a value of class \(storageClass)"
        }
        if let jsonPath {
            text += " that is not the JSON of this type"
            if !jsonPath.isEmpty { text += " (at \(jsonPath))" }
        }
        if let value { text += ": \(value.summary)" }
        return text
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

extension Row {
    /// The error of a column that cannot be read.
    ///
    /// - Parameters:
    ///   - name: The name of the column, for one that the row does not have.
    ///   - index: The position of the column; nil when the row does not have it.
    ///   - table: The table of the record; nil for a value that is not read into a record.
    ///   - jsonPath: The place in the JSON text of the column; nil for other columns.
    package func decodingError(
        column name: String, at index: Int?, wanted: Any.Type, table: String? = nil, jsonPath: String? = nil
    ) -> RowDecodingError {
        let index = index.flatMap { $0 >= 0 && $0 < count ? $0 : nil }
        return RowDecodingError(
            column: index.map { columnNames[$0] } ?? name, index: index, found: index.map { databaseValue(at: $0) },
            row: running?.rowIndex, wanted: wanted, table: table,
            declaredType: index.flatMap { declaredType(at: $0) },
            jsonPath: jsonPath,
            showsValue: running?.statement.database.configuration.publicStatementArguments ?? false)
    }

    private func declaredType(at index: Int) -> String? {
        let types = unadapted.columns.declaredTypes
        let index = adaptation?.layout.columns[index].index ?? index
        return types.indices.contains(index) ? types[index] : nil
    }
}
