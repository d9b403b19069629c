import CSQLCipher
import CipherDatabase
import Foundation
import Testing

@Suite struct ArgumentsTests {
    let queue = DatabaseQueue()

    @Test("arguments are made from arrays, sequences, dictionaries and pairs, of any type that a database holds")
    func making() throws {
        let mixed: [(any DatabaseValueConvertible)?] = [1, "x", nil]
        #expect(StatementArguments(mixed) == [1, "x", nil])
        #expect(StatementArguments([1, 2].lazy.map { $0 + 1 }) == [2, 3])
        let named: [String: (any DatabaseValueConvertible)?] = ["a": 1, "b": nil]
        #expect(StatementArguments(named) == ["a": 1, "b": nil])
        let pairs: [(String, (any DatabaseValueConvertible)?)] = [("a", 1), ("a", 2)]
        #expect(StatementArguments(pairs) == ["a": 2])
        #expect(StatementArguments([1, "x", NSNull()] as [Any]) == [1, "x", nil])
        #expect(StatementArguments([1, [1]] as [Any]) == nil)
        #expect(StatementArguments(["a": 1, "b": Data([1])] as [AnyHashable: Any]) == ["a": 1, "b": Data([1])])
        #expect(StatementArguments([1: 1] as [AnyHashable: Any]) == nil)
        #expect(StatementArguments(["a": Date.self] as [AnyHashable: Any]) == nil)
        #expect(StatementArguments().isEmpty && !StatementArguments([nil]).isEmpty)
    }

    @Test("arguments are added up; a name of both sides takes the later value, which append tells")
    func adding() {
        var arguments: StatementArguments = [1]
        arguments += ["a": 1, "b": 2]
        #expect(arguments.append(contentsOf: [2]) == [:])
        #expect(arguments.append(contentsOf: ["a": 3, "c": 4]) == ["a": 1])
        #expect(arguments == StatementArguments([1, 2]) + ["a": 3, "b": 2, "c": 4])
        #expect((["a": 1] as StatementArguments) &+ ["a": 2] == ["a": 2])
    }

    @Test("named parameters take their values by name, the others theirs in turn")
    func names() throws {
        try queue.read { db throws in
            let sql = "SELECT ?, :a, @b, $c, :a, ?"
            let arguments: StatementArguments = [1, 2]
            let row = try Row.fetchOne(db, sql: sql, arguments: arguments + ["a": "A", "b": "B", "c": "C"])
            #expect(row?.databaseValues == [1, "A", "B", "C", "A", 2])
            #expect(try Row.fetchOne(db, sql: "SELECT :a, :b", arguments: [1, 2])?.databaseValues == [1, 2])
        }
    }

    private static let misfits: [(String, StatementArguments)] = [
        ("SELECT ?", []), ("SELECT ?", ["secret", "secret"]), ("SELECT 1", ["secret"]),
        ("SELECT :name", ["nam": "secret"]), ("SELECT :a, ?", ["a": "secret"]),
        ("SELECT 1", ["name": "secret"]), ("SELECT ?", ["name": "secret"]),
        ("SELECT ?", ["secret"] + ["name": "secret"]),
    ]

    @Test("arguments that do not fit are an error that does not tell their values", arguments: misfits)
    func wrongArguments(sql: String, arguments: StatementArguments) throws {
        try queue.read { db throws in
            let statement = try db.makeStatement(sql: sql)
            for error in [
                databaseError { try Row.fetchAll(db, sql: sql, arguments: arguments) },
                databaseError { try db.execute(sql: sql, arguments: arguments) },
                databaseError { try statement.setArguments(arguments) },
                databaseError { try statement.validateArguments(arguments) },
            ] {
                #expect(error?.resultCode == .SQLITE_MISUSE)
                #expect(error?.message?.contains("statement argument") == true)
                #expect("\(error as Any)".contains("secret") == false)
            }
        }
    }

