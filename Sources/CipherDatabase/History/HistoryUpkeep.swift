import Foundation

/// The findings and repairs of a check of the triggers.
struct HistoryRepairs: Equatable {
    /// The tables whose triggers had been dropped.
    var tables: [String] = []
    /// The tables that can no longer be recorded, each with the reason.
    var lost: [String] = []
    /// The things that were made again: the tables of the history itself had been dropped.
    var rebuilding: Rebuilding?

    struct Rebuilding: Equatable {
        /// The tables that are recorded again.
        var tables: [String] = []
        /// Whether the settings were lost too.
        let hasDefaultSettings: Bool
    }
}

/// Keeps the triggers of the history fitting to the tables: they are compared with what the tables require, and made
/// again where they differ. If changes may be missing, the table gets a row that says so.
struct HistoryUpkeep {
    let db: Database
    /// Whether a statement of this connection has just changed the schema. Otherwise the present triggers may have been
    /// wrong for a while.
    let followsOwnStatement: Bool
    private(set) var repairs = HistoryRepairs()

    init(_ db: Database, followsOwnStatement: Bool) {
        self.db = db
        self.followsOwnStatement = followsOwnStatement
    }

    // MARK: The comparison

    /// The triggers of the history as the schema describes them.
    private struct Triggers {
        var sql: [String: String] = [:]
        /// Their rows in the schema.
        var places: [String: Int64] = [:]
        var tables: Set<String> = []
        /// Whether another trigger of the table was created after one of these, so that it runs before.
        var areNewest = true
    }

    /// Whether all is as it should be. It only reads.
    func isInOrder() throws -> Bool {
        let missing = try db.missingHistoryTables()
        if !missing.isEmpty {
            // Statements of this library drop none of them: here an import creates one after the other.
            return try followsOwnStatement || missing.count == HistoryTables.all.count && triggers().isEmpty
        }
        guard let catalog = try db.historyCatalog() else { return true }
        let directory = try TableDirectory(db)
        for entry in try recordings(catalog) {
            if !entry.others.isEmpty { return false }
            let (table, found) = (entry.table, entry.found)
            guard let name = entry.name, let facts = try? TableFacts(of: name, in: db, directory) else {
                if table.state == .recording { return false }
                continue
            }
            let definition = Self.definition(facts, like: table.definition)
            guard table.state == .recording, facts.name == table.name, definition == table.definition,
                found.areNewest, found.sql == Self.expectedTriggers(table.id, facts, definition)
            else { return false }
        }
        guard try db.historyState()?.settings.recordsAllTables == true else { return true }
        return try !unrecordedTables(catalog).contains { (try? TableFacts(of: $0, in: db, directory)) != nil }
    }

    /// Repairs what differs. Inside a transaction.
    mutating func run() throws {
        if try !db.missingHistoryTables().isEmpty { return try rebuild() }
        guard let catalog = try db.historyCatalog() else { return }
        let directory = try TableDirectory(db)
        for entry in try recordings(catalog) { try check(entry, directory) }
        guard let settings = try db.historyState()?.settings, settings.recordsAllTables else { return }
        var begun: [(TableFacts, RecordedTable.Definition)] = []
        for name in try unrecordedTables(try db.historyCatalog() ?? catalog) {
            // A table that cannot be recorded stays out.
            guard let facts = try? TableFacts(of: name, in: db, directory) else { continue }
            let kept = settings.kept(of: name)
            begun.append((facts, Self.definition(facts, notesColumns: settings.notesColumns, kept: kept)))
        }
        try beginOrLose(begun)
    }

    private mutating func check(_ entry: Recording, _ directory: TableDirectory) throws {
        let (table, found) = (entry.table, entry.found)
        for other in entry.others {
            try dropTriggers([other.found])
            try db.setHistoryTable(other.table.id, .retired)
            let hasName = other.table.name.lowercasedASCII == entry.name?.lowercasedASCII
            if !hasName && other.table.state == .recording { try db.recordReset(of: other.table.id) }
        }
        guard let name = entry.name, let facts = try readable(name, table, directory) else {
            guard table.state == .recording else { return }
            try db.setHistoryTable(table.id, .waiting)
            return try db.recordReset(of: table.id)
        }
        let joined = entry.others.reduce(Self.definition(facts, like: table.definition)) { definition, other in
            definition.joined(with: Self.definition(facts, like: other.table.definition))
        }
        let definition = Self.definition(facts, like: joined)
        guard table.state == .recording, facts.name == table.name, definition == table.definition else {
            try dropTriggers([found])
            try db.setHistoryTable(table.id, .retired)
            if facts.name != table.name && table.state == .recording { try db.recordReset(of: table.id) }
            return try beginOrLose([(facts, definition)])
        }
        let expected = Self.expectedTriggers(table.id, facts, definition)
        if found.sql == expected && found.areNewest { return }
        // The table was made again, or somebody dropped triggers.
        let isGap = !Set(found.sql.keys).isSuperset(of: HistoryTriggers.essential(table.id))
        if isGap && !followsOwnStatement { repairs.tables.append(table.name) }
        try dropTriggers([found])
        do {
            try create([(table.id, facts, definition)])
        } catch let error as HistoryError {
            return try lose(table.id, error)
        }
        if isGap || (!followsOwnStatement && found.sql != expected) { try db.recordReset(of: table.id) }
    }

