import CipherDatabase

/// A row that refers to a row that does not exist.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_foreign_key_check>
public struct ForeignKeyViolation: Hashable, Sendable {
    /// The referring table.
    public var originTable: String
    /// The referring row; nil in tables without rowids.
    public var originRowID: Int64?
    /// The referenced table.
    public var destinationTable: String
    /// Which foreign key of the table it is; see `ForeignKeyInfo.id`.
    public var foreignKeyId: Int

    /// - Parameter row: A row of `PRAGMA foreign_key_check`.
    public init(row: Row) {
        originTable = row[0]
        originRowID = row[1]
        destinationTable = row[2]
        foreignKeyId = row[3]
    }

    /// The tables, columns and values that do not fit, as in `FOREIGN KEY constraint violation - from book(authorId) to
    /// author(id), in [id:1 authorId:2]`. Values are data: keep it out of log files.
    public func failureDescription(_ db: Database) throws -> String {
        let row = try originRowID.flatMap { rowID in
            try Row.fetchOne(
                db, sql: "SELECT * FROM \(originTable.quotedDatabaseIdentifier) WHERE rowid = ?", arguments: [rowID])
        }
        return try constraintDescription(db) + (row.map { ", in \($0)" } ?? place)
    }

    /// The violation as an error of the code `SQLITE_CONSTRAINT_FOREIGNKEY`.
    ///
    /// Its message names tables, columns and rowid, and the values of the row only with
    /// `Configuration.publicStatementArguments`.
    public func databaseError(_ db: Database) -> DatabaseError {
        let showsValues = db.configuration.publicStatementArguments
        let message = try? showsValues ? failureDescription(db) : constraintDescription(db) + place
        return DatabaseError(resultCode: .SQLITE_CONSTRAINT_FOREIGNKEY, message: message ?? description)
    }

    private func constraintDescription(_ db: Database) throws -> String {
        guard let key = try db.foreignKeys(on: originTable).first(where: { $0.id == foreignKeyId }) else {
            return "FOREIGN KEY constraint violation - from \(originTable) to \(destinationTable)"
        }
        let origin = "\(originTable)(\(key.originColumns.joined(separator: ", ")))"
        let destination = "\(destinationTable)(\(key.destinationColumns.joined(separator: ", ")))"
        return "FOREIGN KEY constraint violation - from \(origin) to \(destination)"
    }

    private var place: String { originRowID.map { ", in rowid \($0)" } ?? "" }
}

extension ForeignKeyViolation: CustomStringConvertible {
    /// The tables and the rowid, without values.
    public var description: String {
        "FOREIGN KEY constraint violation - from \(originTable) to \(destinationTable)\(place)"
    }
}
