import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite struct CollationTests {
    let queue = DatabaseQueue()

    private func sorted(_ words: [String], by collation: DatabaseCollation) throws -> [String] {
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS word(text); DELETE FROM word")
            for word in words { try db.execute(sql: "INSERT INTO word VALUES (?)", arguments: [word]) }
            return try String.fetchAll(
                db, sql: "SELECT text FROM word ORDER BY text COLLATE \(collation.name), rowid")
        }
    }

    @Test("a collation orders texts, and compares them in conditions and indexes")
    func order() throws {
        let byLength = DatabaseCollation("by_length") { left, right in
            left.count == right.count ? .orderedSame : left.count < right.count ? .orderedAscending : .orderedDescending
        }
        queue.writeWithoutTransaction { $0.add(collation: byLength) }
        #expect(try sorted(["ccc", "a", "", "bb", "dd"], by: byLength) == ["", "a", "bb", "dd", "ccc"])
        try queue.write { db in
            try db.execute(sql: "CREATE INDEX i ON word(text COLLATE by_length)")
            let sql = "SELECT text FROM word INDEXED BY i WHERE text = 'xx' COLLATE BY_LENGTH ORDER BY rowid"
            #expect(try String.fetchAll(db, sql: sql) == ["bb", "dd"])
            try db.reindex(collation: byLength)
            try db.reindex(collation: .nocase)
        }
    }

    @Test("a collation that was removed, or never added, fails with its name")
    func removed() throws {
        let collation = DatabaseCollation("mine") { _, _ in .orderedSame }
        try queue.writeWithoutTransaction { db in
            db.add(collation: collation)
            try db.execute(sql: "CREATE TABLE t(a TEXT COLLATE mine); INSERT INTO t VALUES ('a'), ('b')")
            #expect(try Int.fetchOne(db, sql: "SELECT COUNT(DISTINCT a) FROM t") == 1)
            db.remove(collation: collation)
            let error = databaseError { try Row.fetchAll(db, sql: "SELECT a FROM t ORDER BY a") }
            #expect(error?.message == "no such collation sequence: mine")
        }
        #expect(DatabaseCollation("MINE") { _, _ in .orderedSame } == collation)
    }

    @Test("the built-in collations order by Unicode and without case")
    func builtIn() throws {
        #expect(try sorted(["é", "z", "a"], by: .unicodeCompare) == ["a", "z", "é"].sorted())
        #expect(try sorted(["É", "a", "é", "A"], by: .caseInsensitiveCompare) == ["a", "A", "É", "é"])
        #expect(try sorted(["10", "9"], by: .localizedStandardCompare) == ["9", "10"])
        #expect(try sorted(["b", "A", "a"], by: .localizedCaseInsensitiveCompare) == ["A", "a", "b"])
        #expect(try sorted(["b", "a"], by: .localizedCompare) == ["a", "b"])
    }

    @Test("texts that are not UTF-8 are compared all the same")
    func invalidText() throws {
        // Both show as the replacement character.
        let sql = "SELECT CAST(x'ff' AS TEXT) = CAST(x'fe' AS TEXT) COLLATE swiftCompare"
        #expect(try queue.read { try Int.fetchOne($0, sql: sql) } == 1)
    }

    @Test("SQLite lets go of a collation when it is replaced, removed, or its connection is closed")
    func lifetime() throws {
        final class Guest: Sendable {}
        weak var replaced: Guest?
        weak var removed: Guest?
        weak var closed: Guest?
        do {
            let queue = DatabaseQueue()
            func collation(_ name: String) -> (DatabaseCollation, Guest) {
                let guest = Guest()
                return (DatabaseCollation(name) { [guest] in "\($0)\(guest)".compare("\($1)\(guest)") }, guest)
            }
            let (first, second, third) = (collation("a"), collation("b"), collation("c"))
            (replaced, removed, closed) = (first.1, second.1, third.1)
            queue.writeWithoutTransaction { db in
                for collation in [first.0, second.0, third.0] { db.add(collation: collation) }
                db.add(collation: DatabaseCollation("A") { _, _ in .orderedSame })
                db.remove(collation: second.0)
            }
        }
        #expect(replaced == nil && removed == nil && closed == nil)
    }
}