    private mutating func readable(
        _ name: String, _ table: RecordedTable, _ directory: TableDirectory
    ) throws -> TableFacts? {
        do {
            return try TableFacts(of: name, in: db, directory)
        } catch let error as HistoryError {
            if table.state == .recording { repairs.lost.append(error.message) }
            return nil
        }
    }

    private mutating func beginOrLose(_ tables: [(TableFacts, RecordedTable.Definition)]) throws {
        do {
            try begin(tables)
        } catch is HistoryError {
            // Rolled back as a whole: one after the other, all but the unsuitable ones begin.
            for table in tables {
                do {
                    try begin([table])
                } catch let error as HistoryError {
                    repairs.lost.append(error.message)
                }
            }
        }
    }

    private mutating func lose(_ id: Int64, _ error: HistoryError) throws {
        repairs.lost.append(error.message)
        try db.setHistoryTable(id, .retired)
        try db.recordReset(of: id)
    }

    // MARK: Lost tables

    /// Makes a new history where another program has dropped tables of it: the triggers that are left make every write
    /// fail. The recorded changes are given up, since numbers of changes and of authors would be used again.
    private mutating func rebuild() throws {
        let settings = (try? db.historyState())?.settings
        let readers = (try? db.historyReaderNames()) ?? []
        let tables = try tablesToRecord()
        try dropTriggers(triggers().values.map(\.self))
        for (name, _) in HistoryTables.all { try db.execute(sql: "DROP TABLE IF EXISTS main.\(name)") }
        try db.createHistory()
        if let settings { try db.store(settings) }
        for name in readers {
            try db.addExpiredHistoryReader(name, because: "another program has dropped the history")
        }
        repairs.rebuilding = HistoryRepairs.Rebuilding(hasDefaultSettings: settings == nil)
        var begun: [(TableFacts, RecordedTable.Definition)] = []
        let directory = try TableDirectory(db)
        for (name, former) in tables {
            guard let facts = try? TableFacts(of: name, in: db, directory) else { continue }
            let plain = Self.definition(facts, notesColumns: false, kept: [])
            begun.append((facts, former.map { Self.definition(facts, like: $0) } ?? plain))
            repairs.rebuilding?.tables.append(facts.name)
        }
        try beginOrLose(begun)
    }

    /// The present names of the tables that were recorded, with the definitions as far as they are known.
    private func tablesToRecord() throws -> [(String, RecordedTable.Definition?)] {
        let triggers = try triggers()
        var tables: [String: (String, RecordedTable.Definition?)] = [:]
        for name in triggers.values.flatMap(\.tables) { tables[name.lowercasedASCII] = (name, nil) }
        for table in ((try? db.recordedTableRows()) ?? []).compactMap(\.self) where table.state != .retired {
            let name = triggers[table.id]?.tables.min() ?? table.name
            tables[name.lowercasedASCII] = (name, table.definition)
        }
        return tables.sorted { $0.key < $1.key }.map(\.value)
    }

    // MARK: What is there

    /// A table of the program with what is stored of its recording. A table may have two, for example after it was
    /// renamed to the name of a recorded one that was dropped. One continues, and records what both asked for; the other
    /// ends.
    private struct Recording {
        /// The present name of the table; nil where it is gone.
        let name: String?
        let table: RecordedTable
        let found: Triggers
        var others: [(table: RecordedTable, found: Triggers)] = []
    }

