import CipherDatabase

/// The temporary triggers that report the rows of one table to the ``Capture``: a pure function of its definition.
struct CaptureTriggers {
    let table: TrackedTable
    /// The number of the table among those that are tracked.
    let index: Int
    /// What a `REPLACE` may remove, as conditions; empty where SQLite fires delete triggers for it.
    let replacements: [String]

    /// For triggers that look for rows. The others need no condition: the function returns at once outside of a commit, and
    /// one call takes less than two.
    private var when: String { "WHEN \(Capture.function)()" }
    private var key: [Int] { table.table.keyColumns }

    /// Names and definitions.
    var all: [(name: String, sql: String)] {
        var triggers = [
            ("update", "BEFORE UPDATE ON \(table.qualifiedName) \(when) BEGIN \(beforeUpdate) END"),
            ("delete", "BEFORE DELETE ON \(table.qualifiedName) BEGIN \(row("OLD")); END"),
            ("insert", "AFTER INSERT ON \(table.qualifiedName) BEGIN \(newKey); END"),
        ]
        if key.contains(where: { table.columns[$0].defaultCell != [Cell.null] }) {
            // A key that is set to NULL may become the default instead, which only a trigger after the update sees.
            let condition = "WHEN NOT (\(keyIsSame("NEW", "OLD")))"
            triggers.append(("key", "AFTER UPDATE ON \(table.qualifiedName) \(condition) BEGIN \(newKey); END"))
        }
        if !replacements.isEmpty {
            triggers.append(("replace", "BEFORE INSERT ON \(table.qualifiedName) \(when) BEGIN \(lookups) END"))
        }
        return triggers.map { kind, body in
            let name = Self.prefix + "\(index)_\(kind)"
            return (name, "CREATE TEMP TRIGGER \(name.quotedDatabaseIdentifier) \(body)")
        }
    }

    static let prefix = SyncTables.prefix + "capture_"

    private var beforeUpdate: String {
        // An action of a self-referencing foreign key runs before triggers that fire after the update. Where no row has
        // the new key now, the row that has it later is one of this transaction. A row whose key is equal to the new one
        // but has other bytes may stay, where the update is refused: it is reported as it is.
        let alias = "taken"
        let equal = "\(table.qualifiedName) AS \(alias) WHERE \(table.keyEquals(alias, "NEW"))"
        let (isMoved, isExact) = ("NOT (\(keyIsSame("NEW", "OLD")))", keyIsSame(alias, "NEW"))
        let moved = "\(newKey) WHERE \(isMoved) AND NOT EXISTS (SELECT 1 FROM \(equal) AND \(isExact));"
        let neighbour = "\(row(alias, from: "\(equal) AND \(isMoved) AND NOT (\(isExact))"));"
        return "\(row("OLD")); \(lookups) \(neighbour) \(moved)"
    }

    /// The rows that a `REPLACE` would remove.
    private var lookups: String {
        let name = table.name.quotedDatabaseIdentifier
        return replacements.map { "\(row(name, from: "\(table.qualifiedName) AS \(name) WHERE \($0)"));" }
            .joined(separator: " ")
    }

    private func call(_ report: Capture.Report, from start: Int, _ values: some Sequence<String>) -> String {
        let arguments = [String(index), String(report.rawValue), String(start)] + values
        return "\(Capture.function)(\(arguments.joined(separator: ", ")))"
    }

    /// Reports a whole row, in as many calls as its columns need, from left to right.
    private func row(_ name: String, from source: String? = nil) -> String {
        let columns = table.table.columns.indices.map { "\(name).\(table.quoted($0))" }
        let calls = stride(from: 0, to: columns.count, by: Capture.valuesOfCall).map { start in
            call(.row, from: start, columns[start..<min(start + Capture.valuesOfCall, columns.count)])
        }
        return "SELECT \(calls.joined(separator: ", "))" + (source.map { " FROM \($0)" } ?? "")
    }

    private var newKey: String { "SELECT \(call(.key, from: 0, key.map { "NEW.\(table.quoted($0))" }))" }

    /// Whether two rows have the same key: the same bytes in the same storage class, whatever the collation says.
    private func keyIsSame(_ left: String, _ right: String) -> String {
        key.map { column in
            let (left, right) = ("\(left).\(table.quoted(column))", "\(right).\(table.quoted(column))")
            return "\(left) COLLATE BINARY IS \(right) COLLATE BINARY AND typeof(\(left)) = typeof(\(right))"
        }.joinedAsExpression(by: " AND ")
    }
}

/// The triggers of a connection, as they were made for one state of the schema.
struct CaptureInstallation: Equatable {
    let schemaVersion: Int32
    let temporaryVersion: Int32
    let revision: Int64
    /// Whether a `REPLACE` fires delete triggers.
    let firesDeletions: Bool
    /// How often the connection has ended that: it may be as before again.
    let ends: Int

