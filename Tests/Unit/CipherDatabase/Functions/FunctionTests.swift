import CSQLCipher
import CipherDatabase
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@Suite struct FunctionTests {
    let queue = DatabaseQueue()

    private func add(_ function: DatabaseFunction) throws {
        queue.writeWithoutTransaction { $0.add(function: function) }
    }

    private func fetch(_ sql: String) throws -> DatabaseValue? {
        try queue.read { try DatabaseValue.fetchOne($0, sql: sql) }
    }

    @Test(
        "a function gets and gives values of every type, empty ones and NUL characters too",
        arguments: [
            DatabaseValue.null, 0.databaseValue, Int64.min.databaseValue, Int64.max.databaseValue,
            (-1.5).databaseValue, Double.infinity.databaseValue, "".databaseValue, "a\0b'é🙂".databaseValue,
            Data().databaseValue, Data([0, 255, 0]).databaseValue,
        ])
    func values(value: DatabaseValue) throws {
        try add(DatabaseFunction("same", argumentCount: 1) { $0[0] })
        let result = try queue.read { try DatabaseValue.fetchOne($0, sql: "SELECT same(?)", arguments: [value]) }
        #expect(result == value)
    }

    // Story: an index of a plain database of 34 MB wrote beyond a buffer of 206 bytes during its import (CVE-2025-29087).
    @Test(
        "concat_ws joins as SQLite's own does, and a result that is too long is an error",
        .enabled(if: sqlite3_libversion_number() >= 3_044_000))
    func joined() throws {
        #expect(try fetch("SELECT concat_ws('-', 'a', NULL, 1.5, x'62')") == "a-1.5-b".databaseValue)
        #expect(try fetch("SELECT concat_ws('', 'a', 'b') || concat_ws(2, 'a', 'b')") == "aba2b".databaseValue)
        #expect(try fetch("SELECT concat_ws(NULL, 'a')") == .null)
        #expect(try fetch("SELECT concat_ws('-', NULL)") == "".databaseValue)
        #expect(try fetch("SELECT hex(concat_ws('-', CAST(x'ff00' AS TEXT), 'b'))") == "FF002D62".databaseValue)
        let bundled = sqlite3_libversion_number() < 3_047_000
        if bundled { #expect(try fetch("SELECT concat_ws('-', 'a', '', 'c')") == "a-c".databaseValue) }
        let pieces = Array(repeating: "'b'", count: 126).joined(separator: ", ")
        let error = #expect(throws: DatabaseError.self) {
            try fetch("SELECT length(concat_ws(printf('%.*c', 34359739, 'A'), \(pieces)))")
        }
        #expect([.SQLITE_TOOBIG, .SQLITE_NOMEM].contains(error?.resultCode))
    }

    @Test("a function may return nil, which is NULL, and any value that a database can store")
    func results() throws {
        try add(DatabaseFunction("novalue", argumentCount: 0) { _ in nil })
        try add(DatabaseFunction("truth", argumentCount: 0) { _ in true })
        try add(DatabaseFunction("day", argumentCount: 0) { _ in Date(timeIntervalSince1970: 0) })
        #expect(try fetch("SELECT novalue()") == .null)
        #expect(try fetch("SELECT truth()") == 1.databaseValue)
        #expect(try fetch("SELECT day()") == "1970-01-01 00:00:00.000".databaseValue)
    }

    @Test("functions of one name and different numbers of arguments stand side by side")
    func overloads() throws {
        try add(DatabaseFunction("f", argumentCount: 1) { _ in "one" })
        try add(DatabaseFunction("f", argumentCount: 2) { _ in "two" })
        try add(DatabaseFunction("f") { "any: \($0.count)" })
        #expect(try fetch("SELECT f(1)") == "one".databaseValue)
        #expect(try fetch("SELECT F(1, 2)") == "two".databaseValue)
        #expect(try fetch("SELECT f()") == "any: 0".databaseValue)
        #expect(try fetch("SELECT f(1, 2, 3)") == "any: 3".databaseValue)
        #expect(
            DatabaseFunction("F", argumentCount: 1) { _ in nil } == DatabaseFunction("f", argumentCount: 1) { $0[0] })
    }

    @Test("a wrong number of arguments and a function that was removed fail when the statement is compiled")
    func compilation() throws {
        let function = DatabaseFunction("f", argumentCount: 1) { $0[0] }
        try add(function)
        let count = databaseError { try fetch("SELECT f(1, 2)") }
        #expect(count?.resultCode == .SQLITE_ERROR)
        #expect(count?.message == "wrong number of arguments to function f()")
        queue.writeWithoutTransaction { $0.remove(function: function) }
        #expect(databaseError { try fetch("SELECT f(1)") }?.message == "no such function: f")
    }

    @Test("a name with odd characters is called in quotes")
    func oddName() throws {
        try add(DatabaseFunction("é \" ; --", argumentCount: 0) { _ in 7 })
        #expect(try fetch("SELECT \"é \"\" ; --\"()") == 7.databaseValue)
    }

    @Test("an error that a function throws is the message of the statement's error")
    func error() throws {
        struct Refusal: Error, CustomStringConvertible { let description = "too late in the day" }
        try add(DatabaseFunction("f", argumentCount: 0) { _ in throw Refusal() })
        let error = databaseError { try fetch("SELECT f()") }
        #expect(error?.resultCode == .SQLITE_ERROR)
        #expect(error?.message == "too late in the day")
        #expect(error?.sql == "SELECT f()")
    }

    @Test(
        "a DatabaseError that a function throws keeps its code; one that means success becomes a failure",
        arguments: [
            (ResultCode.SQLITE_CONSTRAINT_UNIQUE, ResultCode.SQLITE_CONSTRAINT_UNIQUE),
            (.SQLITE_READONLY, .SQLITE_READONLY), (.SQLITE_OK, .SQLITE_ERROR), (.SQLITE_ROW, .SQLITE_ERROR),
            (.SQLITE_DONE, .SQLITE_ERROR),
        ])
    func databaseErrors(thrown: ResultCode, expected: ResultCode) throws {
        try add(
            DatabaseFunction("f", argumentCount: 0) { _ in throw DatabaseError(resultCode: thrown, message: "mine") })
        let error = databaseError { try fetch("SELECT f()") }
        #expect(error?.extendedResultCode == expected)
        #expect(error?.message == "mine")
    }

    @Test("a function that throws in the middle of a write leaves nothing of the statement")
    func errorInWrite() throws {
        try add(
            DatabaseFunction("upTo3", argumentCount: 1) { values in
                guard let number = Int.fromDatabaseValue(values[0]), number <= 3 else {
                    throw DatabaseError(message: "beyond 3")
                }
                return number
            })
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t(a)")
            let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)"
            let error = databaseError { try db.execute(sql: "INSERT INTO t \(numbers) SELECT upTo3(i) FROM n") }
            #expect(error?.message == "beyond 3")
            #expect(try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") == 0)
            #expect(db.isInsideTransaction)
        }
    }

    @Test("a function may run statements on the connection that calls it")
    func reentrant() throws {
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3)")
            // Safe because: the function runs on the thread of this access, inside of it.
            nonisolated(unsafe) let connection = db
            db.add(
                function: DatabaseFunction("smaller", argumentCount: 1) { values in
                    try Int.fetchOne(
                        connection, sql: "SELECT COUNT(*) FROM t WHERE a < ?", arguments: [values[0]])
                })
            #expect(try Int.fetchAll(db, sql: "SELECT smaller(a) FROM t ORDER BY a") == [0, 1, 2])
            let nested = "SELECT smaller(a) FROM t WHERE smaller(a) = (SELECT MAX(smaller(a)) FROM t)"
            #expect(try Int.fetchAll(db, sql: nested) == [2])
            db.remove(function: DatabaseFunction("smaller", argumentCount: 1) { _ in nil })
        }
    }

    @Test("a pure function is called once for a constant, another one for each row")
    func purity() throws {
        let calls = Mutex((pure: 0, other: 0))
        try add(
            DatabaseFunction("pureOne", argumentCount: 1, pure: true) { _ in
                calls.withLock { $0.pure += 1 }
                return 1
            })
        try add(
            DatabaseFunction("otherOne", argumentCount: 1) { _ in
                calls.withLock { $0.other += 1 }
                return 1
            })
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3)")
            _ = try Row.fetchAll(db, sql: "SELECT pureOne(0) FROM t")
            _ = try Row.fetchAll(db, sql: "SELECT otherOne(0) FROM t")
            try db.execute(sql: "CREATE INDEX i ON t(pureOne(a))")
            #expect(databaseError { try db.execute(sql: "CREATE INDEX j ON t(otherOne(a))") } != nil)
        }
        #expect(calls.withLock { $0.other } == 3)
        #expect(calls.withLock { $0.pure } == 1 + 3)
    }

    @Test("SQLite lets go of a function when it is replaced, removed, or its connection is closed")
    func lifetime() throws {
        final class Guest: Sendable {}
        func function(_ name: String) -> (DatabaseFunction, () -> Bool) {
            let guest = Guest()
            weak let reference: Guest? = guest
            return (DatabaseFunction(name, argumentCount: 0) { [guest] _ in "\(guest)" }, { reference == nil })
        }
        var checks: [(String, () -> Bool)] = []
        do {
            let queue = DatabaseQueue()
            let (replaced, replacedIsGone) = function("a")
            let (removed, removedIsGone) = function("b")
            let (closed, closedIsGone) = function("c")
            checks = [("replaced", replacedIsGone), ("removed", removedIsGone), ("closed", closedIsGone)]
            queue.writeWithoutTransaction { db in
                for function in [replaced, removed, closed] { db.add(function: function) }
                db.add(function: DatabaseFunction("A", argumentCount: 0) { _ in nil })
                db.remove(function: removed)
            }
            #expect(!closedIsGone())
            // A statement that still calls it keeps the connection, not its use.
            let statement = try queue.writeWithoutTransaction { try $0.makeStatement(sql: "SELECT c()") }
            #expect(databaseError { try queue.close() }?.resultCode == .SQLITE_BUSY)
            withExtendedLifetime(statement) {}
        }
        for (name, isGone) in checks { #expect(isGone(), "\(name)") }
    }

    @Test("every connection of a pool has the functions of prepareDatabase, and the built-in ones")
    func pool() throws {
        let folder = TemporaryFolder()
        var config = MigrationScratch.plain
        config.prepareDatabase { $0.add(function: DatabaseFunction("answer", argumentCount: 0) { _ in 42 }) }
        let pool = try DatabasePool(path: folder.path("app.db"), configuration: config)
        let sql = "SELECT answer() || swiftUppercaseString('é')"
        #expect(try pool.read { try String.fetchOne($0, sql: sql) } == "42É")
        #expect(try pool.write { try String.fetchOne($0, sql: sql) } == "42É")
    }

    @Test("the built-in functions change case by Unicode, and give NULL for what is no text")
    func builtIn() throws {
        #expect(try fetch("SELECT swiftLowercaseString('ÀÉ')") == "àé".databaseValue)
        #expect(try fetch("SELECT swiftCapitalizedString('élan vital')") == "Élan Vital".databaseValue)
        #expect(try fetch("SELECT \(DatabaseFunction.localizedUppercase.name)('straße')") == "STRASSE".databaseValue)
        #expect(try fetch("SELECT \(DatabaseFunction.localizedLowercase.name)('ÀÉ')") == "àé".databaseValue)
        #expect(try fetch("SELECT \(DatabaseFunction.localizedCapitalize.name)('a b')") == "A B".databaseValue)
        #expect(try fetch("SELECT swiftUppercaseString(NULL)") == .null)
        #expect(try fetch("SELECT swiftUppercaseString(12)") == .null)
    }

    @Test("a function that SQLite cannot take is a mistake of the program, which traps")
    func traps() async {
        await #expect(processExitsWith: .failure) {
            DatabaseQueue().writeWithoutTransaction { db in
                db.add(function: DatabaseFunction(String(repeating: "f", count: 256)) { _ in nil })
            }
        }
        // SQLite took 127 arguments before 3.48 and takes 1,000 since; none can be built to take more than 32,767.
        await #expect(processExitsWith: .failure) {
            DatabaseQueue().writeWithoutTransaction { db in
                db.add(function: DatabaseFunction("f", argumentCount: 32_768) { _ in nil })
            }
        }
    }

    // MARK: Calls by a schema

    /// The name, in a place of the schema that calls it.
    private static let places = [
        "CREATE VIEW v AS SELECT f() AS x; SELECT x FROM v",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT f(); END; INSERT INTO t VALUES (1)",
        "CREATE TABLE d (a, b DEFAULT (f())); INSERT INTO d (a) VALUES (1)",
        "CREATE TABLE c (a CHECK (f() IS NOT NULL)); INSERT INTO c VALUES (1)",
    ]

    /// The error of SQL that makes a schema call `f`; nil where it may.
    private func refusal(of sql: String, trusts: Bool, pure: Bool, directOnly: Bool) -> DatabaseError? {
        var configuration = Configuration()
        configuration.trustsSchema = trusts
        let function = DatabaseFunction("f", argumentCount: 0, pure: pure, directOnly: directOnly) { _ in 1 }
        configuration.prepareDatabase { db in db.add(function: function) }
        let queue = DatabaseQueue(configuration: configuration)
        do {
            try queue.write { try $0.execute(sql: "CREATE TABLE t (a); " + sql) }
            return nil
        } catch {
            return error as? DatabaseError
        }
    }

    // A schema that somebody else has made called every function of the program.
    @Test(
        "a schema that is not trusted calls pure functions only, and none calls one that is direct only",
        arguments: places)
    func schemaCalls(sql: String) {
        func isUnsafe(trusts: Bool, pure: Bool, directOnly: Bool) -> Bool {
            let error = refusal(of: sql, trusts: trusts, pure: pure, directOnly: directOnly)
            return error?.message?.contains("unsafe use") == true
        }
        // In a CHECK, SQLite examines deterministic functions only.
        let isCheck = sql.contains("CHECK")
        for pure in isCheck ? [true] : [true, false] {
            #expect(refusal(of: sql, trusts: true, pure: pure, directOnly: false) == nil)
            #expect(isUnsafe(trusts: true, pure: pure, directOnly: true))
            #expect(isUnsafe(trusts: false, pure: pure, directOnly: true))
        }
        #expect(refusal(of: sql, trusts: false, pure: true, directOnly: false) == nil)
        #expect(isUnsafe(trusts: false, pure: false, directOnly: false) == !isCheck)
        #expect(refusal(of: "SELECT f()", trusts: false, pure: false, directOnly: true) == nil)
    }
}