    private func recordings(_ catalog: HistoryCatalog) throws -> [Recording] {
        let triggers = try triggers()
        var recordings: [Recording] = []
        var places: [String: Int] = [:]
        // Those with triggers first: they have recorded the table under whatever name it had.
        let active = catalog.active.map { ($0, triggers[$0.id] ?? Triggers()) }
        for (table, found) in active.filter({ !$1.tables.isEmpty }) + active.filter({ $1.tables.isEmpty }) {
            let name = found.tables.min() ?? existing(table.name)
            if let name, let place = places[name.lowercasedASCII] {
                recordings[place].others.append((table, found))
            } else {
                if let name { places[name.lowercasedASCII] = recordings.count }
                recordings.append(Recording(name: name, table: table, found: found))
            }
        }
        return recordings
    }

    private func triggers() throws -> [Int64: Triggers] {
        var all: [Int64: Triggers] = [:]
        /// The first trigger of the history of each table, by its place in the schema.
        var first: [String: (place: Int64, id: Int64)] = [:]
        var last: [String: Int64] = [:]
        let rows = try Row.fetchAll(
            db, sql: "SELECT rowid, name, tbl_name, sql FROM main.sqlite_schema WHERE type = 'trigger' ORDER BY rowid")
        for row in rows {
            let (place, name, table, sql): (Int64, String, String, String?) = (row[0], row[1], row[2], row[3])
            guard let id = HistoryTriggerPlaces.tableNumber(ofTrigger: name) else {
                last[table] = place
                continue
            }
            all[id, default: Triggers()].sql[name] = sql ?? ""
            all[id, default: Triggers()].places[name] = place
            all[id, default: Triggers()].tables.insert(table)
            if first[table] == nil { first[table] = (place, id) }
        }
        for (table, entry) in first where last[table].map({ $0 > entry.place }) == true {
            all[entry.id]?.areNewest = false
        }
        return all
    }

    private func existing(_ name: String) -> String? { (try? db.tableExists(name, in: "main")) == true ? name : nil }

    private func unrecordedTables(_ catalog: HistoryCatalog) throws -> [String] {
        let known = Set(catalog.active.map(\.name.lowercasedASCII))
        return try ProgramTables(db).names.filter { !known.contains($0.lowercasedASCII) }
    }

    // MARK: Recording

    /// - Parameter pausing: Whether commits write the changes of the table, as far as they know all that is recorded:
    ///   generated columns are in no commit.
    static func definition(
        _ facts: TableFacts, notesColumns: Bool, kept: [String], pausing: Bool = false
    ) -> RecordedTable.Definition {
        var columns: [String] = []
        for name in kept {
            let column = facts.columns.first { $0.name.lowercasedASCII == name.lowercasedASCII }?.name
            if let column, !columns.contains(column) { columns.append(column) }
        }
        var definition = RecordedTable.Definition(
            key: facts.key, isRowID: facts.isRowID, columns: facts.columns.map(\.name), notesColumns: notesColumns,
            kept: columns)
        let generated = facts.columns.filter(\.isGenerated).map(\.name)
        definition.pausesInCommits = pausing && !generated.contains { notesColumns || columns.contains($0) }
        return definition
    }

    /// The recording of a table as it is now, if it was recorded with a definition before.
    static func definition(
        _ facts: TableFacts, like former: RecordedTable.Definition
    ) -> RecordedTable.Definition {
        let names = Set(facts.columns.map { $0.name.lowercasedASCII })
        let kept = former.kept.map { name in
            // A column that was renamed is at the same place.
            guard !names.contains(name.lowercasedASCII), former.columns.count == facts.columns.count,
                let place = former.columns.firstIndex(of: name)
            else { return name }
            return facts.columns[place].name
        }
        return definition(facts, notesColumns: former.notesColumns, kept: kept, pausing: former.pausesInCommits)
    }

    /// The triggers of a table as the schema describes them, by their names.
    static func expectedTriggers(
        _ id: Int64, _ facts: TableFacts, _ definition: RecordedTable.Definition
    ) -> [String: String] {
        let all = HistoryTriggers(id: id, facts: facts, definition: definition).all
        // SQLite stores the text without the name of the schema.
        return Dictionary(
            all.map { ($0.name, "CREATE TRIGGER " + $0.definition) }, uniquingKeysWith: { first, _ in first })
    }

