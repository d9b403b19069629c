import StorePlatform

/// Keeps full-text tables the same as their content through what no trigger sees: other keys, and other rowids.
///
/// | statement | why no trigger helps | what is done |
/// |---|---|---|
/// | VACUUM | rows without a declared key may get other rowids | an index that fitted before is made again after it |
/// | CREATE or DROP of a unique INDEX | a `REPLACE` removes other rows than before | the triggers are made again |
/// | ALTER TABLE | a CHECK refuses other rows than before | the triggers are made again |
/// | DROP TABLE, and another table of that name | the triggers are gone with the table | triggers and index are made again |
/// | CREATE TRIGGER of the program | it fires before the triggers, and may change the row | the triggers are made again |
///
/// An index that did not fit before VACUUM is left as it is: the program may fill it in a way of its own.
///
/// VACUUM is a commit of its own. A process that is killed after it, and before the index is made again, leaves a mark:
///
/// | commit | what is durable |
/// |---|---|
/// | before VACUUM | the names of the indexes that fit (``VacuumMark``) |
/// | VACUUM | other rowids; the mark |
/// | after it | the indexes, made again; no mark |
///
/// The next opening for writing makes the marked indexes again. Until then `verify` reports them.
final class FullTextUpkeep: ConnectionFeature {
    static let key = FeatureKey<FullTextUpkeep>(.fullText)

    /// The indexes that fitted their content before the VACUUM that runs.
    private var fitting: [FullTextIndex] = []
    /// Whether indexes or tables were changed since the triggers were last made.
    private var keysMayDiffer = false
    /// Whether tables or triggers were created or dropped since then.
    private var triggersMayDiffer = false
    /// The full-text tables whose triggers were there.
    private var followed: Set<String> = []
    /// Those of them whose content was dropped, with the triggers.
    private var abandoned: Set<String> = []
    /// Whether a VACUUM has run since then.
    private var hasVacuumed = false
    /// Whether triggers are being made or dropped.
    private var isUnderWay = false

    /// Adds it to a connection that has just been opened.
    static func add(to db: Database) {
        db.features.add(FullTextUpkeep(), for: key, at: [.willVacuum, .didChangeSchema, .didFail])
    }

    func didChangeSchema(_ effects: StatementEffects, isForeign: Bool, on db: Database) {
        if isForeign { return }
        if effects.contains(.indexes) { keysMayDiffer = true }
        if effects.contains(.storedSchema) { triggersMayDiffer = true }
        if effects.contains(.vacuum) { hasVacuumed = true }
        if db.needsTriggerUpkeep(after: effects) { db.features.want(.didRun, for: Self.key) }
    }

    func didRun(on db: Database) throws {
        db.features.want(.didRun, false, for: Self.key)
        let hasVacuumed = hasVacuumed
        self.hasVacuumed = false
        guard db.keepsTriggers else { return }
        if hasVacuumed { try didVacuum(db) }
        if keysMayDiffer || triggersMayDiffer { try followKeys(db) }
    }

    /// Notes that a full-text table of the main database has its triggers.
    func follows(_ name: String) { followed.insert(name) }

    func didFail(_ statement: Statement, on db: Database) {
        // A missing file is found when the database is opened again.
        if statement.effects.contains(.storedSchema) { try? didRun(on: db) }
    }

