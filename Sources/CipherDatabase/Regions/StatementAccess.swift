import Synchronization

/// The report of SQLite to the authorizer while it compiles a statement: the statement's reads, and the changes it may
/// cause by itself, by triggers and by the actions of foreign keys.
final class AccessRecord {
    /// Columns that are read, by table; nil for those of which no column was named.
    private(set) var reads: [String: Set<String>?] = [:]
    /// Tables that are read by a view or a trigger.
    private(set) var indirectReads: Set<String> = []
    private(set) var kinds: [DatabaseEventKind] = []
    /// Tables that are dropped, renamed or altered.
    private(set) var redefined: Set<String> = []
    /// Whether reads are recorded.
    let includesReads: Bool
    /// Whether the statement could not be compiled, so that nothing is known of it.
    var hasFailed = false

    init(includesReads: Bool) { self.includesReads = includesReads }

    func noteRead(_ table: String, _ column: String, isIndirect: Bool) {
        if isIndirect { indirectReads.insert(table) }
        if column.isEmpty {
            reads.updateValue(nil, forKey: table)
        } else if let known = reads[table] {
            if var columns = known, columns.insert(column).inserted { reads.updateValue(columns, forKey: table) }
        } else {
            reads[table] = [column]
        }
    }

    func noteRedefinition(of table: String) { redefined.insert(table) }

    func noteChange(_ kind: DatabaseEventKind) {
        guard case .update(let table, let columns) = kind else {
            if !kinds.contains(kind) { kinds.append(kind) }
            return
        }
        for (index, known) in kinds.enumerated() {
            guard case .update(table, let knownColumns) = known else { continue }
            kinds[index] = .update(tableName: table, columnNames: knownColumns.union(columns))
            return
        }
        kinds.append(kind)
    }

    var region: DatabaseRegion {
        reads.reduce(into: DatabaseRegion()) { region, read in
            region.formUnion(
                read.value.map { DatabaseRegion(table: read.key, columns: $0) } ?? DatabaseRegion(table: read.key))
        }
    }
}

/// The known accesses of one statement.
struct StatementAccess {
    /// The report of its compilation; nil if nothing was recorded then, or only a part.
    var record: AccessRecord?
    /// Its reads, by the names of the schema.
    var region: DatabaseRegion?
    /// The part of the region that its present arguments leave.
    var narrowedRegion: DatabaseRegion?
    /// Whether the text has the word `replace`; nil while nobody has asked.
    var namesReplace: Bool?
    /// How often SQLite had compiled the statement again when the region was found.
    var recompilationCount: CInt = 0
    /// The number of the recording in which it ran last.
    var recording = 0
    /// Whether the region, and not only a narrowed one, is part of that recording.
    var isRecorded = false
}

/// The observable part of the region that was recorded last: most fetches of an observation read the same each time.
struct ObservableReads {
    let region: DatabaseRegion
    let observable: DatabaseRegion
    /// Whether the region was recorded again since, by statements that SQLite has not compiled again.
    var isCurrent = false
}

/// The reads of an access since a recording began.
struct RecordedReads {
    /// Tells it from all other recordings.
    let number: Int
    var region = DatabaseRegion()
    /// The statements that have run, each once.
    fileprivate var statements: [Statement] = []
    /// Whether a part of the region was found by the schema since the recording began.
    fileprivate var isNew = false

    private static let latest = Atomic<Int>(0)

    init() { number = Self.latest.add(1, ordering: .relaxed).newValue }
}

extension Statement {
    /// The reads of the statement. Functions of the program that read in other ways are not known to SQLite.
    ///
    /// It is found when it is first asked for, by compiling the SQL text once more. Where that fails it is the whole
    /// database; for pragmas it is empty.
    public var databaseRegion: DatabaseRegion {
        if let narrowed = access.narrowedRegion { return narrowed }
        if let region = access.region, access.recompilationCount == handle.recompilationCount { return region }
        let record = record(withReads: true)
        let region = record.hasFailed ? nil : try? database.canonicalRegion(of: record.region)
        access.region = region
        access.isRecorded = false
        database.features[StatementWatch.key]?.recordedReads?.isNew = true
        return region ?? .fullDatabase
    }

    /// Whether SQLite has not compiled the statement again since the region was found.
    fileprivate var isRegionCurrent: Bool {
        access.region != nil && access.recompilationCount == handle.recompilationCount
    }

