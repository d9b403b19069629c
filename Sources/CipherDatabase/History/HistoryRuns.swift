import Foundation

/// Writes the changes of one table in a transaction as few rows of the history.
package final class HistoryRuns {
    let recorder: HistoryRecorder
    private let db: Database
    private let insertion: Statement
    private var run = HistoryRun()
    /// The change of a run of one, which is written as an ordinary row.
    private var only: (operation: HistoryOperation, key: [ExactValue], kept: [ExactValue], changed: [Int])?

    package init(_ recorder: HistoryRecorder, _ db: Database) throws {
        (self.recorder, self.db) = (recorder, db)
        insertion = try db.cachedStatement(
            sql: """
                INSERT INTO main.\(HistoryTables.history) (seq, kind, origin, columns, key1)
                VALUES (max(0, ifnull((SELECT max(seq) FROM main.\(HistoryTables.history)), 0)) + ?1, ?2,
                    \(HistoryTriggers.stamp), ?1, ?3)
                """)
    }

    /// Adds the change of a row: see ``HistoryRecorder/record(_:key:kept:changed:)``.
    package func add(
        _ operation: HistoryOperation, key: [ExactValue], kept: [ExactValue] = [], changed: [Int] = []
    ) throws {
        if run.isFull { try flush() }
        only = run.count == 0 ? (operation, key, kept, changed) : nil
        let isDeletion = operation == .deleted || operation == .perhapsDeleted
        run.append(
            operation, key: key, columns: recorder.mask(operation, changed), kept: isDeletion ? kept : [])
    }

    /// Adds insertions of rows with consecutive row ids, into a table whose key is the row id.
    package func add(inserted rowIDs: ClosedRange<Int64>) throws {
        var first = rowIDs.lowerBound
        while true {
            if run.isFull { try flush() }
            let room = UInt64(HistoryRun.mostChanges - run.count)
            let further = min(UInt64(bitPattern: rowIDs.upperBound &- first), room - 1)
            let last = first + Int64(further)
            only = run.count == 0 && first == last ? (.inserted, [.integer(first)], [], []) : nil
            run.append(inserted: first...last)
            if last == rowIDs.upperBound { return }
            first = last + 1
        }
    }

    /// Writes what was added.
    package func flush() throws {
        if run.count == 0 { return }
        if let only {
            try recorder.record(only.operation, key: only.key, kept: only.kept, changed: only.changed)
        } else {
            try insertion.execute(exact: [
                .integer(Int64(run.count)), .integer(recorder.id * 8 + HistoryRun.operation), .blob(run.bytes[...]),
            ])
            db.hooks.history.rows &+= run.count - 1
        }
        (run, only) = (HistoryRun(), nil)
    }
}
