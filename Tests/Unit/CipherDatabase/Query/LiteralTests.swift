import CipherDatabase
import Foundation
import Testing

@Suite struct LiteralTests {
    private enum CodingKeys: String, CodingKey { case name }
    let queue = DatabaseQueue()

    private func build(_ literal: SQL) throws -> (sql: String, arguments: StatementArguments) {
        try queue.read { try literal.build($0) }
    }

    @Test("interpolated values become arguments, never text")
    func values() throws {
        let (name, score, missing): (String, Int?, Date?) = ("O'Brien; DROP TABLE t", 3, nil)
        let (sql, arguments) = try build("INSERT INTO player VALUES (\(name), \(score), \(missing), \(Data([1])))")
        #expect(sql == "INSERT INTO player VALUES (?, ?, NULL, ?)")
        #expect(arguments == [name, 3, Data([1])])
        let any: (any DatabaseValueConvertible)? = 1.5
        #expect(try build("\(any)").arguments == [1.5])
    }

    @Test("text, names and other literals are put in where they are named as such")
    func pieces() throws {
        let condition: SQL = "score > \(10)"
        let (sql, arguments) = try build(
            """
            SELECT \(CodingKeys.name) FROM \(identifier: "a \"b\"") WHERE \(literal: condition) \
            \(sql: "AND x = ?", arguments: [1]) ORDER BY \(sql: "name")
            """)
        #expect(sql == #"SELECT "name" FROM "a ""b""" WHERE score > ? AND x = ? ORDER BY name"#)
        #expect(arguments == [10, 1])
        let whole = try build("SELECT \("x") WHERE \(condition) AND \(SQL(sql: "y = ?", arguments: [2]))")
        #expect(whole.sql == "SELECT ? WHERE score > ? AND y = ?")
        #expect(whole.arguments == ["x", 10, 2])
    }

    @Test("a collation is put in by its name")
    func collations() throws {
        let request: SQLRequest<String> = "SELECT 'b' AS x UNION SELECT 'A' ORDER BY x COLLATE \(.nocase)"
        #expect(try queue.read { try request.fetchAll($0) } == ["A", "b"])
        let collation = DatabaseCollation("reversed") { $1.compare($0) }
        #expect(try build("COLLATE \(collation)").sql == "COLLATE \"reversed\"")
    }

    @Test("a sequence becomes a list of parameters; an empty one finds nothing", arguments: [[], [2], [1, 3]])
    func lists(ids: [Int]) throws {
        try queue.read { db throws in
            let literal: SQL = "SELECT column1 FROM (VALUES (1), (2), (3)) WHERE column1 IN \(ids)"
            #expect(try Int.fetchAll(db, SQLRequest<Int>(literal: literal)) == ids)
            #expect(try SQLRequest<Int>(literal: literal).fetchCount(db) == ids.count)
        }
        #expect(try build("\(Set([5]))").sql == "(?)")
        #expect(try build("\([1, 2, 3])").sql == "(?,?,?)")
        #expect(try build("\([])").sql == "(SELECT NULL WHERE NULL)")
        #expect((0...3).map { databaseQuestionMarks(count: $0) } == ["", "?", "?,?", "?,?,?"])
        #expect(try build("\(["a", 1] as [any DatabaseValueConvertible])").arguments == ["a", 1])
    }

    @Test("literals are joined with their arguments in order")
    func joining() throws {
        var query: SQL = "SELECT \(1)"
        query += " + \(2)"
        query.append(literal: " + \(3)")
        query.append(sql: " + ?", arguments: [4])
        query = query + SQL(sql: " AS sum")
        #expect(try build(query).sql == "SELECT ? + ? + ? + ? AS sum")
        #expect(try build(query).arguments == [1, 2, 3, 4])
        let parts: [SQL] = ["SELECT \(1)", "SELECT \(2)"]
        let union = try build(parts.joined(separator: " UNION "))
        #expect(union.sql == "SELECT ? UNION SELECT ?" && union.arguments == [1, 2])
        #expect(try build(parts.joined()).sql == "SELECT ?SELECT ?")
        #expect(SQL(sql: "").isEmpty && SQL("").isEmpty && !query.isEmpty)
    }

