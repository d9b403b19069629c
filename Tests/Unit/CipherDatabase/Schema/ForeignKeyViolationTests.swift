import CipherDatabase
import CipherSchema
import TestKit
import Testing

@Suite struct ForeignKeyViolationTests {
    private func queue(publicValues: Bool = false) throws -> DatabaseQueue {
        var config = Configuration()
        config.foreignKeysEnabled = false
        config.publicStatementArguments = publicValues
        let queue = DatabaseQueue(configuration: config)
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE book (id INTEGER PRIMARY KEY, authorId REFERENCES author, title TEXT);
                    CREATE TABLE loan (a REFERENCES author, b, PRIMARY KEY (b)) WITHOUT ROWID;
                    INSERT INTO author VALUES (1, 'Ann');
                    INSERT INTO book VALUES (1, 1, 'fine'), (7, 2, 'secret title');
                    """)
        }
        return queue
    }

    @Test("violations name table, row, other table and foreign key")
    func violations() throws {
        try queue().write { db in
            let violations = try Array(db.foreignKeyCheck().map(ForeignKeyViolation.init(row:)))
            let violation = try #require(violations.first)
            #expect(violations.count == 1)
            #expect(violation.originTable == "book" && violation.originRowID == 7)
            #expect(violation.destinationTable == "author")
            #expect(try db.foreignKeys(on: "book").map(\.id) == [violation.foreignKeyId])
            #expect(violation.description == "FOREIGN KEY constraint violation - from book to author, in rowid 7")
            let text = """
                FOREIGN KEY constraint violation - from book(authorId) to author(id), \
                in [id:7 authorId:2 title:"secret title"]
                """
            #expect(try violation.failureDescription(db) == text)
        }
    }

    @Test("the error of a violation shows values only where they are public")
    func errors() throws {
        let key = "FOREIGN KEY constraint violation - from book(authorId) to author(id)"
        for (isPublic, message) in [
            (false, "\(key), in rowid 7"), (true, "\(key), in [id:7 authorId:2 title:\"secret title\"]"),
        ] {
            let error = databaseError { try queue(publicValues: isPublic).read { try $0.checkForeignKeys() } }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
            #expect(error?.message == message)
        }
    }

    @Test("one table is checked by itself, in the schema that is named")
    func oneTable() throws {
        try queue().write { db in
            try db.checkForeignKeys(in: "author")
            try db.checkForeignKeys(in: "loan")
            #expect(databaseError { try db.checkForeignKeys(in: "BOOK", in: "main") } != nil)
            #expect(databaseError { try db.checkForeignKeys(in: "book", in: "temp") }?.message.map { "\($0)" } != nil)
            #expect(databaseError { try db.checkForeignKeys(in: "titles") }?.message == "no such table: titles")
        }
    }

    @Test("a row of a table without rowids is told by its table alone")
    func withoutRowID() throws {
        try queue().write { db in
            try db.execute(sql: "DELETE FROM book; INSERT INTO loan VALUES (9, 'x')")
            let row = try #require(try db.foreignKeyCheck(of: "loan").next())
            let violation = ForeignKeyViolation(row: row)
            #expect(violation.originRowID == nil)
            let text = "FOREIGN KEY constraint violation - from loan(a) to author(id)"
            #expect(try violation.failureDescription(db) == text)
            #expect(violation.databaseError(db).message == text)
        }
    }
}
