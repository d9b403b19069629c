import CipherDatabase

/// The triggers that a connection has for the capture, as they were made for one state of the schema.
final class CaptureSession {
    let capture = Capture()
    private var installed: Installation?
    /// Whether the connection has the function that the triggers call.
    private var hasFunction = false
    /// Whether the capture has made `REPLACE` fire triggers.
    private var madeRecursive = false
    /// Whether the block of a commit has rolled its transaction back.
    private var isRolledBack = false

    private struct Installation: Equatable {
        let schemaVersion: Int32
        let temporaryVersion: Int32
        /// The names of the tracked tables.
        let tables: [Int64: String]
        /// Whether a `REPLACE` fires delete triggers.
        let firesDeletions: Bool
        /// How often the connection has ended that: it may be as before again.
        let ends: Int

        init(_ db: Database, _ tables: [Int64: String]) throws {
            schemaVersion = try db.schemaVersion()
            temporaryVersion = try Int32.fetchOne(db.cachedStatement(sql: "PRAGMA temp.schema_version")) ?? 0
            self.tables = tables
            firesDeletions = try Bool.fetchOne(db.cachedStatement(sql: "PRAGMA recursive_triggers")) ?? false
            ends = db.recursiveTriggersEnds
        }
    }

    // MARK: Capturing

