extension DatabaseWriter {
    /// Drops all tables, views, indexes and triggers with all their rows, in one transaction.
    ///
    /// Other connections may be open; their reads under way still see the rows. Key and salt stay, and the file keeps
    /// its length: later writes reuse its pages.
    ///
    /// - Throws: ``DatabaseError``; nothing is lost then.
    public func erase() throws {
        try writeWithoutTransaction { db in
            try db.withForeignKeysSuspended {
                try db.inTransaction(.immediate) {
                    try db.dropAllObjects()
                    return .commit
                }
            }
        }
    }
}

extension Database {
    /// Drops every object that is not SQLite's or the library's own, and the list of applied migrations. Inside a
    /// transaction, while foreign keys are not enforced.
    func dropAllObjects() throws {
        let objects = try SchemaObject.ofUser(self)
        // Triggers and indexes are dropped with their tables, shadow tables with their virtual tables.
        for view in objects where view.type == "view" { try drop(view) }
        for table in objects where table.isVirtual { try drop(table) }
        for table in objects where table.type == "table" && !table.isVirtual && !table.isShadow { try drop(table) }
        try execute(sql: "DROP TABLE IF EXISTS main.grdb_migrations; PRAGMA main.user_version = 0")
        try execute(sql: "PRAGMA main.application_id = 0")
    }

    private func drop(_ object: SchemaObject) throws {
        try execute(sql: "DROP \(object.type) main.\(object.name.quotedDatabaseIdentifier)")
    }
}
