/// Keeps full-text tables the same as their content through what no trigger sees: other keys, and other rowids.
///
/// | statement | why no trigger helps | what is done |
/// |---|---|---|
/// | VACUUM | rows without a declared key may get other rowids | an index that fitted before is made again after it |
/// | CREATE or DROP of a unique INDEX | a `REPLACE` removes other rows than before | the triggers are made again |
///
/// An index that did not fit before VACUUM is left as it is: the program may fill it in a way of its own.
struct FullTextUpkeep {
    /// The indexes that fitted their content before the VACUUM that runs.
    private var fitting: [FullTextIndex] = []
    /// Whether indexes have come or gone since the triggers were last made.
    var keysMayDiffer = false
    /// Whether triggers are being made or dropped.
    private var isUnderWay = false

    static func willVacuum(_ db: Database) throws {
        db.fullText.fitting = []
        let exposed = try db.withoutWatching {
            try FullTextIndex.all(db).filter { try $0.losesRowsByVacuum(db) }
        }
        if exposed.isEmpty { return }
        var found: [FullTextIndex] = []
        try db.changingHistory {
            found = try exposed.filter { index in
                do {
                    return try index.fits(db)
                } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                    throw cannotFollow(index, error)
                }
            }
        }
        db.fullText.fitting = found
    }

    /// Without its tokenizer an index can be neither checked nor made again.
    private static func cannotFollow(_ index: FullTextIndex, _ error: DatabaseError) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_ERROR,
            message: "VACUUM would change the rows that full-text table \(index.name) finds, and this program cannot "
                + "rebuild it (\(error.message ?? "SQLITE_ERROR")). Run VACUUM in a program that has its tokenizer")
    }

    static func didVacuum(_ db: Database) throws {
        let fitting = db.fullText.fitting
        db.fullText.fitting = []
        if fitting.isEmpty { return }
        try db.changingHistory {
            for index in fitting {
                guard let rebuilding = index.rebuilding, try !index.fits(db) else { continue }
                try db.execute(sql: rebuilding)
            }
        }
    }

    /// Makes the triggers fit the keys of their tables, unless they are being made or dropped.
    static func followKeys(_ db: Database) throws {
        if db.fullText.isUnderWay { return }
        db.fullText.keysMayDiffer = false
        let misfits = try db.withoutWatching { try DisplacedRows.misfits(db) }
        if misfits.isEmpty { return }
        try db.changingHistory { for rows in misfits { try rows.create(db) } }
    }

    /// Runs a block that makes or drops triggers one by one.
    static func change(_ db: Database, _ body: () throws -> Void) rethrows {
        let outer = db.fullText.isUnderWay
        db.fullText.isUnderWay = true
        defer { db.fullText.isUnderWay = outer }
        try body()
    }
}