    @Test("a dictionary may hold more than the SQL asks for; one that holds nothing for it is refused by name")
    func unknownNames() throws {
        try queue.write { db throws in
            let row: StatementArguments = ["a": 1, "b": 2, "other": 3]
            #expect(try Row.fetchOne(db, sql: "SELECT :a, :b", arguments: row)?.databaseValues == [1, 2])
            try db.makeStatement(sql: "SELECT :a").validateArguments(row)
            try db.execute(
                sql: "CREATE TABLE t(a, b); INSERT INTO t VALUES (:a, :b); INSERT INTO t (a) VALUES (:a)",
                arguments: row)
            let insert = "INSERT INTO t (a) VALUES (:a)"
            let missing = databaseError { try db.execute(sql: insert, arguments: ["A": "secret"]) }
            #expect(missing?.message == "missing statement argument: a")
            let named = databaseError { try db.execute(sql: "SELECT :a", arguments: [1] + ["b": 2]) }
            #expect(named?.message == "unknown statement argument: b")
            let unknown = databaseError { try db.execute(sql: "SELECT 1; DELETE FROM t", arguments: ["id": 1]) }
            #expect(unknown?.message == "unknown statement argument: id")
            #expect(unknown?.resultCode == .SQLITE_MISUSE)
            let first = databaseError { try db.execute(sql: "DELETE FROM t", arguments: ["id": 1, "ab": 2]) }
            #expect(first?.message == "unknown statement argument: ab, id")
            #expect(first?.sql == "DELETE FROM t")
        }
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 2)
    }

    @Test("a statement without the arguments that it needs does not run, and some that do not fit change nothing")
    func missingArguments() throws {
        try queue.read { db throws in
            let statement = try db.makeStatement(sql: "SELECT ?")
            #expect(databaseError { try Row.fetchOne(statement) }?.resultCode == .SQLITE_MISUSE)
            #expect(databaseError { try statement.execute() }?.resultCode == .SQLITE_MISUSE)
            try statement.setArguments([1])
            #expect(try Int.fetchOne(statement) == 1)
            #expect(databaseError { try statement.setArguments([1, 2]) } != nil)
            #expect(try Int.fetchOne(statement) == 1)
            statement.arguments = [3]
            #expect(try Int.fetchOne(statement) == 3)
            #expect(statement.arguments == [3])
        }
    }

    @Test("integers of any width are kept as the arguments, until others are set")
    func integerArguments() throws {
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t(a, b, c)")
            let statement = try db.makeStatement(sql: "INSERT INTO t VALUES (?, ?, ?)")
            var numbers = [1, -2, Int.max]
            try statement.execute(arguments: numbers)
            numbers[0] = 100
            #expect(statement.arguments == [1, -2, Int.max])
            try statement.execute(arguments: [Int64.min, 0, 5])
            try statement.execute(arguments: [UInt8](7...9))
            #expect(statement.arguments == [7, 8, 9])
            for misfit in [[1, 2], [1, 2, 3, 4], []] {
                #expect(databaseError { try statement.execute(arguments: misfit) }?.resultCode == .SQLITE_MISUSE)
                #expect(statement.arguments == [7, 8, 9])
            }
            // Compiled again, with the same arguments.
            try db.execute(sql: "ALTER TABLE t ADD d")
            #expect(databaseError { try statement.execute() } != nil)
            try db.execute(sql: "ALTER TABLE t DROP d")
            try statement.execute()
            try statement.execute(arguments: ["x", nil, 3])
            #expect(statement.arguments == ["x", nil, 3])
            try statement.execute(arguments: [10, 11, 12])
            let stored = try Row.fetchAll(db, sql: "SELECT * FROM t").map(\.databaseValues)
            #expect(
                stored == [
                    [1, -2, Int.max.databaseValue], [Int64.min.databaseValue, 0, 5], [7, 8, 9], [7, 8, 9],
                    ["x".databaseValue, .null, 3], [10, 11, 12],
                ])
        }
    }

    @Test("unchecked arguments leave NULL where there is none")
    func uncheckedArguments() throws {
        try queue.read { db throws in
            let statement = try db.makeStatement(sql: "SELECT ?, :a, ?")
            statement.setUncheckedArguments([1, 2, 3])
            #expect(try Row.fetchOne(statement)?.databaseValues == [1, 2, 3])
            statement.setUncheckedArguments(["a": 5, "b": 6])
            #expect(try Row.fetchOne(statement)?.databaseValues == [nil, 5, nil])
        }
    }

    @Test("a text or blob that is longer than SQLite takes is a typed error, and the connection stays good")
    func tooBig() throws {
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t(a)")
            sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_LENGTH, 1000)
            let values: [any DatabaseValueConvertible] = [Data(count: 1001), String(repeating: "x", count: 1001)]
            for value in values {
                let error = databaseError { try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [value]) }
                #expect(error?.resultCode == .SQLITE_TOOBIG)
            }
            #expect(databaseError { try Data.fetchOne(db, sql: "SELECT zeroblob(1001)") }?.resultCode == .SQLITE_TOOBIG)
            try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [Data(count: 900)])
            #expect(try Data.fetchOne(db, sql: "SELECT a FROM t")?.count == 900)
        }
    }

    @Test("arguments that cannot be set leave those set before, and never run a statement with half of each")
    func failedArguments() throws {
        // Story: values bound before the one that failed stayed, next to older ones, and the statement ran with both.
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t(a, b)")
            sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_LENGTH, 1000)
            let long = String(repeating: "x", count: 1001)
            let statement = try db.makeStatement(sql: "INSERT INTO t VALUES (?, :b)")
            func expectFailures() {
                let failures: [(ResultCode, () throws -> Void)] = [
                    (.SQLITE_TOOBIG, { try statement.setArguments(StatementArguments([3, long])) }),
                    (.SQLITE_TOOBIG, { try statement.setArguments([3, long] as [(any DatabaseValueConvertible)?]) }),
                    (.SQLITE_TOOBIG, { try statement.execute(arguments: StatementArguments([3]) + ["b": long]) }),
                    (.SQLITE_MISUSE, { try statement.setArguments([3]) }),
                    (.SQLITE_MISUSE, { try statement.setArguments([3, 4, 5]) }),
                    (.SQLITE_MISUSE, { try statement.setArguments(["c": 3]) }),
                ]
                for (code, failure) in failures { #expect(databaseError(failure)?.resultCode == code) }
            }
            // None were set yet.
            expectFailures()
            #expect(databaseError { try statement.execute() }?.resultCode == .SQLITE_MISUSE)
            try statement.setArguments([1, 2])
            expectFailures()
            #expect(statement.arguments == [1, 2])
            try statement.execute()
            #expect(try Row.fetchOne(db, sql: "SELECT * FROM t")?.databaseValues == [1, 2])
            // The same with fewer arguments than parameters, which are allowed unchecked.
            statement.setUncheckedArguments(["b": 5])
            expectFailures()
            try statement.execute()
            #expect(try Row.fetchOne(db, sql: "SELECT * FROM t WHERE b = 5")?.databaseValues == [nil, 5])
            // An unchecked value that SQLite does not take: it must not become NULL.
            statement.setUncheckedArguments([6, long])
            #expect(databaseError { try statement.execute() }?.resultCode == .SQLITE_TOOBIG)
            #expect(try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") == 2)
        }
    }
}
