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
        #expect(sql == "INSERT INTO player VALUES (?, ?, ?, ?)")
        #expect(arguments == [name, 3, nil, Data([1])])
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
}
