import CipherDatabase
import CipherRecords
import Foundation
import Testing

// Story: a record kept the row that it was read from, and the row referred to a statement that was finalized.

@Suite("Rows that writing statements return may be kept")
struct ReturnedRowTests {
    /// Keeps its row without copying it.
    private struct Keeper: FetchableRecord, MutablePersistableRecord {
        static let databaseTableName = "item"
        var id: Int64?
        var name = "first value that is longer than an inline string"
        var row: Row?

        init() {}
        init(row: Row) throws {
            id = row["id"]
            self.row = row
        }
        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["name"] = name
        }
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
        var kept: String? { row?["name"] }
    }

    private enum Keys: String, CodingKey { case id, name }

    /// Keeps the decoder and the container that it was read from.
    private struct DecoderKeeper: Decodable, FetchableRecord, TableRecord {
        static let databaseTableName = "item"
        let id: Int64
        let decoder: any Decoder
        let container: KeyedDecodingContainer<Keys>
        init(from decoder: any Decoder) throws {
            self.decoder = decoder
            container = try decoder.container(keyedBy: Keys.self)
            id = try container.decode(Int64.self, forKey: .id)
        }
        var kept: String {
            get throws {
                let again = try decoder.container(keyedBy: Keys.self)
                return try "\(container.decode(Int64.self, forKey: .id)) "
                    + again.decode(String.self, forKey: .name)
            }
        }
    }

    private struct Refusing: FetchableRecord, TableRecord {
        static let databaseTableName = "item"
        // Safe because: one test uses it on one thread.
        struct Refusal: Error, @unchecked Sendable { let row: Row }
        init(row: Row) throws { throw Refusal(row: row) }
    }

    private func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE)") }
        return queue
    }

    /// Runs statements that take the memory of one that was finalized.
    private func reuseMemory(_ db: Database) throws {
        for number in 0..<200 {
            _ = try Row.fetchAll(db.makeStatement(sql: "SELECT id, name, \(number) FROM item"))
        }
    }

    @Test("of insertAndFetch, updateAndFetch, saveAndFetch and upsertAndFetch")
    func keptRows() throws {
        let text = "first value that is longer than an inline string"
        try queue().write { db in
            var rows: [Row] = []
            let item = Keeper()
            let inserted = try item.insertAndFetch(db)
            rows.append(try #require(inserted.row))
            var saved = Keeper()
            saved.id = inserted.id
            rows.append(try #require(saved.saveAndFetch(db).row))
            rows.append(try #require(saved.updateAndFetch(db).row))
            rows.append(try #require(saved.upsertAndFetch(db).row))
            rows.append(try #require(saved.upsertAndFetch(db, as: Keeper.self).row))
            try reuseMemory(db)
            for row in rows {
                #expect(row["name"] == text)
                #expect(row["id"] == 1)
            }
        }
    }

    @Test("of statements with RETURNING, with and without an adapter, and after an error")
    func keptRowsOfStatements() throws {
        try queue().write { db in
            var kept: [Row] = []
            for adapter in [nil, SuffixRowAdapter(fromIndex: 0)] {
                let statement = try db.makeStatement(
                    sql: "INSERT INTO item (name) VALUES ('text \(kept.count)') RETURNING id, name")
                kept.append(try #require(Keeper.fetchOne(statement, adapter: adapter)?.row))
            }
            do {
                let statement = try db.makeStatement(sql: "INSERT INTO item (name) VALUES ('text 2') RETURNING *")
                _ = try Refusing.fetchOne(statement)
            } catch let refusal as Refusing.Refusal {
                kept.append(refusal.row)
            }
            let all = try Keeper.fetchAll(
                db.makeStatement(sql: "UPDATE item SET name = name || '' WHERE id = 1 RETURNING *"))
            try reuseMemory(db)
            #expect(kept.map { $0["name"] as String? } == ["text 0", "text 1", "text 2"])
            #expect(all.count == 1)
            try #expect(Int.fetchOne(db, sql: "SELECT count(*) FROM item") == 3)
        }
    }

    @Test("also by their decoders and containers")
    func keptDecoders() throws {
        try queue().write { db in
            var keepers: [DecoderKeeper] = []
            for number in 1...3 {
                var item = Keeper()
                item.name = "name \(number)"
                keepers.append(try item.insertAndFetch(db, as: DecoderKeeper.self))
            }
            try reuseMemory(db)
            try #expect(keepers.map { try $0.kept } == ["1 name 1", "2 name 2", "3 name 3"])
        }
    }
}
