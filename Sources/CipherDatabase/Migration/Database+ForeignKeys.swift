extension Database {
    /// Checks the foreign keys of all tables.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_CONSTRAINT_FOREIGNKEY` that names tables and counts rows, without values.
    /// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_foreign_key_check>
    public func checkForeignKeys() throws {
        try throwViolations(from: "pragma_foreign_key_check", arguments: [])
    }

    /// Checks the foreign keys of one table.
    ///
    /// - Parameters:
    ///   - tableName: The table that refers to others.
    ///   - schemaName: `main` or `temp`; nil takes the first that has the table.
    /// - Throws: ``DatabaseError`` `.SQLITE_CONSTRAINT_FOREIGNKEY` that names tables and counts rows, without values.
    public func checkForeignKeys(in tableName: String, in schemaName: String? = nil) throws {
        if let schemaName {
            try throwViolations(from: "pragma_foreign_key_check(?, ?)", arguments: [tableName, schemaName])
        } else {
            try throwViolations(from: "pragma_foreign_key_check(?)", arguments: [tableName])
        }
    }

    private func throwViolations(from source: String, arguments: StatementArguments) throws {
        let rows = try Row.fetchAll(
            self,
            sql: """
                SELECT "table", parent, COUNT(*) FROM \(source) GROUP BY "table", parent, fkid ORDER BY "table", parent
                """,
            arguments: arguments)
        guard !rows.isEmpty else { return }
        let violations = rows.map { row -> String in
            let (table, parent, count): (String, String, Int) = (row[0], row[1], row[2])
            return "\(count) \(count == 1 ? "row" : "rows") of table \(table) without a row of \(parent)"
        }
        throw DatabaseError(
            resultCode: .SQLITE_CONSTRAINT_FOREIGNKEY,
            message: "FOREIGN KEY constraint failed: " + violations.joined(separator: ", "))
    }

    /// Whether the connection enforces foreign keys now.
    func enforcesForeignKeys() throws -> Bool { try Bool.fetchOne(self, sql: "PRAGMA foreign_keys") ?? false }

    /// Runs a block while foreign keys are not enforced. Outside of transactions only.
    func withForeignKeysSuspended<T>(_ block: () throws -> T) throws -> T {
        guard try enforcesForeignKeys() else { return try block() }
        handle.setForeignKeys(false)
        // Not by SQL, which fails where an access is interrupted or cancelled.
        defer { handle.setForeignKeys(true) }
        return try block()
    }
}