    /// Which changes of rows the statement may cause.
    public var databaseEventKinds: [DatabaseEventKind] { record(withReads: false).kinds }

    /// Whether a table is read by a view or a trigger too.
    package func readsIndirectly(_ table: String) -> Bool {
        record(withReads: true).indirectReads.contains { $0.lowercasedASCII == table.lowercasedASCII }
    }

    /// Restricts the region to rows for as long as the statement has its present arguments.
    ///
    /// - Parameter region: Nil for no restriction.
    package func narrowRegion(to region: DatabaseRegion?) { access.narrowedRegion = region }

    func record(withReads: Bool) -> AccessRecord {
        let isCurrent = access.recompilationCount == handle.recompilationCount
        if let record = access.record, isCurrent, record.includesReads || !withReads { return record }
        let record = database.recordAccesses(of: sql, withReads: withReads)
        access.record = record
        access.region = nil
        access.recompilationCount = handle.recompilationCount
        return record
    }
}

// MARK: - Recording

extension Database {
    /// Compiles a statement once more and returns what SQLite reports of it.
    fileprivate func recordAccesses(of sql: String, withReads: Bool) -> AccessRecord {
        let record = AccessRecord(includesReads: withReads)
        // Many pragmas have their effect when they are compiled.
        guard !isClosed, CipherPragma.leadingPragma(of: sql) == nil else { return record }
        let outer = hooks.record
        hooks.record = record
        defer { hooks.record = outer }
        let effects = hooks.effects
        let (code, statement, _) = sql.withCString { prepare($0, persistent: false, recording: false) }
        hooks.effects = effects
        if code == .SQLITE_OK, let statement {
            gated { StatementHandle(statement).finalize() }
        } else {
            record.hasFailed = true
        }
        return record
    }

    /// A region with its tables named as they were created; names that are of no table or view are left out: those of
    /// common table expressions and of functions that return rows.
    func canonicalRegion(of region: DatabaseRegion) throws -> DatabaseRegion {
        try withoutWatching {
            try region.compactMapTables { name in
                if let table = try nameOfTable(name) ?? Self.nameOfSchemaTable(name) { return table }
                return try viewExists(name) ? name : nil
            }.coveringGeneratedColumns(self)
        }
    }

    /// The generated columns of the tables of a name, in lower case.
    fileprivate func generatedColumns(of table: String) throws -> Set<String> {
        try withoutWatching {
            try compareSchema()
            let wanted = table.lowercasedASCII
            if let known = schemaCache.generatedColumns[wanted] { return known }
            var found: Set<String> = []
            for schemaID in try schemaIDs(named: nil) {
                // A virtual table has no pages, and its module may be missing.
                let stored = try stored("table", DatabaseObjectID(schemaID: schemaID, name: wanted))
                guard let stored, stored.hasPages else { continue }
                let names = try String.fetchAll(
                    self, sql: "SELECT name FROM pragma_table_xinfo(?, ?) WHERE hidden IN (2, 3)",
                    arguments: [stored.name, schemaID.name])
                found.formUnion(names.map(\.lowercasedASCII))
            }
            if schemaCache.generatedColumns.count >= 1_000 { schemaCache.generatedColumns = [:] }
            schemaCache.generatedColumns[wanted] = found
            return found
        }
    }

    /// The name of a table as it was created; nil where there is no such table.
    package func nameOfTable(_ name: String) throws -> String? {
        try withoutWatching {
            try compareSchema()
            let wanted = name.lowercasedASCII
            if let known = schemaCache.tableNames[wanted] { return known }
            let found = try findNameOfTable(wanted)
            // Programs that make up names would otherwise fill it without limit.
            if schemaCache.tableNames.count >= 1_000 { schemaCache.tableNames = [:] }
            schemaCache.tableNames.updateValue(found, forKey: wanted)
            return found
        }
    }

    private func findNameOfTable(_ wanted: String) throws -> String? {
        guard try tableExists(wanted) else { return nil }
        for schemaID in try schemaIDs(named: nil) {
            let found = try stored("table", DatabaseObjectID(schemaID: schemaID, name: wanted))
            if let found { return found.name }
        }
        return nil
    }

    /// Whether a name is that of the table that describes a schema.
    package static func isSchemaTable(_ name: String) -> Bool { nameOfSchemaTable(name) != nil }