    /// Begins to record tables. Inside a transaction.
    ///
    /// - Throws: ``HistoryError`` `.unsuitableTable` where triggers cannot work; ``DatabaseError``. None has begun then.
    func begin(_ tables: [(facts: TableFacts, definition: RecordedTable.Definition)]) throws {
        if tables.isEmpty { return }
        try db.inSavepoint {
            var created: [(Int64, TableFacts, RecordedTable.Definition)] = []
            for (facts, definition) in tables {
                try db.widenHistory(for: facts.name, definition)
                created.append((try db.addHistoryTable(facts.name, definition), facts, definition))
            }
            for (id, _, _) in created { try db.recordReset(of: id) }
            // Last: SQLite reads the whole schema again before it compiles another statement.
            try create(created)
            return .commit
        }
    }

    /// Makes the triggers of tables pause in commits, where they did not and can. Nothing is missing, so there is no
    /// reset.
    func pauseInCommits(_ tables: [RecordedTable]) throws {
        var paused: [RecordedTable] = []
        var wanted: [(TableFacts, RecordedTable.Definition)] = []
        let directory = try TableDirectory(db)
        for table in tables {
            guard let facts = try TableFacts(of: table.name, in: db, directory) else { continue }
            var pausing = table.definition
            pausing.pausesInCommits = true
            let definition = Self.definition(facts, like: pausing)
            // If the table has changed meanwhile, the next opening makes the triggers again, and says that changes are
            // missing.
            guard definition == pausing else { continue }
            paused.append(table)
            wanted.append((facts, definition))
        }
        try dropTriggers(of: paused)
        for table in paused { try db.setHistoryTable(table.id, .retired) }
        try create(wanted.map { (try db.addHistoryTable($0.name, $1), $0, $1) })
    }

    /// Ends the recording of tables. Inside a transaction.
    ///
    /// - Parameter places: The places of the triggers in the schema, where they were read.
    func end(_ tables: [RecordedTable], _ places: HistoryTriggerPlaces? = nil) throws {
        if tables.isEmpty { return }
        for table in tables {
            try db.setHistoryTable(table.id, .retired)
            if table.state == .recording { try db.recordReset(of: table.id) }
        }
        // Last: SQLite reads the whole schema again before it compiles another statement.
        try HistoryTriggerRows(db: db).drop((places ?? HistoryTriggerPlaces(db)).triggers(of: tables.map(\.id)))
    }

    private func create(_ tables: [(id: Int64, facts: TableFacts, definition: RecordedTable.Definition)]) throws {
        try db.inSavepoint {
            let triggers = tables.flatMap { id, facts, definition in
                HistoryTriggers(id: id, facts: facts, definition: definition).all.map {
                    HistoryTriggerRows.New(
                        name: $0.name, table: facts.name, definition: $0.definition,
                        isPlain: facts.hasPlainTriggers)
                }
            }
            let areFew = try HistoryTriggerRows(db: db).create(triggers)
            // A trigger that does not compile would make every write of the table fail.
            for (id, facts, _) in tables where areFew || !facts.hasPlainTriggers {
                for statement in TriggerCheck(facts).statements {
                    do {
                        _ = try db.makeStatement(sql: statement)
                    } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                        guard try compilesWithoutTriggers(statement, id) else { continue }
                        throw HistoryError.unsuitable(
                            facts.name,
                            because: "its triggers do not compile here (\(error.message ?? "no message"))",
                            instead: "A program that has every function and collation of the table can record it.")
                    }
                }
            }
            return .commit
        }
    }

    /// Whether a statement compiles without the triggers of a table, which are there again after that.
    private func compilesWithoutTriggers(_ statement: String, _ id: Int64) throws -> Bool {
        var compiles = false
        try db.inSavepoint {
            try dropTriggers([triggers()[id]].compactMap(\.self))
            compiles = (try? db.makeStatement(sql: statement)) != nil
            return .rollback
        }
        return compiles
    }

    func dropTriggers(of tables: [RecordedTable]) throws {
        if tables.isEmpty { return }
        try HistoryTriggerRows(db: db).drop(HistoryTriggerPlaces(db).triggers(of: tables.map(\.id)))
    }

    /// Rows without a primary key may have other rowids now.
    func noteVacuum() throws {
        for table in try db.historyCatalog()?.recording ?? [] {
            let columns = table.definition.columns.map(\.lowercasedASCII)
            guard table.definition.isRowID, !table.definition.key.allSatisfy({ columns.contains($0.lowercasedASCII) })
            else { continue }
            try db.recordReset(of: table.id)
        }
    }

    private func dropTriggers(_ found: [Triggers]) throws {
        try HistoryTriggerRows(db: db).drop(
            found.flatMap { $0.places.sorted { $0.value < $1.value }.map { (name: $0.key, place: $0.value) } })
    }
}