    package func willVacuum(on db: Database) throws {
        guard db.keepsTriggers && !db.isInsideTransaction && !db.health.hasFailedToSync else { return }
        fitting = []
        let exposed = try db.withoutWatching {
            try FullTextIndex.all(db).filter { try $0.losesRowsByVacuum(db) }
        }
        if exposed.isEmpty { return }
        var found: [FullTextIndex] = []
        try Self.change(db) {
            try db.changingHistory {
                found = try exposed.filter { index in
                    do {
                        return try index.fits(db)
                    } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                        throw Self.cannotFollow(index, error)
                    }
                }
                try VacuumMark.set(found.map(\.name), db)
            }
        }
        fitting = found
    }

    /// Without its tokenizer an index can be neither checked nor made again.
    private static func cannotFollow(_ index: FullTextIndex, _ error: DatabaseError) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_ERROR,
            message: "VACUUM would change the rows that full-text table \(index.name) finds, and this program cannot "
                + "rebuild it (\(error.message ?? "SQLITE_ERROR")). Run VACUUM in a program that has its tokenizer")
    }

    private func didVacuum(_ db: Database) throws {
        let fitting = fitting
        self.fitting = []
        if fitting.isEmpty { return }
        try Self.change(db) {
            try db.changingHistory {
                for index in fitting { try Self.rebuildUnlessFit(index, db) }
                try VacuumMark.clear(db)
            }
        }
    }

    private static func rebuildUnlessFit(_ index: FullTextIndex, _ db: Database) throws {
        guard let rebuilding = index.rebuilding, try !index.fits(db) else { return }
        try db.execute(sql: rebuilding)
    }

    // MARK: Opening

    /// Does what a killed VACUUM has left undone, and makes triggers again that an earlier version or another program has
    /// made, or that do not fit the keys of their tables.
    ///
    /// - Returns: What the program should know, as sentences.
    static func catchUp(_ db: Database) throws -> [String] {
        try db.withoutWatching {
            for name in try DisplacedRows.synchronized(db).keys { db.features[key]?.follows(name) }
            let marked = try VacuumMark.abandoned(db)
            let outdated = try DisplacedRows.misfits(db) + DisplacedRows.outdated(db)
            if marked.isEmpty && outdated.isEmpty { return [] }
            var notices: [String] = []
            try change(db) {
                try db.changingHistory {
                    let indexes = try FullTextIndex.all(db)
                    for name in marked {
                        if let index = indexes.first(where: { $0.name == name }) { try rebuildUnlessFit(index, db) }
                        notices.append(
                            "the full-text table \"\(name)\" was compared with its texts: a VACUUM was interrupted "
                                + "before that")
                    }
                    try VacuumMark.remove(marked, db)
                    for rows in outdated {
                        guard try rows.create(db), !rows.isTemporary else { continue }
                        // A REPLACE may have left words that the former triggers did not remove.
                        if let index = indexes.first(where: { $0.name == rows.indexName }) {
                            try rebuildUnlessFit(index, db)
                        }
                        notices.append(
                            "the triggers of the full-text table \"\(rows.indexName)\" were made again: an earlier version "
                                + "had made them, or a program has changed its content table, the keys or the triggers "
                                + "of that table")
                    }
                }
            }
            return notices
        }
    }

    /// Makes the triggers fit the keys of their tables, unless they are being made or dropped.
    private func followKeys(_ db: Database) throws {
        if isUnderWay { return }
        let keysMayDiffer = keysMayDiffer
        (self.keysMayDiffer, triggersMayDiffer) = (false, false)
        let misfits = try db.withoutWatching {
            let missing = try DisplacedRows.synchronized(db).filter { !$0.value }.map(\.key)
            abandoned.formUnion(followed.intersection(missing))
            return try DisplacedRows.misfits(db)
        }
        if misfits.isEmpty { return }
        try db.changingHistory {
            for rows in misfits {
                if try rows.isFollowing(db) {
                    // While triggers are created one by one, as those of a copied schema, they are left alone.
                    if try keysMayDiffer || rows.isComplete(db) { try rows.create(db) }
                } else if abandoned.remove(rows.indexName) != nil {
                    try rows.create(db)
                    try FullTextIndex.all(db).first { $0.name == rows.indexName }?.rebuilding.map {
                        try db.execute(sql: $0)
                    }
                }
                // Otherwise the program has dropped the triggers.
            }
        }
    }

    /// Runs a block that makes or drops triggers one by one.
    static func change(_ db: Database, _ body: () throws -> Void) rethrows {
        let upkeep = db.features[key]
        let outer = upkeep?.isUnderWay ?? false
        upkeep?.isUnderWay = true
        defer { upkeep?.isUnderWay = outer }
        try body()
    }
}

/// The names of the indexes that a VACUUM may spoil, in a table of the database while it runs.
///
/// A mark belongs to the process that has set it, and is left alone while that process runs.
enum VacuumMark {
    private static let table = "cipherstore_vacuum"
    /// Distinguishes this process from a former one with the same number.
    private static let run = Int64.random(in: 1 ... .max)

    static func set(_ names: [String], _ db: Database) throws {
        if names.isEmpty { return }
        try db.withoutHistoryUpkeep {
            try db.execute(
                sql: "CREATE TABLE IF NOT EXISTS main.\(table) (name TEXT, process INTEGER, run INTEGER)")
            for name in names {
                try db.execute(
                    sql: "INSERT INTO main.\(table) VALUES (?, ?, ?)",
                    arguments: [name, Int64(ProcessInspector.currentProcess), run])
            }
        }
    }

    /// Removes the marks of this process.
    static func clear(_ db: Database) throws { try remove("run = ?", [run], db) }

    static func remove(_ names: [String], _ db: Database) throws {
        for name in names { try remove("name = ?", [name], db) }
    }

    private static func remove(_ condition: String, _ arguments: StatementArguments, _ db: Database) throws {
        guard try db.tableExists(table, in: "main") else { return }
        try db.withoutHistoryUpkeep {
            try db.execute(sql: "DELETE FROM main.\(table) WHERE \(condition)", arguments: arguments)
            guard try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(table)") == 0 else { return }
            try db.execute(sql: "DROP TABLE main.\(table)")
        }
    }

    /// The indexes that were marked by processes that have ended.
    static func abandoned(_ db: Database) throws -> [String] {
        guard try db.tableExists(table, in: "main") else { return [] }
        let rows = try Row.fetchAll(db, sql: "SELECT DISTINCT name, process, run FROM main.\(table)")
        return rows.compactMap { row in
            let (process, other) = (row[1] as Int64, row[2] as Int64)
            let isThis = process == Int64(ProcessInspector.currentProcess)
            let runs = isThis ? other == run : ProcessInspector.isAlive(Int32(clamping: process))
            return runs ? nil : row[0]
        }
    }
}