    /// The name that SQLite reports for the table that describes a schema, whichever of its names is given; nil for
    /// other tables. https://www.sqlite.org/schematab.html
    package static func nameOfSchemaTable(_ name: String) -> String? {
        switch name.lowercasedASCII {
        case "sqlite_master", "sqlite_schema": "sqlite_master"
        case "sqlite_temp_master", "sqlite_temp_schema": "sqlite_temp_master"
        default: nil
        }
    }

    // MARK: What an access reads

    /// Whether what the access reads is recorded at the moment.
    package var isRecordingRegion: Bool { features[StatementWatch.key]?.recordedReads != nil }

    /// Runs a block and adds what it reads to a region, also when it throws.
    package func recordingRegion<T>(_ region: inout DatabaseRegion, _ body: () throws -> T) rethrows -> T {
        let watch = watch
        let outer = watch.recordedReads
        watch.recordedReads = RecordedReads()
        updateWatching()
        defer {
            let recorded = watch.completeReads()
            let isNew = watch.recordedReads?.isNew == true
            region.formUnion(recorded)
            watch.recordedReads = outer
            watch.recordedReads?.region.formUnion(recorded)
            if isNew { watch.recordedReads?.isNew = true }
            updateWatching()
        }
        return try body()
    }

    /// Adds a region to what an observation tracks, while it fetches. It does nothing otherwise.
    ///
    /// For what a fetch depends on without reading it.
    public func registerAccess(to region: @autoclosure () throws -> some DatabaseRegionConvertible) throws {
        requireAccess()
        guard isRecordingRegion else { return }
        let region = try withoutWatching { try region().databaseRegion(self) }
        watch.recordedReads?.isNew = true
        watch.recordedReads?.region.formUnion(region)
    }

    /// Runs statements of the library's own, which no observer sees and no recording counts.
    package func withoutWatching<T>(_ body: () throws -> T) rethrows -> T {
        let outer = features.isWatching
        features.isWatching = false
        defer { features.isWatching = outer }
        return try body()
    }

    func updateWatching() {
        let watch = features[StatementWatch.key]
        features.isWatching = watch?.recordedReads != nil || watch?.keeper.observer != nil
    }
}

extension StatementWatch {
    /// Adds what a statement reads, before it runs.
    func recordReads(by statement: Statement) {
        guard let number = recordedReads?.number else { return }
        let isNarrowed = statement.access.narrowedRegion != nil
        let isListed = statement.access.recording == number
        // A statement that runs many times in one fetch reads the same each time.
        if isListed, statement.access.isRecorded, !isNarrowed, statement.isRegionCurrent { return }
        let region = statement.databaseRegion
        recordedReads?.region.formUnion(region)
        if !isListed { recordedReads?.statements.append(statement) }
        statement.access.recording = number
        statement.access.isRecorded = !isNarrowed
    }

    /// The region of all that was recorded. If the schema has changed, SQLite has compiled a statement again in its
    /// first step, and its reads may differ from the known ones.
    fileprivate func completeReads() -> DatabaseRegion {
        guard let reads = recordedReads else { return DatabaseRegion() }
        var region = reads.region
        for statement in reads.statements
        where statement.access.recompilationCount != statement.handle.recompilationCount {
            statement.narrowRegion(to: nil)
            region.formUnion(statement.databaseRegion)
        }
        let isKnown = recordedReads?.isNew == false && observableReads?.region == region
        observableReads?.isCurrent = isKnown
        return region
    }

    /// The observable part of a region that was found without asking for the schema; nil where that is not known.
    func takeObservableReads(of region: DatabaseRegion) -> DatabaseRegion? {
        guard let known = observableReads, known.isCurrent, known.region == region else { return nil }
        observableReads?.isCurrent = false
        return known.observable
    }
}

extension DatabaseRegion {
    /// The region with all columns of each table of which it has a generated one.
    ///
    /// SQLite resolves the expression of a generated column when it reads the schema, and reports to the authorizer
    /// none of the columns that the expression reads. https://www.sqlite.org/gencol.html
    func coveringGeneratedColumns(_ db: Database) throws -> DatabaseRegion {
        try coveringAllColumns { table, columns in
            try !db.generatedColumns(of: table).isDisjoint(with: columns.map(\.lowercasedASCII))
        }
    }
}
