import CipherDatabase
import Foundation
import TestKit
import Testing

/// A forbidden act of the program ends it, with words that name the fault.
@Suite struct TrapTests {
    private func said(_ result: ExitTest.Result?, _ words: String) -> Bool {
        guard let bytes = result?.standardErrorContent else { return false }
        return String(decoding: bytes, as: UTF8.self).contains(words)
    }

    @Test("NULL read into a type that cannot hold it traps and names the column")
    func null() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let row = try DatabaseQueue().read { try Row.fetchOne($0, sql: "SELECT NULL AS score") }
            print(row.map { $0["score"] as Int } ?? 0)
        }
        #expect(said(result, "could not read a value of type Int from column \"score\" (at index 0), which holds NULL"))
    }

    @Test("a column that is missing traps and names those that are there")
    func missingColumn() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let row = try DatabaseQueue().read { try Row.fetchOne($0, sql: "SELECT 1 AS a, 2 AS b") }
            print(row.map { $0["c"] as Int } ?? 0)
        }
        #expect(said(result, "row has no column named c: its columns are a, b"))
    }

    @Test("a position beyond the columns traps")
    func missingPosition() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let row = try DatabaseQueue().read { try Row.fetchOne($0, sql: "SELECT 1") }
            print(row.map { $0[1] as Int } ?? 0)
        }
        #expect(said(result, "row has no column at index 1: it has 1 columns"))
    }

    @Test("an optional takes NULL and nothing else that does not fit")
    func optionalThatDoesNotFit() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let row = try DatabaseQueue().read { try Row.fetchOne($0, sql: "SELECT NULL AS a, 300 AS b") }
            if row?["a"] as Int8? == nil { print(row?["b"] as Int8? ?? 0) }
        }
        #expect(said(result, "could not read a value of type Optional<Int8> from column \"b\" (at index 1)"))
    }

    @Test("setting arguments that do not fit through the property traps")
    func argumentsProperty() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try DatabaseQueue().read { try $0.makeStatement(sql: "SELECT ?").arguments = [1, 2] }
        }
        #expect(said(result, "wrong number of statement arguments: 2"))
    }

    @Test("a negative count of a cursor's elements traps", arguments: 0..<4)
    func negativeCounts(form: Int) async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [form] in
            let cursor = AnyCursor([1, 2])
            switch form {
            case 0: _ = cursor.prefix(-1)
            case 1: _ = try cursor.suffix(-1)
            case 2: _ = cursor.dropFirst(-1)
            default: _ = try cursor.dropLast(-1)
            }
        }
        #expect(said(result, "-1 elements"))
    }

    @Test("an integer that SQLite cannot hold traps instead of being changed")
    func unsignedOverflow() async {
        await #expect(processExitsWith: .failure) {
            try DatabaseQueue().write { _ = try UInt64.fetchOne($0, sql: "SELECT ?", arguments: [UInt64.max]) }
        }
    }

    @Test("an access that fails in a transaction that it began rolls that back, and throws its error")
    func failedInTransaction() throws {
        let folder = TemporaryFolder()
        let pool = try Databases.poolWithTable(folder)
        for writer in [DatabaseQueue(), pool] as [any DatabaseWriter] {
            for sql in ["BEGIN", "SAVEPOINT s"] {
                let error = #expect(throws: DatabaseError.self) {
                    try writer.writeWithoutTransaction { db in
                        try db.execute(sql: "\(sql); CREATE TABLE new (a); INSERT INTO missing VALUES (1)")
                    }
                }
                #expect(error?.message == "no such table: missing")
                let isUndone = try writer.writeWithoutTransaction { db in
                    try !db.isInsideTransaction && !db.tableExists("new")
                }
                #expect(isUndone)
            }
        }
        #expect(throws: DatabaseError.self) {
            try pool.unsafeRead { try $0.execute(sql: "BEGIN; SELECT x FROM missing") }
        }
        #expect(try pool.read { try $0.rowCount() } == 0)
    }

    @Test("a transaction left open at the end of an access traps")
    func openTransaction() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try DatabaseQueue().writeWithoutTransaction { try $0.beginTransaction() }
        }
        #expect(said(result, "A transaction has been left opened at the end of a database access"))
    }

    @Test("accesses of one connection inside each other trap", arguments: 0..<5)
    func reentrancy(form: Int) async {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            [form, path = path as String] in
            let queue = DatabaseQueue()
            let pool = try DatabasePool(path: path, configuration: Databases.configuration())
            switch form {
            case 0: try queue.write { _ in try queue.read { _ in } }
            case 1: try pool.write { _ in try pool.write { _ in } }
            case 2: try pool.read { _ in try pool.read { _ in } }
            case 3: try pool.write { _ in try pool.close() }
            default: try pool.read { _ in try pool.close() }
            }
        }
        #expect(said(result, "Database methods are not reentrant."))
    }

    @Test("a connection used after its access, or on another thread, traps", arguments: 0..<4)
    func wrongThread(form: Int) async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [form] in
            let queue = DatabaseQueue()
            nonisolated(unsafe) var escaped: Database?  // Safe because: the misuse is what is tested.
            try queue.write { escaped = $0 }
            switch form {
            case 0: try escaped?.execute(sql: "SELECT 1")
            case 1: _ = escaped?.isInsideTransaction
            case 2: _ = try escaped?.makeStatement(sql: "SELECT 1")
            default:
                try queue.write { db in
                    nonisolated(unsafe) let db = db  // Safe because: the misuse is what is tested.
                    let ended = DispatchSemaphore(value: 0)
                    Thread.detachNewThread {
                        try? db.execute(sql: "SELECT 1")
                        ended.signal()
                    }
                    ended.wait()
                }
            }
        }
        #expect(said(result, "Database was not used on the correct thread."))
    }
}