    @Test("literals run, and their statements come with their arguments set")
    func running() throws {
        try queue.write { db throws in
            try db.execute(
                literal: """
                    CREATE TABLE t(a, b); INSERT INTO t VALUES (\(1), \("x")); INSERT INTO t VALUES (\(2), \("y"))
                    """)
            #expect(try Row.fetchAll(db, sql: "SELECT * FROM t") == [["a": 1, "b": "x"], ["a": 2, "b": "y"]])
            let made = try db.makeStatement(literal: "SELECT b FROM t WHERE a = \(2)")
            #expect(try String.fetchOne(made) == "y")
            let cached = try db.cachedStatement(literal: "SELECT b FROM t WHERE a = \(1)")
            #expect(try String.fetchOne(cached) == "x")
            let again = try db.cachedStatement(literal: "SELECT b FROM t WHERE a = \(2)")
            #expect(again === cached)
            #expect(again.arguments == [2])
        }
    }

    @Test("the statements of a text come one after another, each with its arguments")
    func allStatements() throws {
        try queue.write { db throws in
            let sql = "CREATE TABLE t(a); -- a comment\n INSERT INTO t VALUES (?); ; INSERT INTO t VALUES (:b), (?)"
            let statements = try db.allStatements(sql: sql, arguments: StatementArguments([1, 2]) + ["b": 3])
            var count = 0
            while let statement = try statements.next() {
                try statement.execute()
                count += 1
            }
            #expect(count == 3)
            #expect(try statements.next() == nil)
            #expect(try Int.fetchSet(db, sql: "SELECT a FROM t") == [1, 2, 3])
            let literal: SQL = "SELECT \(1); SELECT \(2)"
            #expect(try Array(db.allStatements(literal: literal).map { try Int.fetchOne($0) ?? 0 }) == [1, 2])
            let bare = try db.allStatements(sql: "SELECT 1; SELECT ?")
            #expect(try bare.next()?.sql == "SELECT 1")
            #expect(databaseError { try bare.next()?.execute() }?.resultCode == .SQLITE_MISUSE)
            #expect(try db.allStatements(sql: " -- nothing\n ;").next() == nil)
        }
    }

    @Test("arguments that no statement of a text takes are an error at its end")
    func argumentsLeftOver() throws {
        try queue.read { db throws in
            let statements = try db.allStatements(sql: "SELECT ?", arguments: [1, 2])
            #expect(try Int.fetchOne(#require(try statements.next())) == 1)
            #expect(databaseError { try statements.next() }?.resultCode == .SQLITE_MISUSE)
            #expect(databaseError { try db.allStatements(sql: "SELECT ?", arguments: []).next() } != nil)
        }
    }

    // GRDB makes a statement of a literal without values as it makes one of SQL text: its arguments may come later.
    // They were set at once, none at all, so every such statement was refused.
    @Test("a literal without values makes statements that take their arguments later")
    func argumentsLater() throws {
        try queue.write { db throws in
            try db.execute(literal: "CREATE TABLE t(a, b)")
            try db.makeStatement(literal: "INSERT INTO t VALUES (?, ?)").execute(arguments: [1, "x"])
            try db.cachedStatement(literal: "INSERT INTO t VALUES (:a, :b)").execute(arguments: ["a": 2, "b": "y"])
            let made = try db.makeStatement(literal: "SELECT b FROM t WHERE a = :a")
            #expect(try String.fetchAll(made, arguments: ["a": 1]) == ["x"])
            let cached = try db.cachedStatement(literal: "SELECT b FROM t WHERE a = ?")
            #expect(try String.fetchOne(cached, arguments: [2]) == "y")
            let statements = try db.allStatements(literal: "SELECT a FROM t WHERE b = ?; SELECT b FROM t WHERE a = ?")
            #expect(try Int.fetchOne(try #require(try statements.next()), arguments: ["y"]) == 2)
            #expect(try String.fetchOne(try #require(try statements.next()), arguments: [1]) == "x")
            #expect(databaseError { try db.makeStatement(literal: "SELECT ?").execute() }?.resultCode == .SQLITE_MISUSE)
        }
    }

    @Test("a cached request without arguments does not run with those of another use of its SQL")
    func cachedRequest() throws {
        try queue.read { db throws in
            let sql = "SELECT ?"
            #expect(try SQLRequest<Int>(sql: sql, arguments: [1], cached: true).fetchOne(db) == 1)
            #expect(databaseError { try SQLRequest<Int>(sql: sql, cached: true).fetchOne(db) } != nil)
        }
    }
}