/// Statements that fire every trigger of a table. They are compiled only.
private struct TriggerCheck {
    let statements: [String]

    init(_ facts: TableFacts) {
        let table = "main." + facts.name.quotedDatabaseIdentifier
        var names = facts.columns.filter { !$0.isGenerated }.map(\.name)
        if let rowID = facts.rowIDName { names.append(rowID) }
        let settings = names.map(\.quotedDatabaseIdentifier).map { "\($0) = \($0)" }
        statements = [
            "INSERT INTO \(table) DEFAULT VALUES", "DELETE FROM \(table)",
            "UPDATE \(table) SET \(settings.joined(separator: ", "))",
        ]
    }
}

extension RecordedTable.Definition {
    /// The same, with what another definition of the same table is to record besides.
    fileprivate func joined(with other: Self) -> Self {
        var joined = self
        joined.notesColumns = notesColumns || other.notesColumns
        joined.kept += other.kept.filter { !kept.contains($0) }
        joined.pausesInCommits = pausesInCommits || other.pausesInCommits
        return joined
    }
}

extension HistoryTriggers {
    /// The names of the triggers without which changes are missing, whatever the indexes of the table are.
    static func essential(_ id: Int64) -> Set<String> {
        Set(["insert", "update", "rekey", "delete"].map { RecordedTable.triggerPrefix(id) + $0 })
    }
}

// MARK: - The tables of the history

extension Database {
    fileprivate func setHistoryTable(_ id: Int64, _ state: RecordedTable.State) throws {
        try cachedStatement(sql: "UPDATE main.\(HistoryTables.table) SET state = ? WHERE id = ?")
            .execute(arguments: [state.rawValue, id])
        schemaCache.history = nil
    }

    fileprivate func addHistoryTable(_ name: String, _ definition: RecordedTable.Definition) throws -> Int64 {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let text = String(decoding: try encoder.encode(definition), as: UTF8.self)
        defer { schemaCache.history = nil }
        let statement = try cachedStatement(
            sql: "INSERT INTO main.\(HistoryTables.table) (name, state, definition) VALUES (?, ?, ?) RETURNING id")
        let id = try Int64.fetchOne(
            statement, arguments: [name, RecordedTable.State.recording.rawValue, text])
        guard let id else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return id
    }

    /// Notes that changes of a table may be missing.
    func recordReset(of id: Int64) throws {
        try cachedStatement(
            sql: "INSERT INTO main.\(HistoryTables.history) (kind, origin) VALUES (?, \(HistoryTriggers.stamp))"
        ).execute(arguments: [id * 8 + HistoryOperation.reset.rawValue])
    }

    /// Adds the columns that wider keys and more kept values need.
    ///
    /// - Throws: ``HistoryError`` `.unsuitableTable` where the history would have more columns than SQLite admits.
    fileprivate func widenHistory(for table: String, _ definition: RecordedTable.Definition) throws {
        let (keys, kept) = (definition.key.count, definition.kept.count)
        let names = Set(try columns(in: HistoryTables.history, in: "main").map(\.name))
        let wanted = (1...max(1, keys)).map { "key\($0)" } + (1...(kept + 1)).dropLast().map { "old\($0)" }
        let added = wanted.filter { !names.contains($0) }
        guard names.count + added.count <= DatabaseLimits.tableColumns else {
            func count(_ prefix: String) -> Int { names.union(added).count { $0.hasPrefix(prefix) } }
            throw HistoryError.tooWide(table, keys: count("key"), kept: count("old"))
        }
        for name in added { try execute(sql: "ALTER TABLE main.\(HistoryTables.history) ADD COLUMN \(name)") }
    }

    /// Makes the tables of the history where there are none. Inside a transaction.
    func createHistory() throws {
        if try missingHistoryTables().isEmpty { return }
        try execute(sql: HistoryTables.creation)
        let identity = (0..<4).map { _ in String(UInt32.random(in: 0...UInt32.max), radix: 36) }.joined()
        try execute(
            sql: """
                INSERT INTO main.\(HistoryTables.state) (id, history, purged, print, settings) VALUES (1, ?, 0, 0, ?)
                """,
            arguments: [identity, try HistorySettings().text()])
    }

    func store(_ settings: HistorySettings) throws {
        try execute(sql: "UPDATE main.\(HistoryTables.state) SET settings = ?", arguments: [settings.text()])
    }
}

extension HistorySettings {
    fileprivate func text() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}
