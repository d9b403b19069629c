import Testing

@testable import CipherDatabase

@Suite struct StatementTests {
    let queue: DatabaseQueue

    init() throws { queue = try Databases.queueWithTable() }

    // MARK: Several statements in one text

    @Test("execute runs several statements, each with its own positional arguments")
    func severalStatements() throws {
        try queue.write { db in
            try db.execute(
                sql: "INSERT INTO t VALUES (?); UPDATE t SET a = a + ?; INSERT INTO t VALUES (?) -- the end",
                arguments: [1, 10, 3])
            #expect(try Int.fetchAll(db, sql: "SELECT a FROM t ORDER BY rowid") == [11, 3])
        }
    }

    @Test("named arguments serve every statement of a text, and names that it does not have are left alone")
    func namedArguments() throws {
        try queue.write { db in
            try db.execute(
                sql: "INSERT INTO t VALUES (:a); INSERT INTO t VALUES (@b); INSERT INTO t VALUES ($a)",
                arguments: ["a": 1, "b": 2, "unused": 3])
            #expect(try Int.fetchAll(db, sql: "SELECT a FROM t ORDER BY rowid") == [1, 2, 1])
        }
    }

    @Test("named and positional arguments may stand together")
    func mixedArguments() throws {
        try queue.write { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT ?, :name, ?", arguments: ["first", "last"] + ["name": "Ann"])
            #expect(row?.databaseValues == ["first", "Ann", "last"])
        }
    }

