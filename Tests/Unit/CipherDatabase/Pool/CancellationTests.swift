import TestKit
import Testing

@testable import CipherDatabase

/// Cancellations that come at a chosen moment of an access.
@Suite struct CancellationTests {
    let folder = TemporaryFolder()

    /// Both kinds of database, with a table.
    private func databases() throws -> [any DatabaseWriter] {
        [try Databases.poolWithTable(folder), try Databases.queueWithTable()]
    }

    /// Inserts so many rows that it is interrupted or runs for hours.
    private static let endlessInsert =
        "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 1 FROM n WHERE i = 0"

    @Test("a cancellation right before a statement, after the check that precedes it, ends the statement")
    func cancelledAsStatementBegins() async throws {
        // Story: SQLite forgets an interruption that comes while no statement runs. The statement of the cancelled task
        // ran to its end.
        for database in try databases() {
            let (isBeginning, mayBegin) = (Gate(), Gate())
            let observer = StatementGate {
                isBeginning.open()
                mayBegin.wait()
            }
            let hasEnded = Gate()
            let task = Task {
                defer { hasEnded.open() }
                try await database.write { db in
                    db.setObserver(observer)
                    defer { db.setObserver(nil) }
                    try db.execute(sql: Self.endlessInsert)
                }
            }
            #expect(await isBeginning.pass())
            task.cancel()
            mayBegin.open()
            let isOver = await hasEnded.pass()
            if !isOver { database.interrupt() }
            #expect(isOver, "the cancelled task still runs its statement")
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await database.read { try $0.rowCount() } == 0)
            try await database.write { try $0.insert(1) }
        }
    }

    @Test("functions that run after a rollback are not interrupted by the cancellation that caused it")
    func statementsAfterRollback() async throws {
        for database in try databases() {
            let isRunning = Gate()
            let counted = Shared<Int?>(nil)
            let task = Task {
                try await database.write { db in
                    try db.insert(1)
                    db.afterNextTransaction(onCommit: { _ in }) { db in
                        let count = try? Int.fetchOne(db, sql: Self.longSQL)
                        counted.change { $0 = count }
                    }
                    isRunning.open()
                    _ = try Int.fetchOne(db, sql: endlessSQL)
                }
            }
            #expect(await isRunning.pass())
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(counted.value == Self.longCount)
        }
    }

    @Test("a cancelled access that goes on without statements does not interrupt the next access")
    func nextAccess() async throws {
        for database in try databases() {
            let (isRunning, mayEnd) = (Gate(), Gate())
            let task = Task {
                try await database.write { db in
                    try db.insert(1)
                    isRunning.open()
                    mayEnd.wait()
                }
            }
            #expect(await isRunning.pass())
            task.cancel()
            // The next access already waits for the connection.
            let next = Task { try await database.writeWithoutTransaction { try Int.fetchOne($0, sql: Self.longSQL) } }
            mayEnd.open()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await next.value == Self.longCount)
        }
    }

    /// How many rows ``longSQL`` counts, which takes many times as long as the pause between two interruptions.
    private static let longCount = 1_000_000
    private static let longSQL = endlessSQL.replacing("FROM n)", with: "FROM n LIMIT \(longCount))")
}

/// Calls a function before each statement that may change rows.
private final class StatementGate: ConnectionObserver, Sendable {
    private let willRun: @Sendable () -> Void

    init(_ willRun: @escaping @Sendable () -> Void) { self.willRun = willRun }

    let keptEventCount = 0
    func statementWillRun(_ statement: Statement, on db: Database) { willRun() }
    func statementDidEnd(_ statement: Statement, hasFailed: Bool, on db: Database) {}
    func rowDidChange(_ change: UpdateHookChange, on db: Database) {}
    func savepointDidRollback(keepingEvents count: Int) {}
    func savepointsDidEnd() {}
    func transactionWillCommit() {}
    func transactionDidEnd(_ completion: Database.TransactionCompletion, isExplicit: Bool, on db: Database) {}
    func observesDeletions(from table: String) -> Bool { false }
    func connectionWillBeReplaced(_ db: Database) {}
    func connectionDidReplace(_ db: Database) {}
}
