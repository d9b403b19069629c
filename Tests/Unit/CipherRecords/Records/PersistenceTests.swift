import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

@Suite("Records are stored")
struct PersistenceTests {
    private struct Member: MutablePersistableRecord, FetchableRecord, Codable, Equatable, Identifiable {
        var id: Int64?
        var name: String
        var score: Int = 0

        enum Columns {
            static let id = Column(CodingKeys.id)
            static let name = Column(CodingKeys.name)
            static let score = Column(CodingKeys.score)
        }

        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private struct Country: PersistableRecord, FetchableRecord, Codable, Equatable {
        var code: String
        var name: String
    }

    private struct Citizenship: PersistableRecord, FetchableRecord, Codable, Equatable {
        var memberId: Int64
        var countryCode: String
        var isNative: Bool
    }

    private func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE member (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, score INTEGER DEFAULT 7);
                    CREATE TABLE country (code TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
                    CREATE TABLE citizenship (
                        memberId INTEGER REFERENCES member(id), countryCode TEXT, isNative BOOLEAN,
                        PRIMARY KEY (memberId, countryCode));
                    """)
        }
        return queue
    }

    /// The statements that run in a block, as traces show them.
    private func statements(_ db: Database, _ body: () throws -> Void) rethrows -> [String] {
        let log = Log()
        db.trace { log.lines.append("\($0)") }
        defer { db.trace(options: [], nil) }
        try body()
        // Those that ask for the schema are of no interest.
        return log.lines.filter { !$0.hasPrefix("--") && !$0.contains("pragma_") && !$0.contains("schema") }
    }

    private final class Log { var lines: [String] = [] }

    // MARK: Statements

    @Test("the statements are the shortest that do it")
    func sql() throws {
        try queue().write { db in
            let lines = try statements(db) {
                var ann = Member(id: nil, name: "Ann")
                try ann.insert(db)
                ann.score = 1
                try ann.update(db)
                try ann.update(db, columns: ["score"])
                try ann.update(db, columns: [Column("name")])
                try ann.updateChanges(db) { $0.score = 2 }
                try ann.updateChanges(db) { $0.score = 2 }
                try ann.save(db)
                try ann.upsert(db)
                _ = try ann.exists(db)
                try ann.delete(db)
                var bob = Member(id: nil, name: "Bob")
                try bob.insert(db, onConflict: .replace)
                try Citizenship(memberId: 1, countryCode: "FR", isNative: true).insert(db, onConflict: .ignore)
            }
            #expect(
                lines == [
                    #"INSERT INTO "member" ("id", "name", "score") VALUES (?,?,?)"#,
                    #"UPDATE "member" SET "name"=?, "score"=? WHERE "id"=?"#,
                    #"UPDATE "member" SET "score"=? WHERE "id"=?"#,
                    #"UPDATE "member" SET "name"=? WHERE "id"=?"#,
                    #"UPDATE "member" SET "score"=? WHERE "id"=?"#,
                    #"UPDATE "member" SET "name"=?, "score"=? WHERE "id"=?"#,
                    #"INSERT INTO "member" ("id", "name", "score") VALUES (?,?,?) ON CONFLICT DO UPDATE SET "#
                        + #""name" = "excluded"."name", "score" = "excluded"."score" RETURNING "rowid""#,
                    #"SELECT EXISTS (SELECT 1 FROM "member" WHERE "id"=?)"#,
                    #"DELETE FROM "member" WHERE "id"=?"#,
                    #"INSERT OR REPLACE INTO "member" ("id", "name", "score") VALUES (?,?,?)"#,
                    #"INSERT OR IGNORE INTO "citizenship" ("memberId", "countryCode", "isNative") VALUES (?,?,?)"#,
                ])
        }
    }

    // MARK: Inserting

    @Test("an insertion gives the record its key")
    func insertion() throws {
        try queue().write { db in
            var ann = Member(id: nil, name: "Ann")
            try ann.insert(db)
            #expect(ann.id == 1)
            let bob = try Member(id: nil, name: "Bob").inserted(db)
            #expect(bob.id == 2)
            try #expect(Member.fetchAll(db) == [ann, bob])
            try Country(code: "FR", name: "France").insert(db)
            try #expect(Country.fetchAll(db) == [Country(code: "FR", name: "France")])
        }
    }

    private struct Name: MutablePersistableRecord, Codable {
        static let databaseTableName = "member"
        var name: String
    }

    @Test("a row is read as it was inserted, with its default values")
    func insertAndFetch() throws {
        try queue().write { db in
            let ann = try Member(id: nil, name: "Ann", score: 3).insertAndFetch(db)
            #expect(ann == Member(id: 1, name: "Ann", score: 3))
            var bob = Name(name: "Bob")
            try #expect(bob.insertAndFetch(db, as: Member.self) == Member(id: 2, name: "Bob", score: 7))
            var carl = Name(name: "Carl")
            let id = try carl.insertAndFetch(db, selection: [Column("id"), Column("score") + 1]) { statement in
                try Row.fetchOne(statement)?.databaseValues.map(\.description) ?? []
            }
            #expect(id == ["3", "8"])
            var dora = Member(id: nil, name: "Dora")
            let score = try dora.insertAndFetch(db, fetch: { try Int.fetchOne($0) }, select: { [$0.score] })
            #expect(score == 0 && dora.id == 4)
        }
    }

    @Test("where a conflict is ignored there is no row to fetch")
    func ignoredInsertion() throws {
        try queue().write { db in
            _ = try Member(id: nil, name: "Ann").inserted(db)
            var twin = Member(id: nil, name: "Ann")
            try twin.insert(db, onConflict: .ignore)
            #expect(throws: RecordError.self) {
                try Member(id: nil, name: "Ann").insertAndFetch(db, onConflict: .ignore)
            }
            try #expect(Member.fetchCount(db) == 1)
        }
    }

    private struct Journaled: MutablePersistableRecord {
        static let databaseTableName = "member"
        var id: Int64?

        func encode(to container: inout PersistenceContainer) {
            container["ID"] = id
            container["name"] = "n"
        }

        func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws {
            let inserted = try insert()
            #expect(inserted.persistenceContainer["id"] == inserted.rowID)
        }

        mutating func didInsert(_ inserted: InsertionSuccess) {
            #expect(inserted.rowIDColumn == "id" && inserted.persistenceContainer["iD"] == inserted.rowID)
            id = inserted.rowID
        }

        func didSave(_ saved: PersistenceSuccess) {
            #expect(saved.persistenceContainer["id"] == 1 && saved.persistenceContainer["name"] == "n")
        }
    }

    @Test("callbacks find the new key among the values that were stored")
    func insertedValues() throws {
        try queue().write { db in
            var record = Journaled(id: nil)
            try record.insert(db)
            #expect(record.id == 1)
            try record.update(db)
            try record.upsert(db)
        }
    }

    @Test("nothing that is selected is an error, and no statement")
    func emptySelection() throws {
        try queue().write { db in
            var ann = Member(id: nil, name: "Ann")
            let error = #expect(throws: DatabaseError.self) {
                try ann.insertAndFetch(db, selection: []) { try Int.fetchOne($0) }
            }
            #expect(error?.message == "nothing is selected of the row: select a column at least")
            #expect(throws: DatabaseError.self) { try ann.saveAndFetch(db, selection: []) { _ in 1 } }
            #expect(throws: DatabaseError.self) { try ann.updateAndFetch(db, selection: []) { _ in 1 } }
            try #expect(Member.fetchCount(db) == 0)
        }
    }

    // MARK: Updating and saving

    @Test("an update of no row is an error that names the key and shows no value")
    func missingRow() throws {
        try queue().write { db in
            let error = #expect(throws: RecordError.self) { try Member(id: 5, name: "secret").update(db) }
            #expect(error == .recordNotFound(databaseTableName: "member", key: ["id": 5.databaseValue]))
            let text =
                "no row of table member with this key (id) was changed or found: it was deleted, never inserted, or "
                + "ignored by a conflict policy"
            #expect(error.map { "\($0)" } == text)
            #expect(throws: RecordError.self) { try Member(id: nil, name: "Ann").update(db) }
            try #expect(Member(id: nil, name: "Ann").delete(db) == false)
            try #expect(Member(id: 5, name: "Ann").delete(db) == false)
            try #expect(Member(id: nil, name: "Ann").exists(db) == false)
        }
    }

    @Test("saving updates the row that is there, and inserts otherwise")
    func saving() throws {
        try queue().write { db in
            var ann = Member(id: nil, name: "Ann")
            try ann.save(db)
            #expect(ann.id == 1)
            ann.score = 5
            try ann.save(db)
            try #expect(Member.fetchAll(db) == [ann])
            let carl = try Member(id: 9, name: "Carl").saved(db)
            try #expect(Member.fetchOne(db, key: 9) == carl)
            try #expect(Member(id: 9, name: "Karl").saveAndFetch(db) == Member(id: 9, name: "Karl"))
            try #expect(Member(id: nil, name: "Dora").saveAndFetch(db).id == 10)
            try Country(code: "FR", name: "France").save(db)
            try Country(code: "FR", name: "Frankreich").save(db)
            try #expect(Country.fetchAll(db) == [Country(code: "FR", name: "Frankreich")])
        }
    }

    @Test("changes alone are updated, and nothing where there are none")
    func changes() throws {
        try queue().write { db in
            var ann = try Member(id: nil, name: "Ann", score: 1).inserted(db)
            let former = ann
            try #expect(ann.updateChanges(db, from: former) == false)
            ann.score = 2
            try #expect(ann.databaseChanges(from: former) == ["score": 1.databaseValue])
            #expect(!ann.databaseEquals(former))
            try #expect(ann.updateChanges(db, from: former))
            try #expect(ann.updateChanges(db) { $0.name = "Anne" })
            try #expect(Member.fetchOne(db, id: 1) == Member(id: 1, name: "Anne", score: 2))
            try #expect(ann.updateChangesAndFetch(db) { $0.score = 2 } == nil)
            try #expect(ann.updateChangesAndFetch(db) { $0.score = 3 } == Member(id: 1, name: "Anne", score: 3))
            try #expect(ann.updateAndFetch(db) == ann)
            #expect(
                try ann.databaseDictionary == [
                    "id": 1.databaseValue, "name": "Anne".databaseValue, "score": 3.databaseValue,
                ])
        }
    }

    @Test("some columns are updated and fetched")
    func updateAndFetchColumns() throws {
        try queue().write { db in
            var ann = try Member(id: nil, name: "Ann", score: 1).inserted(db)
            (ann.name, ann.score) = ("Anne", 2)
            let row = try ann.updateAndFetch(db, columns: ["SCORE"], selection: [.allColumns]) { try Row.fetchOne($0) }
            #expect(row == ["id": 1, "name": "Ann", "score": 2])
            let name = try ann.updateAndFetch(db, columns: [Column("name")], selection: [Column("name")]) {
                try String.fetchOne($0)
            }
            #expect(name == "Anne")
            let sum = try ann.updateAndFetch(db, fetch: { try Int.fetchOne($0) }, select: { [$0.id + $0.score] })
            #expect(sum == 3)
            let changed = try ann.updateChangesAndFetch(
                db, selection: [Column("score")], fetch: { try Int.fetchOne($0) }, modify: { $0.score = 5 })
            #expect(changed == 5)
            let bob = Member(id: 9, name: "Bob")
            #expect(throws: RecordError.self) {
                try bob.updateAndFetch(db, columns: ["name"], selection: [.allColumns]) { try Row.fetchOne($0) }
            }
        }
    }

    private struct Note: Codable, MutablePersistableRecord, FetchableRecord {
        var rowID: Int64?
        var text: String
        static var databaseSelection: [any SQLSelectable] { [.allColumns, .rowID] }
        mutating func didInsert(_ inserted: InsertionSuccess) { rowID = inserted.rowID }
    }

    @Test("a table that declares no key has its rowid")
    func hiddenRowID() throws {
        try queue().write { db in
            try db.execute(sql: "CREATE TABLE note (text TEXT)")
            var notes = [Note(rowID: nil, text: "a"), Note(rowID: nil, text: "b")]
            for index in notes.indices { try notes[index].insert(db) }
            notes[0].text = "c"
            try notes[0].update(db)
            try #expect(Note.fetchAll(db).map(\.text) == ["c", "b"])
            try #expect(Note.fetchAll(db, keys: [["rowid": 2], ["rowid": nil]]).map(\.text) == ["b"])
            #expect(throws: RecordError.recordNotFound(databaseTableName: "note", key: ["rowid": .null])) {
                try Note(rowID: nil, text: "x").update(db)
            }
            try #expect(notes[1].exists(db) && notes[1].delete(db) && !notes[1].exists(db))
            try #expect(Note.numberOfSelectedColumns(db) == 2 && Member.numberOfSelectedColumns(db) == 3)
        }
    }

    @Test("a composite key, and one without a rowid")
    func compositeKeys() throws {
        try queue().write { db in
            _ = try Member(id: 1, name: "Ann").inserted(db)
            var link = Citizenship(memberId: 1, countryCode: "FR", isNative: false)
            try link.insert(db)
            link.isNative = true
            try link.update(db)
            try #expect(link.exists(db))
            try #expect(Citizenship.fetchOne(db, key: ["memberId": 1, "countryCode": "FR"]) == link)
            try link.upsert(db)
            try #expect(link.delete(db))
            try Country(code: "FR", name: "a").upsert(db)
            try Country(code: "FR", name: "b").upsert(db)
            try #expect(Country.fetchAll(db) == [Country(code: "FR", name: "b")])
            try #expect(Country(code: "FR", name: "c").upsertAndFetch(db) == Country(code: "FR", name: "c"))
        }
    }

    @Test("an upsert takes new values, but for the key, the target and what it is told")
    func upsert() throws {
        try queue().write { db in
            var ann = Member(id: nil, name: "Ann", score: 1)
            try ann.upsert(db)
            #expect(ann.id == 1)
            var twin = Member(id: nil, name: "Ann", score: 5)
            try #expect(twin.upsertAndFetch(db, onConflict: ["name"]) == Member(id: 1, name: "Ann", score: 5))
            var third = Member(id: nil, name: "Ann", score: 3)
            let sum = try third.upsertAndFetch(db, onConflict: ["name"]) { excluded in
                [Member.Columns.score.set(to: Column("score") + excluded["score"])]
            }
            #expect(sum == Member(id: 1, name: "Ann", score: 8))
            let kept = try third.upsertAndFetch(db, onConflict: ["name"]) { _ in [Column("score").noOverwrite] }
            #expect(kept == Member(id: 1, name: "Ann", score: 8))
        }
    }

    // MARK: Conflicts

    private struct Replacing: PersistableRecord, Codable {
        static let databaseTableName = "country"
        static let persistenceConflictPolicy = PersistenceConflictPolicy(insert: .replace, update: .ignore)
        var code: String
        var name: String
    }

    @Test("conflict policies of a type, and of a call")
    func conflicts() throws {
        try queue().write { db in
            try Replacing(code: "FR", name: "a").insert(db)
            try Replacing(code: "FR", name: "b").insert(db)
            try #expect(Country.fetchAll(db) == [Country(code: "FR", name: "b")])
            #expect(throws: DatabaseError.self) {
                try Replacing(code: "FR", name: "c").insert(db, onConflict: .abort)
            }
            let error = #expect(throws: DatabaseError.self) {
                try Country(code: "FR", name: "c").insert(db)
            }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_PRIMARYKEY)
            #expect(error?.message == "UNIQUE constraint failed: country.code")
            #expect(error.map { "\($0)" }?.contains("FR") == false)
            let link = Citizenship(memberId: 99, countryCode: "FR", isNative: true)
            let broken = #expect(throws: DatabaseError.self) { try link.insert(db) }
            #expect(broken?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        }
    }

    // MARK: Keys

    @Test("records by keys")
    func keys() throws {
        try queue().write { db in
            for name in ["Ann", "Bob", "Carl"] { _ = try Member(id: nil, name: name).inserted(db) }
            try #expect(Member.fetchOne(db, key: 2)?.name == "Bob")
            try #expect(Member.fetchOne(db, key: 9) == nil)
            try #expect(Member.fetchOne(db, key: nil as Int64?) == nil)
            try #expect(Member.fetchOne(db, key: ["name": "Carl"])?.id == 3)
            try #expect(Member.find(db, id: 1).name == "Ann")
            try #expect(Member.find(db, key: ["name": "Ann"]).id == 1)
            #expect(throws: RecordError.recordNotFound(databaseTableName: "member", key: ["id": 9.databaseValue])) {
                try Member.find(db, key: 9)
            }
            try #expect(Set(Member.fetchAll(db, keys: [1, 3, 9]).map(\.name)) == ["Ann", "Carl"])
            try #expect(Member.fetchAll(db, keys: [Int]()) == [])
            try #expect(Member.fetchAll(db, ids: [2]).map(\.name) == ["Bob"])
            try #expect(Member.filter(ids: [1, 2]).fetchCount(db) == 2)
            try #expect(Member.selectID().fetchSet(db) == [1, 2, 3])
            try #expect(Member.exists(db, key: 1) && Member.exists(db, id: 2) && !Member.exists(db, key: 9))
            try #expect(Member.deleteOne(db, id: 1))
            try #expect(Member.deleteOne(db, key: 1) == false)
            try #expect(Member.deleteAll(db, ids: [1, 2]) == 1)
            try #expect(Member.deleteAll(db) == 1)
            try #expect(
                !Member.deleteOne(db, id: nil) && !Member.exists(db, id: nil) && Member.fetchOne(db, id: nil) == nil)
        }
    }

    @Test("errors of keys that no row has")
    func notFound() throws {
        try queue().write { db in
            let expected = RecordError.recordNotFound(databaseTableName: "member", key: ["id": 3.databaseValue])
            #expect(Member.recordNotFound(db, id: 3) as? RecordError == expected)
            #expect(Member.recordNotFound(db, key: 3) as? RecordError == expected)
            #expect(Member.recordNotFound(key: ["id": 3]) == expected)
            #expect(Member(id: 3, name: "a").recordNotFound(db) as? RecordError == expected)
            #expect(Citizenship.recordNotFound(db, key: 3) is DatabaseError)
            #expect(Missing(a: 1).recordNotFound(db) is DatabaseError)
        }
    }

    private struct Seat: TableRecord {}

    @Test("the columns of a key come in its order, those that it has not come last")
    func keyOrder() throws {
        try queue().write { db in
            try db.execute(sql: "CREATE TABLE seat (room TEXT, line INTEGER, a TEXT, PRIMARY KEY (room, line))")
            let request = Seat.filter(keys: [["line": 1, "a": "x", "ROOM": "r"], ["line": 2, "a": nil, "ROOM": "s"]])
            let lines = try statements(db) { _ = try Row.fetchAll(db, request) }
            #expect(
                lines == [
                    #"SELECT * FROM "seat" WHERE (("ROOM" = ?) AND ("line" = ?) AND ("a" = ?)) "#
                        + #"OR (("ROOM" = ?) AND ("line" = ?) AND ("a" IS NULL))"#
                ])
        }
    }

    @Test("100,000 keys in one filter find their rows")
    func manyKeys() throws {
        try queue().write { db in
            for name in ["Ann", "Bob"] { _ = try Member(id: nil, name: name).inserted(db) }
            let keys = Array(1...100_000)
            try #expect(Member.filter(keys: keys).fetchCount(db) == 2)
            try #expect(Member.filter(keys.contains(Column("id"))).fetchCount(db) == 2)
            try #expect(Member.filter(!keys.contains(Column("id"))).fetchCount(db) == 0)
            let names = (0..<2_000).map { "n\($0)\"\\\u{1}é" } + ["Bob"]
            try #expect(Member.filter(names.contains(Column("name"))).fetchAll(db).map(\.name) == ["Bob"])
            let blobs = (0..<2_000).map { Data([UInt8($0 % 256)]) }
            try #expect(
                Member.filter(blobs.contains(cast(Column("name"), as: .blob))).fetchCount(db) == 0)
            try #expect(
                Member.filter((blobs + [Data("Ann".utf8)]).contains(cast(Column("name"), as: .blob)))
                    .fetchCount(db)
                    == 1)
            try #expect(Member.deleteAll(db, keys: keys) == 2)
        }
    }

    // MARK: Batches

    @Test("batches of rows")
    func batches() throws {
        try queue().write { db in
            for (index, name) in ["Ann", "Bob", "Carl", "Dora"].enumerated() {
                _ = try Member(id: nil, name: name, score: index).inserted(db)
            }
            try #expect(Member.filter { $0.score > 1 }.updateAll(db) { $0.score += 10 } == 2)
            try #expect(Member.updateAll(db, Column("name").set(to: Column("name").uppercased)) == 4)
            try #expect(Member.updateAll(db, []) == 0)
            try #expect(Member.order(Column("score")).limit(1).updateAll(db) { [$0.score.set(to: 99)] } == 1)
            try #expect(Member.filter { $0.score == 99 }.fetchOne(db)?.name == "ANN")
            let updated = try Member.filter { $0.id == 1 }.updateAndFetchAll(db) { [$0.score -= 1] }
            #expect(updated == [Member(id: 1, name: "ANN", score: 98)])
            let same = try Member.filter(id: 1).updateAndFetchCursor(db, [Column("score") += 0])
            try #expect(Array(same) == updated)
            try #expect(Member.filter { $0.id == 1 }.deleteAndFetchAll(db) == updated)
            try #expect(Member.filter { $0.score > 10 }.deleteAndFetchIds(db) == [3, 4])
            try #expect(Member.fetchAll(db) == [Member(id: 2, name: "BOB", score: 1)])
        }
    }

    private struct Visit: Codable, Hashable, PersistableRecord, FetchableRecord {
        var id: Int64
    }

    @Test("grouped rows are deleted and changed where each group is one row")
    func groups() throws {
        try queue().write { db in
            try db.execute(sql: "CREATE TABLE visit (id INTEGER PRIMARY KEY); INSERT INTO visit VALUES (1), (2), (3)")
            let lines = try statements(db) {
                try Visit.all().group(-Column("id")).deleteAll(db)
                try Visit.all().group(Column.rowID).deleteAll(db)
            }
            #expect(
                lines == [
                    #"DELETE FROM "visit" WHERE "id" IN (SELECT "id" FROM "visit" GROUP BY -"id")"#,
                    #"DELETE FROM "visit" WHERE "id" IN (SELECT "id" FROM "visit" GROUP BY "rowid")"#,
                ])
            try Visit(id: 7).insert(db)
            let changed: Set<Visit> = try Visit.all().updateAndFetchSet(db, [Column("id") += 1])
            #expect(changed == [Visit(id: 8)])
        }
    }

    // MARK: Classes

    private final class Thing: PersistableRecord, FetchableRecord {
        static let databaseTableName = "country"
        var code: String
        var name: String?

        init(code: String, name: String?) { (self.code, self.name) = (code, name) }

        init(row: Row) {
            code = row["code"]
            name = row["name"]
        }

        func encode(to container: inout PersistenceContainer) {
            container["code"] = code
            container[Column("name")] = name
        }
    }

    @Test("a class, whose methods do not change it")
    func classes() throws {
        try queue().write { db in
            let thing = Thing(code: "FR", name: nil)
            try thing.insert(db)
            try #expect(thing.updateChanges(db) { $0.name = "Gaul" } && !thing.updateChanges(db) { _ in })
            let fetched = try thing.updateChangesAndFetch(db) { $0.name = "France" }
            #expect(fetched?.name == "France")
            try thing.update(db, columns: [Column("name")])
            try thing.save(db)
            try thing.upsert(db)
            try #expect(Thing.fetchOne(db, key: "FR")?.name == "France")
            try #expect(
                thing.saveAndFetch(db, fetch: { try String.fetchOne($0) }, select: { _ in [Column("code")] }) == "FR")
            try #expect(thing.saveAndFetch(db, as: Country.self) == Country(code: "FR", name: "France"))
            try #expect(thing.delete(db))
        }
    }

    // MARK: Bad input

    private struct Wrong: MutablePersistableRecord, Codable {
        static let databaseTableName = "member"
        var id: Int64?
        var nickname: String
    }

    private struct Missing: PersistableRecord, Codable { var a: Int }

    private struct Empty: PersistableRecord {
        static let databaseTableName = "member"
        func encode(to container: inout PersistenceContainer) {}
    }

    @Test("columns, tables and keys that are not there are errors with their names")
    func badInput() throws {
        try queue().write { db in
            func message(_ body: () throws -> Void) throws -> String {
                let error = try #require(#expect(throws: DatabaseError.self) { try body() })
                return error.message ?? ""
            }
            #expect(
                try message { _ = try Wrong(id: 1, nickname: "a").inserted(db) }
                    == "table member has no column named nickname")
            try #expect(message { try Missing(a: 1).insert(db) } == "no such table: missing")
            try #expect(message { try Empty().insert(db) }.contains("gives no column"))
            // A column that the table lacks is no part of an update.
            _ = try Member(id: 1, name: "Ann").inserted(db)
            try Wrong(id: 1, nickname: "a").update(db)
            try #expect(message { _ = try Citizenship.fetchOne(db, key: 1) }.contains("has 2 columns"))
            #expect(
                try message { _ = try Member.fetchOne(db, key: ["score": 1]) }.contains(
                    "no unique key on score"))
            #expect(throws: DatabaseError.self) { try Name(name: "Ann").inserted(db) }
            let other = DatabaseQueue()
            #expect(throws: DatabaseError.self) {
                try other.write { _ = try Member(id: nil, name: "Ann").inserted($0) }
            }
        }
    }
}
