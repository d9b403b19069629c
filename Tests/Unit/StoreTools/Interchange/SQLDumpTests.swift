import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

@Suite("Dumps of what only the program can read")
struct SQLDumpTests {
    private let fixture = ToolFixture()

    private func dump() throws -> (rows: Int, text: String) {
        let store = try #require(try SharedStore.openReadOnly(at: fixture.store, unlockedBy: fixture.source))
        defer { try? store.close() }
        var text = ""
        let rows = try store.read { db in try SQLDump().run(db) { text += $0 } }
        return (rows, text)
    }

    // Story: the dump ended in its middle, with "no query solution".
    @Test("a table WITHOUT ROWID with a key that only the program can compare has its rows, in the order of the bytes")
    func foreignKeyOrder() throws {
        var program = Configuration()
        program.prepareDatabase { db in db.add(collation: DatabaseCollation("prog") { $1.compare($0) }) }
        let store = try SharedStore.open(at: fixture.store, unlockedBy: fixture.source, configuration: program)
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE pair (k TEXT COLLATE prog PRIMARY KEY, v UNIQUE) WITHOUT ROWID;
                    INSERT INTO pair VALUES ('B', 1), ('a', 2), ('c', 3);
                    CREATE TABLE tail (x TEXT COLLATE prog UNIQUE); INSERT INTO tail VALUES ('last');
                    """)
        }
        try store.close()
        let (rows, text) = try dump()
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("INSERT") }.map(String.init)
        #expect(rows == 4)
        #expect(
            lines == [("'B',1"), ("'a',2"), ("'c',3")].map { "INSERT INTO \"pair\" VALUES(\($0));" }
                + ["INSERT INTO \"tail\" VALUES('last');"])
        #expect(text.hasSuffix("COMMIT;\n"))
    }

    // Story: such a table was missing from the dump.
    @Test("a table of the program with a prefix of the library's is written, and the history of changes is not")
    func reservedNames() throws {
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(sql: "CREATE TABLE cipherstore_mine (a); INSERT INTO cipherstore_mine VALUES (1)")
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text)")
        }
        try store.close()
        let text = try dump().text
        #expect(
            text.contains("CREATE TABLE cipherstore_mine (a);\nINSERT INTO \"cipherstore_mine\" VALUES(1);"), "\(text)")
        #expect(!text.contains("cipherstore_history") && !text.contains("cipherstore_custody"))
    }
}
