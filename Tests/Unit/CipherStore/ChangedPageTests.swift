import CipherStore
import Foundation
import TestKit
import Testing

/// Stores of which a page was changed by somebody without the key.
@Suite struct ChangedPageTests {
    /// A program's way to read a table, or to copy it.
    struct Reading: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let values: @Sendable (any DatabaseWriter) throws -> [String]
    }

    private static let readings = [
        Reading(testDescription: "one row by its key") { store in
            try store.read { try Row.fetchOne($0, sql: "SELECT d FROM b WHERE id = 1").map { [$0[0]] } ?? [] }
        },
        Reading(testDescription: "one value by its key") { store in
            try store.read { try String.fetchOne($0, sql: "SELECT d FROM b WHERE id = 2").map { [$0] } ?? [] }
        },
        Reading(testDescription: "all rows") { store in
            try store.read { try Row.fetchAll($0, sql: "SELECT d FROM b ORDER BY id").map { $0[0] } }
        },
        Reading(testDescription: "a length") { store in
            try store.read { try Int.fetchAll($0, sql: "SELECT length(d) FROM b").map(String.init) }
        },
        Reading(testDescription: "a search that finds nothing where the value is zeros") { store in
            try store.read { try String.fetchAll($0, sql: "SELECT id FROM b WHERE d LIKE '%end 1%'") }
        },
        Reading(testDescription: "the same outside of a transaction") { store in
            try store.writeWithoutTransaction {
                try String.fetchAll($0, sql: "SELECT id FROM b WHERE d LIKE '%end 1%'")
            }
        },
        Reading(testDescription: "a value by an index") { store in
            try store.read { try String.fetchAll($0, sql: "SELECT e FROM i INDEXED BY ie WHERE e > '' ORDER BY e") }
        },
        Reading(testDescription: "a copy of the rows") { store in
            try store.write { db in
                try db.execute(sql: "CREATE TEMP TABLE copy AS SELECT d FROM b")
                return try String.fetchAll(db, sql: "SELECT d FROM copy ORDER BY d")
            }
        },
        Reading(testDescription: "an update of what the value selects") { store in
            try store.write { db in
                try db.execute(sql: "UPDATE n SET seen = 1 WHERE (SELECT d FROM b WHERE id = 1) LIKE '%end 1%'")
                return try String.fetchAll(db, sql: "SELECT seen FROM n")
            }
        },
        Reading(testDescription: "a copy of the database") { store in
            var configuration = Configuration()
            configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 7, count: 32)) }
            let copy = DatabaseQueue(configuration: configuration)
            try store.backup(to: copy)
            return try copy.read { try String.fetchAll($0, sql: "SELECT d FROM b ORDER BY id") }
        },
    ]

    private let folder = TemporaryFolder()

    private func make(_ name: String) throws -> String {
        let path = folder.path(name)
        try Opening.sharedStore.open(path, .raw(7)) { store in
            try store.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE b (id INTEGER PRIMARY KEY, d TEXT); CREATE TABLE n (seen INTEGER);
                        CREATE TABLE i (e TEXT); CREATE INDEX ie ON i (e); INSERT INTO n VALUES (0);
                        """)
                for id in 1...3 {
                    let text = String(repeating: "pay 100 EUR to Bob; ", count: 399 + id) + "end \(id)"
                    try db.execute(sql: "INSERT INTO b (d) VALUES (?)", arguments: [text])
                    try db.execute(sql: "INSERT INTO i (e) VALUES (?)", arguments: [text])
                }
            }
        }
        return path
    }

    // Story: SQLCipher gives SQLite a changed page as zeros and reports it with the next page. The last page of a long value
    // is followed by none: `SELECT d` gave a text that was half zeros, and a search found nothing.
    @Test("no value of a changed page is ever read: the access fails, whatever it reads", arguments: readings)
    func changed(_ reading: Reading) throws {
        let path = try make("app.db")
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var refusals = 0
        let openings = [Opening.sharedStore, .pool, .queue]
        let expected = try Opening.sharedStore.open(path, .raw(7)) { try reading.values($0) }
        #expect(!expected.isEmpty)
        for page in 1..<whole.count / 4096 {
            let opening = openings[page % openings.count]
            var changed = whole
            changed[page * 4096 + 777] ^= 1
            try changed.write(to: URL(fileURLWithPath: path))
            let place: Comment = "page \(page + 1), \(opening)"
            do {
                let values = try opening.open(path, .raw(7)) { try reading.values($0) }
                #expect(values == expected, place)
            } catch let error as DatabaseError {
                refusals += 1
                #expect(error.resultCode == .SQLITE_CORRUPT, place)
            } catch let error as StoreError {
                refusals += 1
                #expect(error.code != .wrongKey, place)
            }
        }
        try whole.write(to: URL(fileURLWithPath: path))
        #expect(refusals > 0)
    }

    @Test("a cursor gives no row of a changed page before it fails")
    func cursor() throws {
        let path = try make("app.db")
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        for page in 1..<whole.count / 4096 {
            var changed = whole
            changed[page * 4096 + 777] ^= 1
            try changed.write(to: URL(fileURLWithPath: path))
            var ends: [String] = []
            try? Opening.sharedStore.open(path, .raw(7)) { store in
                try store.read { db in
                    let rows = try Row.fetchCursor(db, sql: "SELECT d FROM b ORDER BY id")
                    while let row = try rows.next() { ends.append(String((row[0] as String).suffix(5))) }
                }
            }
            #expect(ends == Array(["end 1", "end 2", "end 3"].prefix(ends.count)), "page \(page + 1)")
        }
    }

    @Test("an error of a statement itself stays what it is")
    func ownErrors() throws {
        let path = try make("app.db")
        try Opening.sharedStore.open(path, .raw(7)) { store in
            try store.write { db in
                let error = #expect(throws: DatabaseError.self) {
                    try String.fetchOne(db, sql: "SELECT json_extract(d, '$.a') FROM b")
                }
                #expect(error?.resultCode == .SQLITE_ERROR)
                #expect(error?.message == "malformed JSON")
            }
        }
    }

    @Test("the library's own reads appear in no trace")
    func trace() throws {
        let path = try make("app.db")
        try Opening.sharedStore.open(path, .raw(7)) { store in
            try store.writeWithoutTransaction { db in
                var traced: [String] = []
                db.trace { traced.append("\($0)") }
                _ = try Row.fetchAll(db, sql: "SELECT d FROM b")
                #expect(traced == ["SELECT d FROM b"])
            }
        }
    }
}