    /// Runs a block of the program. Inside a transaction of the engine.
    ///
    /// - Returns: The value of the block, and the rows of tracked tables that it has changed.
    /// - Throws: The error of the block; ``EngineError`` `.captureDisabled`, `.schemaChangedInCommit`,
    ///   `.transactionEndedInCommit`, `.temporaryTrigger`.
    func capturing<T>(
        _ db: Database, _ catalog: Catalog, _ body: () throws -> T
    ) throws -> (value: T, changes: CapturedChanges) {
        try install(db, catalog)
        capture.begin(catalog)
        defer {
            capture.end()
            if isRolledBack { db.features.want(.willRun, false, for: Self.key) }
            isRolledBack = false
        }
        let value: T
        do {
            value = try db.refusingCommits(body)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_COMMITHOOK {
            throw EngineError(.transactionEndedInCommit)
        }
        if isRolledBack || !db.isInsideTransaction { throw EngineError(.transactionEndedInCommit) }
        try requireIntact(db, catalog)
        return (value, capture.changes(db))
    }

    // MARK: Triggers

    /// Makes the triggers, where they are not there as the schema requires. A rollback removes them, and the next commit
    /// makes them again.
    private func install(_ db: Database, _ catalog: Catalog) throws {
        let tables = catalog.tables.compactMapValues(\.local)
        let names = tables.mapValues(\.name)
        if let installed, try installed == Installation(db, names) { return }
        try db.withoutWatching {
            if !hasFunction {
                let capture = self.capture
                try db.addLentFunction(Capture.function) { try capture.take($0) }
                hasFunction = true
            }
            // A number that a rollback takes back may come again with other triggers.
            installed = nil
            db.afterNextTransaction(onCommit: { _ in }, onRollback: { [weak self] _ in self?.installed = nil })
            try refuseTriggersOfProgram(db, names)
            let fires = try firesDeletions(db)
            try dropAll(db)
            for (n, table) in tables {
                let conditions = fires ? [] : try TableFacts.replacementConditions(of: table.name, in: db)
                for trigger in CaptureTriggers(n: n, table: table, replacements: conditions).all {
                    try db.execute(sql: trigger.sql)
                }
            }
        }
        installed = try Installation(db, names)
    }

    private func dropAll(_ db: Database) throws {
        for name in try triggers(db) { try db.execute(sql: "DROP TRIGGER temp.\(name.quotedDatabaseIdentifier)") }
    }

    private func triggers(_ db: Database) throws -> [String] {
        try String.fetchAll(
            db, sql: "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB ?",
            arguments: [CaptureTriggers.prefix + "*"])
    }

    /// Makes `REPLACE` fire delete triggers, where no trigger of the program would fire with them.
    private func firesDeletions(_ db: Database) throws -> Bool {
        let others = try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB ?1)
                    OR EXISTS (SELECT 1 FROM temp.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB ?1)
                """,
            arguments: ["cipherstore_*"])
        let isOn = try Bool.fetchOne(db, sql: "PRAGMA recursive_triggers") ?? false
        if others == true, isOn, madeRecursive {
            madeRecursive = false
            try db.execute(sql: "PRAGMA recursive_triggers = OFF")
            return false
        }
        if isOn || others == true { return isOn }
        try db.execute(sql: "PRAGMA recursive_triggers = ON")
        madeRecursive = true
        return true
    }

    /// A temporary trigger of the program may fire before those of the capture, and change the row.
    private func refuseTriggersOfProgram(_ db: Database, _ tables: [Int64: String]) throws {
        let names = try String.fetchAll(
            db,
            sql: "SELECT tbl_name FROM temp.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB 'cipherstore_*'")
        for name in names {
            // A temporary table hides one of the main database.
            guard let table = tables.values.first(where: { $0.lowercased() == name.lowercased() }),
                try !db.tableExists(name, in: "temp")
            else { continue }
            throw EngineError(.temporaryTrigger, table)
        }
    }

    // MARK: After the block

    private func requireIntact(_ db: Database, _ catalog: Catalog) throws {
        guard let installed else { throw EngineError(.schemaChangedInCommit) }
        let present = try Installation(db, installed.tables)
        if present == installed { return }
        if installed.firesDeletions, !present.firesDeletions || present.ends != installed.ends {
            throw EngineError(.captureDisabled)
        }
        try refuseTriggersOfProgram(db, installed.tables)
        let names = Set(try triggers(db))
        for (n, table) in catalog.tables.compactMapValues(\.local) {
            let wanted = CaptureTriggers(n: n, table: table, replacements: []).all.map(\.name)
            guard names.isSuperset(of: wanted), let now = try TableDefinition(named: table.name, in: db),
                now.isSame(as: table)
            else { throw EngineError(.schemaChangedInCommit, table.name) }
        }
    }

    /// Drops the triggers before a table is altered: SQLite refuses to drop a column that one of them names, and to alter
    /// any table while one of them names what another connection has dropped. The next commit makes them again. A commit
    /// that is under way needs them.
    private func makeWay(_ db: Database, forAltering name: String, dropsColumn: Bool) throws {
        if capture.isActive {
            guard dropsColumn, let table = capture.table(named: name) else { return }
            throw EngineError(.schemaChangedInCommit, table)
        }
        guard hasFunction else { return }
        installed = nil
        try db.withoutWatching { try dropAll(db) }
    }
}

extension TableDefinition {
    /// Whether rows and keys are read in the same way.
    fileprivate func isSame(as other: TableDefinition) -> Bool {
        name == other.name && columns == other.columns && keyColumns == other.keyColumns && isRowID == other.isRowID
            && uniqueKeys == other.uniqueKeys
    }
}

extension CaptureSession: ConnectionFeature {
    static let key = FeatureKey<CaptureSession>(.sync)

    func willChangeSchema(_ statement: Statement, on db: Database) throws {
        guard db.acceptsWrites, let (name, dropsColumn) = statement.alteredTable else { return }
        try makeWay(db, forAltering: name, dropsColumn: dropsColumn)
    }

    /// Drops the triggers, where a statement does not compile because of them: another connection has dropped or renamed a
    /// column that they name. They are made again when they are needed.
    func didNotCompile(because message: String, on db: Database) -> Bool {
        // They must stay while they capture.
        guard hasFunction, !capture.isActive, message.hasPrefix("no such column") else { return false }
        let names = db.runWithoutAccess(
            "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB '\(CaptureTriggers.prefix)*'")
        for name in names { _ = db.runWithoutAccess("DROP TRIGGER temp.\(name.quotedDatabaseIdentifier)") }
        db.forgetSchema()
        installed = nil
        return !names.isEmpty
    }

    func transactionDidEnd(isCommit: Bool, on db: Database) {
        if isCommit || !capture.isActive { return }
        isRolledBack = true
        db.features.want(.willRun, for: Self.key)
    }

    /// Refuses what would be written without a commit, after the block of one has rolled its transaction back.
    func willRun(_ statement: Statement, on db: Database) throws {
        if isRolledBack { throw EngineError(.transactionEndedInCommit) }
    }

    func willClose(_ db: Database) { db.features[Self.key] = nil }
}

extension Database {
    /// The capture of this connection.
    var captureSession: CaptureSession {
        if let session = features[CaptureSession.key] { return session }
        let session = CaptureSession()
        features.add(session, for: CaptureSession.key, at: [.willChangeSchema, .didNotCompile, .close])
        want(.didRollBack, for: CaptureSession.key)
        return session
    }
}
