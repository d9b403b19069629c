/// The facts that a connection knows of its schema, while the schema stays the same.
///
/// It is compared with the database when it is used, not at the beginning of an access: an access that does not use it
/// pays nothing. Inside a transaction one comparison is enough, because no other connection can change what the
/// transaction sees, and its own changes pass through ``Database/didRun(_:)``.
struct SchemaCache {
    /// The schema version that belongs to the entries.
    private(set) var version: Int32?
    /// Raised when everything is forgotten, so that what was derived from the entries can be forgotten with them.
    private(set) var generation = 0
    /// Whether the entries belong to the transaction under way.
    var isCompared = false
    /// The version that the transaction under way has read at its beginning.
    var versionOfView: Int32?
    /// Whether the entries may hold changes that are not committed yet.
    var isProvisional = false
    /// The schemas in the order in which SQLite looks for a table.
    var schemaIDs: [DatabaseSchemaID]?
    var schemas: [DatabaseSchemaID: Entries] = [:]
    /// The names of tables as they were created, by their names in lower case; nil where there is no such table.
    var tableNames: [String: String?] = [:]
    /// The generated columns of tables, all names in lower case.
    var generatedColumns: [String: Set<String>] = [:]
    /// How tables are recorded; nil before the first request.
    var history: HistoryCatalog?
    /// The definitions with the word `replace`, by their schemas.
    var replacing: [DatabaseSchemaID: [ReplacingDefinition]] = [:]
    /// How many objects the largest list had, also one that was cleared.
    private(set) var mostObjects = 0
    /// How many objects were looked up one by one since the last change of the schema.
    private var singleLookups = 0

    /// The cache of one schema. Tables are keyed by their names in lower case, with nil where there is no such table.
    struct Entries {
        var objects: [Object: StoredObject]?
        var columns: [String: [ColumnInfo]?] = [:]
        var primaryKeys: [String: PrimaryKeyInfo?] = [:]
        var indexes: [String: [IndexInfo]?] = [:]
        var foreignKeys: [String: [ForeignKeyInfo]?] = [:]
    }

    /// A table, view, index or trigger.
    struct Object: Hashable {
        let type: String
        /// In lower case.
        let name: String
    }

    /// An object as the schema has it.
    struct StoredObject {
        /// The name as it was created.
        let name: String
        /// Whether it has a b-tree: views, triggers and virtual tables have none.
        let hasPages: Bool
    }

    /// The list of all objects of a schema.
    mutating func keep(_ objects: [Object: StoredObject], of schemaID: DatabaseSchemaID) {
        mostObjects = max(mostObjects, objects.count)
        schemas[schemaID, default: Entries()].objects = objects
    }

    /// Whether an object is looked up by itself, without the list of all.
    ///
    /// A program that defines tables one after another would otherwise read all objects after each definition. A list is
    /// read after as many lookups as it costs.
    mutating func takesSingleLookup() -> Bool {
        guard singleLookups < mostObjects / DatabaseLimits.objectsForSingleLookup else { return false }
        singleLookups += 1
        return true
    }

    /// Records the present version, and clears the cache when the version has changed.
    mutating func compare(_ current: Int32) {
        if isProvisional || version != current { clear() }
        version = current
    }

    /// Ends the dependence on a transaction. Uncommitted facts are cleared at the next comparison.
    mutating func leaveTransaction(committing: Bool) {
        isCompared = false
        if committing { isProvisional = false }
    }

    mutating func clear() {
        let (next, most) = (generation &+ 1, mostObjects)
        self = SchemaCache()
        generation = next
        mostObjects = most
    }
}

extension Database {
    // MARK: Keeping the cache true

    /// The number that every change of the schema increments, in any process.
    /// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_schema_version>
    public func schemaVersion() throws -> Int32 {
        try Int32.fetchOne(statement(forFetching: "PRAGMA main.schema_version")) ?? 0
    }

    /// Clears the cache of the schema, and the compiled statements.
    ///
    /// There is no need to call it: changes by other connections and processes are noticed.
    public func clearSchemaCache() {
        requireAccess()
        schemaCache.clear()
        kept.removeAll()
    }

    /// A number that another schema does not have: what was derived from an earlier one is to be forgotten.
    package func schemaGeneration() throws -> Int {
        try compareSchema()
        return schemaCache.generation
    }

