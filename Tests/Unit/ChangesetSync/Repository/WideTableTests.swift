import CipherDatabase
import CipherObservation
import Testing

@testable import ChangesetSync

/// Tables with as many columns as SQLite admits: SQL that names all of them has its own limits.
@Suite("Tables of 2,000 columns")
struct WideTableTests {
    private static let count = 2_000
    /// Without the key.
    private static let names = (1..<count).map { "c\($0)" }
    private static let table =
        "CREATE TABLE wide (id INTEGER PRIMARY KEY NOT NULL, \(names.joined(separator: ", ")))"
    private static let row = "INSERT INTO wide (id, c1, c1999) VALUES (1, 'first', 'last')"

    @Test("the history records changed columns and kept values of a table of 2,000 columns")
    func history() throws {
        let queue = DatabaseQueue()
        let token = try queue.write { db in
            try db.execute(sql: Self.table)
            try db.recordHistory(of: .allTables, columns: true, keeping: ["wide": Array(Self.names.prefix(1_900))])
            return try db.historyToken()
        }
        try queue.write { try $0.execute(sql: Self.row) }
        try queue.write { try $0.execute(sql: "UPDATE wide SET c5 = 1, c1999 = 2") }
        try queue.write { try $0.execute(sql: "UPDATE wide SET id = 2") }
        try queue.write { try $0.execute(sql: "REPLACE INTO wide (id, c1) VALUES (2, 'other')") }
        try queue.write { try $0.execute(sql: "DELETE FROM wide") }
        let changes = try queue.history(since: token).transactions.flatMap(\.changes)
        let kinds = changes.map(\.kind)
        #expect(kinds == [.inserted, .updated, .deleted, .inserted, .deleted, .inserted, .deleted], "\(kinds)")
        #expect(changes[1].changedColumns?.contains("c5") == true)
        #expect(changes.last?.formerValues["c1"] == "other".databaseValue && changes.last?.formerValues.count == 1_900)
        #expect(try queue.read { try $0.isHistoryInOrder() })
    }

    @Test("a key and kept values that the history has no room for are refused by name when recording begins")
    func tooWideHistory() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: Self.table)
            let error = #expect(throws: HistoryError.self) {
                try db.recordHistory(of: .tables(["wide"]), keeping: ["wide": Self.names])
            }
            let message = error?.message ?? ""
            #expect(error?.code == .unsuitableTable && message.contains("1999"), "\(message)")
            #expect(try db.historyStatus() == nil)
            try db.recordHistory(of: .tables(["wide"]))
        }
    }

    @Test("a table of 2,000 columns is committed, pulled, merged, reverted and taken up by a new device")
    func sync() throws {
        let one = try Replica(Self.table + ";" + Self.row, tracking: ["wide"])
        let two = try Replica(Self.table, tracking: ["wide"], key: one.key())
        try two.fetch(one)
        try two.repository.mergeAll()
        try two.repository.pull()
        #expect(try two.state() == one.state())
        let all = Self.names.map { "\($0) = 'x'" }.joined(separator: ", ")
        try one.run("UPDATE wide SET \(all)")
        try one.run("INSERT INTO wide (id, c2) VALUES (2, 'two'); REPLACE INTO wide (id, c3) VALUES (2, 'three')")
        try two.run("UPDATE wide SET c7 = 'seven' WHERE id = 1")
        try two.write("UPDATE wide SET c8 = 'eight' WHERE id = 1")
        try two.repository.commitForeignWrites(meta: "{}")
        try two.fetch(one)
        try one.fetch(two)
        for replica in [one, two] {
            try replica.repository.mergeAll()
            try replica.repository.pull()
            #expect(try replica.repository.verify().isEmpty)
        }
        #expect(try two.state() == one.state())
        let last = try #require(try one.run("DELETE FROM wide WHERE id = 1"))
        try one.repository.revert(last)
        #expect(try two.state() == one.state())
        #expect(try one.strings("SELECT c3 FROM wide WHERE id = 2") == ["'three'"])
    }
}