    @Test("a statement may use one that was made by the statement before it")
    func dependentStatements() throws {
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE u(a); INSERT INTO u VALUES (1); ALTER TABLE u ADD b; UPDATE u SET b = 2")
            #expect(try Int.fetchOne(db, sql: "SELECT b FROM u") == 2)
        }
    }

    // MARK: Wrong arguments

    @Test(
        "the wrong number of arguments is a misuse, and nothing of a single statement runs",
        arguments: [
            ("INSERT INTO t VALUES (?)", [] as StatementArguments), ("INSERT INTO t VALUES (?)", [1, 2]),
            ("INSERT INTO t VALUES (1)", [1]), ("INSERT INTO t VALUES (1);\n", [1]), ("", [1]),
            ("INSERT INTO t VALUES (:a)", ["b": 1]), ("INSERT INTO t VALUES (:a + ?)", ["a": 1]),
        ] as [(String, StatementArguments)])
    func wrongArguments(sql: String, arguments: StatementArguments) throws {
        try queue.write { db throws in
            let error = databaseError { try db.execute(sql: sql, arguments: arguments) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
            #expect(try db.rowCount() == 0)
        }
    }

    @Test("a missing argument is named")
    func missingName() throws {
        try queue.write { db in
            let error = databaseError { try db.execute(sql: "INSERT INTO t VALUES (:score)", arguments: ["sore": 1]) }
            #expect(error?.message == "missing statement argument: score")
        }
    }

    @Test("arguments can be checked before anything runs")
    func validation() throws {
        try queue.write { db in
            let statement = try db.makeStatement(sql: "INSERT INTO t VALUES (?)")
            try statement.validateArguments([1])
            #expect(databaseError { try statement.validateArguments([]) }?.resultCode == .SQLITE_MISUSE)
            #expect(databaseError { try statement.validateArguments([1, 2]) }?.resultCode == .SQLITE_MISUSE)
        }
    }

    // MARK: Compiling

    @Test("makeStatement refuses a text without a statement", arguments: ["", " ;; ", "-- nothing", "/* nothing */"])
    func emptyText(sql: String) throws {
        try queue.read { db in
            #expect(databaseError { try db.makeStatement(sql: sql) }?.resultCode == .SQLITE_MISUSE)
            try db.execute(sql: sql)
        }
    }

    @Test("makeStatement refuses a text of several statements, but takes comments and semicolons behind one")
    func severalInOne() throws {
        try queue.read { db throws in
            #expect(databaseError { try db.makeStatement(sql: "SELECT 1; SELECT 2") }?.resultCode == .SQLITE_MISUSE)
            #expect(try Int.fetchOne(db.makeStatement(sql: "SELECT 1; -- one\n; ")) == 1)
        }
    }

    @Test("an error of SQL names code, message and text")
    func syntaxError() throws {
        let error = databaseError { try queue.read { try $0.makeStatement(sql: "SELEC 1") } }
        #expect(error?.resultCode == .SQLITE_ERROR)
        #expect(error?.description == "SQLite error 1: near \"SELEC\": syntax error - while executing `SELEC 1`")
    }

    @Test("a statement tells its SQL, its columns and whether it writes")
    func properties() throws {
        try queue.read { db in
            let reading = try db.makeStatement(sql: " SELECT a AS first, a AS \"second\" FROM t; ")
            #expect(reading.sql == "SELECT a AS first, a AS \"second\" FROM t")
            #expect(reading.columnNames == ["first", "second"])
            #expect(reading.columnCount == 2)
            #expect(reading.isReadonly)
            #expect(try !db.makeStatement(sql: "DELETE FROM t").isReadonly)
            #expect(try db.makeStatement(sql: "DELETE FROM t").columnCount == 0)
            #expect(try !db.makeStatement(sql: "BEGIN IMMEDIATE").isReadonly)
        }
    }

    // MARK: Running again

    @Test("a statement keeps its arguments, takes new ones, and runs again")
    func runningAgain() throws {
        try queue.write { db in
            let statement = try db.makeStatement(sql: "INSERT INTO t VALUES (?)")
            try statement.execute(arguments: [1])
            try statement.execute()
            try statement.setArguments([2])
            try statement.execute()
            #expect(try Int.fetchAll(db, sql: "SELECT a FROM t ORDER BY rowid") == [1, 1, 2])
        }
    }

    @Test("a statement that failed can run again")
    func runningAfterFailure() throws {
        try queue.write { db in
            try db.execute(sql: "CREATE UNIQUE INDEX i ON t(a)")
            let statement = try db.makeStatement(sql: "INSERT INTO t VALUES (?) RETURNING a")
            try statement.execute(arguments: [1])
            let error = databaseError { try statement.execute(arguments: [1]) }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
            #expect(try Int.fetchOne(statement, arguments: [2]) == 2)
            #expect(try db.rowCount() == 2)
        }
    }

    @Test("thousands of arguments go to the statements of one text")
    func manyArguments() throws {
        try queue.write { db in
            let row = "(" + Array(repeating: "?", count: 10).joined(separator: ",") + ")"
            let statement = "INSERT INTO wide VALUES \(Array(repeating: row, count: 300).joined(separator: ","));"
            try db.execute(sql: "CREATE TABLE wide(\((0..<10).map { "c\($0)" }.joined(separator: ",")))")
            try db.execute(
                sql: Array(repeating: statement, count: 10).joined(), arguments: StatementArguments(0..<30_000))
            #expect(try Int.fetchOne(db, sql: "SELECT COUNT(DISTINCT c9) FROM wide") == 3000)
        }
    }

    // MARK: Schema changes

    @Test("a statement follows a change of the schema: other columns of the same number, more and fewer")
    func schemaChange() throws {
        try queue.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            let statement = try db.makeStatement(sql: "SELECT * FROM t")
            #expect(try Row.fetchOne(statement) == ["a": 1])
            try db.execute(sql: "ALTER TABLE t RENAME a TO b")
            #expect(try Row.fetchOne(statement) == ["b": 1])
            try db.execute(sql: "ALTER TABLE t ADD c DEFAULT 2")
            #expect(try Row.fetchAll(statement) == [["b": 1, "c": 2]])
            #expect(statement.columnCount == 2)
            try db.execute(sql: "ALTER TABLE t RENAME c TO d")
            let cursor = try Row.fetchCursor(statement)
            let row = try #require(try cursor.next())
            #expect(row.columnNames == ["b", "d"])
            #expect(row["D"] as Int == 2)
            try db.execute(sql: "ALTER TABLE t DROP COLUMN d")
            #expect(try Row.fetchAll(statement) == [["b": 1]])
        }
    }

    // MARK: The end of an access

    // It was skipped when its access ended, and kept its arguments for ever.
    @Test("a statement that was between rows when its access ended loses its arguments with a later access")
    func clearedLater() throws {
        var cursor: RowCursor?
        var kept: Statement?
        try queue.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1), (2)")
            let statement = try db.cachedStatement(sql: "SELECT a FROM t WHERE a <> ?")
            cursor = try Row.fetchCursor(statement, arguments: ["secret"])
            _ = try cursor?.next()
            kept = statement
        }
        #expect(kept?.handle.expandedSQL?.contains("secret") == true)
        try queue.write { _ in cursor = nil }
        #expect(kept?.arguments.isEmpty == true)
        #expect(kept?.handle.expandedSQL?.contains("secret") == false)
    }

    @Test("a row that a program makes keeps what could not be encoded, so that storing it throws")
    func unencodableInRow() throws {
        let row = Row(["a": DatabaseValue.unencodable, "b": DatabaseValue.null])
        #expect((row["a"] as DatabaseValue).isUnencodable && !(row["b"] as DatabaseValue).isUnencodable)
        let value = row["a"] as DatabaseValue
        #expect(throws: DatabaseError.self) {
            try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [value]) }
        }
    }

    @Test("kept statements have no arguments and no row of an access that has ended")
    func clearedStatements() throws {
        var kept: [Statement] = []
        try queue.write { db in
            let insertion = try db.cachedStatement(sql: "INSERT INTO t VALUES (?)")
            try insertion.execute(arguments: ["secret"])
            #expect(insertion.arguments == ["secret"])
            let integers = try db.cachedStatement(sql: "INSERT INTO t VALUES (?), (?)")
            try integers.execute(arguments: [123_456, 654_321])
            let unchecked = try db.cachedStatement(sql: "SELECT a FROM t WHERE a = :a")
            unchecked.setUncheckedArguments(["a": "secret"])
            _ = try #require(try Row.fetchOne(unchecked))
            kept = [insertion, integers, unchecked]
            #expect(kept.allSatisfy { $0.handle.expandedSQL?.contains("NULL") == false })
        }
        for statement in kept {
            #expect(statement.arguments.isEmpty)
            #expect(statement.handle.expandedSQL?.contains("NULL") == true)
        }
        try queue.write { db in
            // A statement that runs again needs arguments again.
            let insertion = try db.cachedStatement(sql: "INSERT INTO t VALUES (?)")
            #expect(insertion === kept[0])
            #expect(throws: DatabaseError.self) { try insertion.execute() }
            try insertion.execute(arguments: [7])
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM t WHERE a IN ('secret', 7)") == 2)
            // In one access they stay.
            try insertion.execute()
            db.releaseMemory()
            #expect(insertion.arguments.isEmpty)
        }
    }

    @Test("a statement of the program keeps its arguments, and so does a cursor between two rows")
    func statementsOfThePrograms() throws {
        var own: Statement?
        var cursor: RowCursor?
        try queue.write { db in
            own = try db.makeStatement(sql: "SELECT ?")
            try own?.setArguments(["a"])
            let cached = try db.cachedStatement(sql: "SELECT ? UNION ALL SELECT ?")
            cursor = try Row.fetchCursor(cached, arguments: [1, 2])
            _ = try cursor?.next()
        }
        try queue.write { _ in
            let kept = try String.fetchOne(try #require(own))
            #expect(kept == "a")
            let second: Int? = try cursor?.next()?[0]
            #expect(second == 2)
        }
    }
}
