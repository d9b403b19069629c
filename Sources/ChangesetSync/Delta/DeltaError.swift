import StorePlatform

/// Why a delta cannot be read, made or composed. It never contains a value of a row.
package struct DeltaError: Error, Hashable, Sendable {
    package enum Code: Hashable, Sendable {
        // Bytes that no delta has.
        case truncated
        case trailingBytes
        case unsupportedVersion(UInt8)
        case patchset
        case unknownOperation(UInt8)
        case unknownFlag(UInt8)
        case unknownValue(UInt8)
        case malformedLength
        case notANumber
        case notUTF8
        case notCanonical

        // Tables that SQLite cannot have.
        case emptyName
        case nulInName
        case columnCount(Int)
        case duplicateColumn
        case duplicateTable
        case noKey
        case keyOrdinals
        case tableWithoutChanges

        // Changes that no transaction makes.
        case valueCount(Int, columns: Int)
        case keyUndefined
        case nullKey
        case keyInNewValues
        case undefinedInRow
        case halfUpdatedColumn
        case unchangedColumn
        case updateWithoutChange
        case duplicateRow

        // Deltas that do not follow each other.
        case otherTable
        case rowExists
        case rowMissing
        case rowDiffers
    }

    package let code: Code
    /// The offset in the bytes that were read; nil where the delta was made by the program or composed.
    package let offset: Int?
    /// The name of the table that two deltas disagree about.
    package let table: String?

    init(_ code: Code, at offset: Int? = nil, table: String? = nil) {
        self.code = code
        self.offset = offset
        self.table = table
    }

    /// The same error with its offset counted from another place; nil forgets the offset.
    func counted(from start: Int?) -> DeltaError {
        DeltaError(code, at: start.flatMap { start in offset.map { $0 - start } }, table: table)
    }

    /// The value and the index after it, of an integer of variable length.
    @inline(__always)
    static func length(_ reading: Varint.Reading, at index: Int) throws(DeltaError) -> (value: Int, end: Int) {
        switch reading {
        case .value(let value, let end): return (value, end)
        case .truncated: throw DeltaError(.truncated, at: index)
        case .refused: throw DeltaError(.malformedLength, at: index)
        }
    }
}

extension DeltaError: CustomStringConvertible {
    package var description: String {
        let place = offset.map { " at offset \($0)" } ?? ""
        let subject = table.map { " of table \"\($0)\"" } ?? ""
        return "delta\(subject): \(code.reason)\(place). \(code.remedy)"
    }
}

extension DeltaError.Code {
    fileprivate var reason: String {
        switch self {
        case .truncated: "the bytes end in the middle of a value"
        case .trailingBytes: "bytes follow its end"
        case .unsupportedVersion(let version): "it has version \(version)"
        case .patchset: "it is a patchset, which has no old values"
        case .unknownOperation(let byte): "\(byte) is no operation"
        case .unknownFlag(let byte): "the indirect flag is \(byte) instead of 0 or 1"
        case .unknownValue(let byte): "\(byte) is no storage class"
        case .malformedLength: "a length is too large or not in its shortest form"
        case .notANumber: "a real is not a number, which SQLite cannot store"
        case .notUTF8: "a name is not UTF-8"
        case .notCanonical: "tables or rows are not in their order"
        case .emptyName: "a name is empty"
        case .nulInName: "a name contains a zero byte"
        case .columnCount(let count): "a table has \(CountText.text(count, "column"))"
        case .duplicateColumn: "two columns have the same name"
        case .duplicateTable: "two tables have the same name"
        case .noKey: "a table has no primary key"
        case .keyOrdinals: "the columns of a primary key are not numbered 1, 2, 3 and so on"
        case .tableWithoutChanges: "a table has no changes"
        case .valueCount(let count, let columns):
            "a row has \(CountText.text(count, "value")) for \(CountText.text(columns, "column"))"
        case .keyUndefined: "a key is undefined"
        case .nullKey: "a key is NULL"
        case .keyInNewValues: "an update has a new key"
        case .undefinedInRow: "a row that is inserted or deleted has an undefined value"
        case .halfUpdatedColumn: "an update has only the old or only the new value of a column"
        case .unchangedColumn: "an update has the same old and new value of a column"
        case .updateWithoutChange: "an update changes nothing"
        case .duplicateRow: "a row is changed twice"
        case .otherTable: "its columns or its primary key differ from those of the delta before it"
        case .rowExists: "a row is inserted that the delta before it left in the table"
        case .rowMissing: "a row is changed that the delta before it deleted"
        case .rowDiffers: "the old values of a row are not those that the delta before it left"
        }
    }

    fileprivate var remedy: String {
        switch self {
        case .unsupportedVersion: "Update this program."
        case .patchset: "Make a changeset."
        case .columnCount: "1 to \(Limits.columns) are supported."
        case .noKey: "Give the table a primary key."
        case .nullKey: "Declare the key NOT NULL."
        case .otherTable, .rowExists, .rowMissing, .rowDiffers: "Compose deltas that follow each other in one history."
        case .valueCount, .keyUndefined, .keyInNewValues, .undefinedInRow, .halfUpdatedColumn, .unchangedColumn,
            .updateWithoutChange, .duplicateRow, .duplicateColumn, .duplicateTable, .emptyName, .nulInName,
            .keyOrdinals, .tableWithoutChanges:
            "Make the delta from the rows of the table again."
        case .truncated, .trailingBytes, .unknownOperation, .unknownFlag, .unknownValue, .malformedLength, .notANumber,
            .notUTF8, .notCanonical:
            "Fetch the bytes again."
        }
    }
}
