import CipherDatabase
import CipherStore
import Dispatch

/// SQLite's own check of a whole database, which can be cancelled.
enum IntegrityCheck {
    /// Runs the check on a connection of its own.
    ///
    /// - Parameter isCancelled: Called repeatedly on another thread; true ends the check.
    /// - Returns: The findings, one line each; empty without any.
    /// - Throws: `CancellationError`; the errors of a read.
    static func run(on store: SharedStore, isCancelled: @escaping @Sendable () -> Bool) throws -> [String] {
        let snapshot = try store.makeSnapshot()
        defer { try? snapshot.close() }
        let watch = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "CipherStore.IntegrityCheck"))
        watch.schedule(deadline: .now(), repeating: RotationLimits.cancellationInterval / .seconds(1))
        // Nothing else uses the snapshot, so nothing else is interrupted.
        watch.setEventHandler { if isCancelled() { snapshot.interrupt() } }
        watch.resume()
        defer { watch.cancel() }
        do {
            return try lines(
                snapshot.read { db in
                    let rows = try String.fetchAll(
                        db, sql: "PRAGMA integrity_check(\(RotationLimits.integrityProblems))")
                    if rows != ["ok"] { try db.requireNoFailedRead() }
                    return rows
                })
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT && isCancelled() {
            throw CancellationError()
        }
    }

    /// The findings in SQLite's result, which has several in one row, under a heading.
    static func lines(_ rows: [String]) -> [String] {
        let lines = rows.flatMap { $0.split(separator: "\n").map(String.init) }
        return lines.filter { $0 != "ok" && !$0.hasPrefix("*** in database ") }
    }
}
