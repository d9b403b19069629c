import CipherDatabase
import CipherRecords
import Testing

@Suite("Records are inserted, or update what they are in conflict with")
struct UpsertTests {
    private struct Track: Codable, Equatable, MutablePersistableRecord, FetchableRecord {
        var id: Int64?
        var title: String
        var plays: Int = 0
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    /// A record whose row has more columns than it gives.
    private struct Label: Decodable, MutablePersistableRecord, FetchableRecord {
        var code: String
        var city: String
        var isMajor: Bool
        var releases: Int?

        func encode(to container: inout PersistenceContainer) {
            container["code"] = code
            container["city"] = city
            container["isMajor"] = isMajor
        }
    }

    private struct Tag: Codable, Equatable, PersistableRecord, FetchableRecord {
        var name: String
    }

    private func write(_ body: (Database) throws -> Void) throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE track (id INTEGER PRIMARY KEY, title TEXT UNIQUE, plays INTEGER NOT NULL);
                    CREATE TABLE label (
                        code TEXT PRIMARY KEY, city TEXT, isMajor BOOLEAN DEFAULT 0, releases INTEGER DEFAULT 1);
                    CREATE TABLE tag (name TEXT PRIMARY KEY) WITHOUT ROWID;
                    """)
            try body(db)
        }
    }

    private func lastStatement(_ db: Database, _ body: () throws -> Void) rethrows -> String? {
        let journal = Log()
        db.trace { journal.last = "\($0)" }
        defer { db.trace(options: [], nil) }
        try body()
        return journal.last
    }

    private final class Log { var last: String? }

    @Test("the statement overwrites all columns but the key, and returns the rowid after the selection")
    func sql() throws {
        try write { db in
            var track = Track(id: nil, title: "a")
            let insertion =
                #"INSERT INTO "track" ("id", "title", "plays") VALUES (?,?,?) ON CONFLICT DO UPDATE SET "#
                + #""title" = "excluded"."title", "plays" = "excluded"."plays" RETURNING "#
            try #expect(lastStatement(db) { try track.upsert(db) } == insertion + #""rowid""#)
            try #expect(lastStatement(db) { _ = try track.upsertAndFetch(db) } == insertion + #"*, "rowid""#)
            let label =
                #"INSERT INTO "label" ("code", "city", "isMajor") VALUES (?,?,?) ON CONFLICT("code") DO UPDATE "#
            var warp = Label(code: "W", city: "Leeds", isMajor: false)
            let assigned = try lastStatement(db) {
                _ = try warp.upsertAndFetch(db, onConflict: ["code"]) { _ in
                    [Column("releases") += 1, Column("isMajor").noOverwrite]
                }
            }
            #expect(
                assigned == label + #"SET "releases" = "releases" + ?, "city" = "excluded"."city" RETURNING *, "rowid""#
            )
            // Nothing to overwrite: a row that is not updated would not be returned.
            let kept = try lastStatement(db) {
                _ = try warp.upsertAndFetch(db, onConflict: ["code"], updating: .noColumnUnlessSpecified)
            }
            #expect(kept == label + #"SET "code" = "code" RETURNING *, "rowid""#)
            let named = try lastStatement(db) {
                _ = try warp.upsertAndFetch(db, onConflict: ["code"], updating: .noColumnUnlessSpecified) { excluded in
                    [Column("city").set(to: excluded["city"])]
                }
            }
            #expect(named == label + #"SET "city" = "excluded"."city" RETURNING *, "rowid""#)
        }
    }

    @Test("a table without rowids, whose key is its only column")
    func withoutRowID() throws {
        try write { db in
            let tag = Tag(name: "jazz")
            for _ in 1...2 {
                let sql = try lastStatement(db) { try tag.upsert(db) }
                #expect(
                    sql == #"INSERT INTO "tag" ("name") VALUES (?) ON CONFLICT DO UPDATE SET "name" = "name""#)
            }
            let fetching = try lastStatement(db) { try #expect(tag.upsertAndFetch(db) == tag) }
            #expect(fetching?.hasSuffix(#"SET "name" = "name" RETURNING *"#) == true)
            try #expect(Tag.fetchAll(db) == [tag])
        }
    }

    @Test("a row in conflict keeps its key, which the record gets")
    func conflict() throws {
        try write { db in
            _ = try Track(id: 1, title: "a", plays: 1).inserted(db)
            _ = try Track(id: 42, title: "b", plays: 2).inserted(db)
            var again = Track(id: nil, title: "a", plays: 9)
            try again.upsert(db)
            #expect(again.id == 1)
            var fetched = Track(id: nil, title: "b", plays: 8)
            try #expect(fetched.upsertAndFetch(db) == Track(id: 42, title: "b", plays: 8))
            #expect(fetched.id == 42)
            // In conflict with two rows at once, by two keys.
            var both = Track(id: 1, title: "b", plays: 0)
            let error = #expect(throws: DatabaseError.self) { try both.upsert(db) }
            #expect(error?.message == "UNIQUE constraint failed: track.title")
            try #expect(Track.orderByPrimaryKey().fetchAll(db).map(\.plays) == [9, 8])
        }
    }

    private struct AllColumns: FetchableRecord, TableRecord {
        static let databaseTableName = "track"
        var names: [String]
        init(row: Row) { names = row.columnNames }
    }

    @Test("a record sees the selected columns alone")
    func selection() throws {
        try write { db in
            var track = Track(id: nil, title: "a")
            try #expect(track.upsertAndFetch(db, as: AllColumns.self).names == ["id", "title", "plays"])
        }
    }

    @Test("an upsert keeps the values that the call names")
    func assignments() throws {
        try write { db in
            try db.execute(sql: "INSERT INTO label (code, city, isMajor) VALUES ('W', 'Hull', 1)")
            var warp = Label(code: "W", city: "Leeds", isMajor: false)
            let stored = try warp.upsertAndFetch(db, onConflict: ["code"]) { _ in
                [Column("releases") += 1, Column("isMajor").noOverwrite]
            }
            #expect(stored.city == "Leeds" && stored.isMajor && stored.releases == 2)
            let untouched = try warp.upsertAndFetch(db, updating: .noColumnUnlessSpecified)
            #expect(untouched.isMajor && untouched.releases == 2)
        }
    }

    @Test("a trigger that ignores an upsert leaves no row to return")
    func ignored() throws {
        try write { db in
            try db.execute(
                sql: "CREATE TRIGGER t BEFORE INSERT ON track BEGIN SELECT RAISE(IGNORE); END")
            var track = Track(id: 3, title: "a")
            #expect(throws: RecordError.recordNotFound(databaseTableName: "track", key: ["id": 3.databaseValue])) {
                try track.upsertAndFetch(db)
            }
        }
    }
}