    /// Called before the cache is used.
    func compareSchema() throws {
        requireAccess()
        takeForeignEffects()
        let isInsideTransaction = isInsideTransaction
        if schemaCache.isCompared && isInsideTransaction { return }
        let viewed = schemaCache.versionOfView.take()
        schemaCache.compare(try isInsideTransaction ? viewed ?? schemaVersion() : schemaVersion())
        // Reading the version has given the transaction its snapshot.
        schemaCache.isCompared = isInsideTransaction
        schemaCache.isProvisional = isInsideTransaction && handle.isWriting
        if isInsideTransaction { pendingCallbacks.insert(.schema) }
    }

    /// An entry of the cache, read from the database when it is missing.
    func cached<Info>(
        _ entries: WritableKeyPath<SchemaCache.Entries, [String: Info?]>, of table: DatabaseObjectID,
        make: () throws -> Info?
    ) throws -> Info? {
        let name = table.name.lowercasedASCII
        if let known = schemaCache.schemas[table.schemaID]?[keyPath: entries][name] { return known }
        let generation = schemaCache.generation
        let made = try make()
        // Another connection may have changed the schema meanwhile: then this belongs to the former one.
        if schemaCache.generation != generation { return made }
        schemaCache.schemas[table.schemaID, default: SchemaCache.Entries()][keyPath: entries]
            .updateValue(made, forKey: name)
        return made
    }

    // MARK: Effects of statements

    /// Compiles the first statement of a text, and returns separately what it does beyond reading and writing rows.
    ///
    /// - Parameter recording: Whether what it reads and changes is recorded, where somebody observes.
    func prepare(
        _ text: UnsafePointer<CChar>, persistent: Bool, recording: Bool = true
    ) -> (code: ResultCode, statement: SQLiteStatement?, tail: UnsafePointer<CChar>?) {
        takeForeignEffects()
        // That of a text that compiled to nothing, as the end of the one before.
        hooks.compiledRecord = nil
        hooks.isCompiling = true
        defer { hooks.isCompiling = false }
        if recording && features.isWatching { return prepareRecording(text, persistent: persistent) }
        return gated { handle.prepare(text, persistent: persistent) }
    }

    private func prepareRecording(
        _ text: UnsafePointer<CChar>, persistent: Bool
    ) -> (code: ResultCode, statement: SQLiteStatement?, tail: UnsafePointer<CChar>?) {
        let outer = hooks.record
        let record = AccessRecord(includesReads: isRecordingRegion)
        hooks.record = record
        hooks.compiledRecord = record
        defer { hooks.record = outer }
        return gated { handle.prepare(text, persistent: persistent) }
    }

    /// Records the effects of what C code has compiled, and most likely run, outside of this library.
    private func takeForeignEffects() {
        let effects = hooks.effects
        if effects.isEmpty { return }
        hooks.effects = []
        if effects.contains(.schema) {
            schemaCache.clear()
            callFeatures(didChangeSchema: effects, isForeign: true)
        }
        schemaCache.isCompared = false
        schemaCache.versionOfView = nil
        // The date is made on demand: no function of the user's may run while a statement is compiled.
        if effects.contains(.begin) || handle.isInAutocommit { transaction.date = nil }
    }

    /// Called after a statement that did more than read and write rows.
    func note(_ effects: StatementEffects, savepoint: SavepointChange?) {
        // SQLite recompiles a statement while it runs when the schema has changed: its effects are recorded here.
        hooks.effects = []
        if !effects.isDisjoint(with: [.schema, .vacuum]) {
            schemaCache.clear()
            callFeatures(didChangeSchema: effects, isForeign: false)
        }
        if effects.contains(.journalMode) { noteJournalMode() }
        if effects.contains(.busyTimeout) { noteBusyTimeout() }
        guard effects.contains(.transaction) else { return }
        schemaCache.isCompared = false
        schemaCache.versionOfView = nil
        if handle.isInAutocommit {
            forgetTransaction()
        } else if effects.contains(.begin) || transaction.date == nil {
            didBeginTransaction(dates: !usesDefaultClock || effects.contains(.begin))
        }
        if let savepoint { noteSavepoint(savepoint) }
    }
}