    private init(_ db: Database, revision: Int64) throws {
        schemaVersion = try db.schemaVersion()
        temporaryVersion = try Int32.fetchOne(db.cachedStatement(sql: "PRAGMA temp.schema_version")) ?? 0
        self.revision = revision
        firesDeletions =
            try Bool.fetchOne(db.cachedStatement(sql: "PRAGMA recursive_triggers")) ?? false
        ends = db.recursiveTriggersEnds
    }

    /// Makes the triggers of the capture, where they are not there as the schema requires. Inside a transaction: a
    /// rollback removes them, and the next commit makes them again.
    ///
    /// - Throws: ``SyncError`` `.applicationTemporaryTrigger`; `DatabaseError`.
    static func ensure(_ db: Database, _ session: SyncSession, _ tables: TrackedTables, revision: Int64) throws {
        if let installed = session.installed, try installed == CaptureInstallation(db, revision: revision) { return }
        try db.withoutWatching {
            if !session.hasFunction {
                let capture = session.capture
                try db.addLentFunction(Capture.function) { try capture.take($0) }
                session.hasFunction = true
            }
            // A number that a rollback takes back may come again with other triggers.
            session.installed = nil
            db.afterNextTransaction(onCommit: { _ in }, onRollback: { _ in session.installed = nil })
            try refuseTriggersOfProgram(db, tables)
            let replaces = try firesDeletions(db)
            try dropAll(db)
            for (index, table) in tables.all.enumerated() {
                let conditions = replaces ? [] : try TableFacts.replacementConditions(of: table.name, in: db)
                for trigger in CaptureTriggers(table: table, index: index, replacements: conditions).all {
                    try db.execute(sql: trigger.sql)
                }
            }
        }
        session.installed = try CaptureInstallation(db, revision: revision)
    }

    private static func dropAll(_ db: Database) throws {
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB ?",
            arguments: [CaptureTriggers.prefix + "*"])
        for name in names { try db.execute(sql: "DROP TRIGGER temp.\(name.quotedDatabaseIdentifier)") }
    }

    /// Drops the triggers before a table is altered: SQLite refuses to drop a column that one of them names, and to alter
    /// any table while one of them names what another connection has dropped. The next commit makes them again. A commit
    /// that is under way needs them.
    ///
    /// - Throws: ``SyncError`` `.schemaChangedInCommit`; `DatabaseError`.
    static func makeWay(
        _ db: Database, _ session: SyncSession, forAltering name: String, dropsColumn: Bool
    ) throws {
        if session.capture.isActive {
            guard dropsColumn, let table = session.capture.table(named: name) else { return }
            throw SyncError(.schemaChangedInCommit, table: table)
        }
        guard session.hasFunction else { return }
        session.installed = nil
        try db.withoutWatching { try dropAll(db) }
    }

    /// Makes `REPLACE` fire delete triggers, where no trigger of the program would fire with them.
    private static func firesDeletions(_ db: Database) throws -> Bool {
        let others = try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB ?1)
                    OR EXISTS (SELECT 1 FROM temp.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB ?1)
                """,
            arguments: ["cipherstore_*"])
        let isOn = try Bool.fetchOne(db, sql: "PRAGMA recursive_triggers") ?? false
        if isOn || others == true { return isOn }
        try db.execute(sql: "PRAGMA recursive_triggers = ON")
        return true
    }

    private static func refuseTriggersOfProgram(_ db: Database, _ tables: TrackedTables) throws {
        let names = try String.fetchAll(
            db,
            sql: "SELECT tbl_name FROM temp.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB 'cipherstore_*'")
        for name in names {
            // A temporary table hides one of the main database.
            guard let table = tables[name], try !db.tableExists(name, in: "temp") else { continue }
            throw SyncError(.applicationTemporaryTrigger, table: table.name)
        }
    }

    /// Throws where the triggers were made for a `REPLACE` that fires them, and it does not any more.
    ///
    /// - Throws: ``SyncError`` `.captureDisabled`
    static func requireFiring(_ db: Database, _ session: SyncSession) throws {
        guard let installed = session.installed, installed.firesDeletions else { return }
        let present = try CaptureInstallation(db, revision: installed.revision)
        guard present.firesDeletions, present.ends == installed.ends else {
            throw SyncError(.captureDisabled)
        }
    }

    /// Throws unless the tables have their triggers.
    static func requireTriggers(_ db: Database, _ tables: TrackedTables) throws {
        try refuseTriggersOfProgram(db, tables)
        let names = Set(
            try String.fetchAll(
                db, sql: "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB ?",
                arguments: [CaptureTriggers.prefix + "*"]))
        for (index, table) in tables.all.enumerated() {
            let wanted = CaptureTriggers(table: table, index: index, replacements: []).all.map(\.name)
            guard names.isSuperset(of: wanted) else { throw SyncError(.schemaChangedInCommit, table: table.name) }
        }
    }

    /// Whether the triggers are still those that were made.
    static func isIntact(_ db: Database, _ session: SyncSession) throws -> Bool {
        guard let installed = session.installed else { return false }
        return try installed == CaptureInstallation(db, revision: installed.revision)
    }
}
