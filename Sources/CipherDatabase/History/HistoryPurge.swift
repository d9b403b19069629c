import Foundation
import StorePlatform

/// The part of a history that may be purged.
struct HistoryBounds: Equatable {
    /// Everything up to this change is beyond the limits of count, bytes or age: readers that have not read it expire.
    var beyondLimits: Int64
    /// Why, for the readers that expire.
    var reason: String
    /// Everything up to this change was read by all readers.
    var acknowledged: Int64

    /// - Parameters:
    ///   - numbers: The first and the last change that are there.
    ///   - readers: How far each reader has read that has not expired.
    ///   - aged: The last change that is too old; 0 for none.
    init(
        _ numbers: ClosedRange<Int64>, readers: [Int64], settings: HistorySettings, bytesPerChange: Double, aged: Int64
    ) {
        let byCount = numbers.upperBound - settings.maximumCount
        let byBytes = numbers.upperBound - Int64(saturating: Double(settings.maximumBytes) / max(1, bytesPerChange))
        let reasons = [
            (byCount, "more than \(CountText.text(settings.maximumCount, "change"))"),
            (byBytes, "more than \(settings.maximumBytes) bytes"),
            (aged, "changes older than \(CountText.text(Int64(saturating: settings.maximumSeconds), "second"))"),
        ]
        let strictest = reasons.reduce(reasons[0]) { $1.0 > $0.0 ? $1 : $0 }
        // The last change stays, so that no number is given twice.
        let beyond = min(strictest.0, numbers.upperBound - 1)
        beyondLimits = beyond
        reason = "the history had " + strictest.1 + " that it had not acknowledged"
        let slowest = readers.filter { $0 >= beyond }.min()
        acknowledged = min(
            slowest.map { $0 - DatabaseLimits.historyKeptForOthers } ?? 0, numbers.upperBound - 1)
    }

    var end: Int64 { max(beyondLimits, acknowledged) }
}

extension Database {
    /// Purges one part of what may be purged, in a transaction of its own.
    ///
    /// - Parameters:
    ///   - count: The most changes that are purged.
    ///   - time: After this time no more are purged: changes may have kept values of any size.
    /// - Returns: How many were purged, and how long the write lock was held; 0 when there is nothing left to purge.
    func purgeHistory(count: Int64, for time: Duration) throws -> (count: Int64, time: Duration) {
        if isInsideTransaction || configuration.readonly { return (0, .zero) }
        guard let first = try withoutWatching({ try historyBounds() }), first.end >= first.start else {
            return (0, .zero)
        }
        var purged: Int64 = 0
        var start = ContinuousClock.now
        try changingHistory {
            // The wait for the lock does not count.
            start = .now
            // Again: a reader may have registered in the meantime.
            guard let bounds = try historyBounds(), bounds.end >= bounds.start else { return }
            // The last change stays, so there is a number after `end`.
            let end = bounds.start + min(bounds.end - bounds.start, count - 1)
            var (next, latest) = (bounds.start, nil as HistoryEntry?)
            repeat {
                let number = next + min(end - next, DatabaseLimits.historyPurgeStep - 1)
                guard let last = try historyEntry(atMost: number) else { break }
                try execute(sql: "DELETE FROM main.\(HistoryTables.history) WHERE seq <= ?", arguments: [number])
                purged += Int64(changesCount)
                (next, latest) = (number + 1, last)
            } while next <= end && ContinuousClock.now - start < time
            guard let latest else { return }
            try execute(
                sql: "UPDATE main.\(HistoryTables.reader) SET expired = ? WHERE expired IS NULL AND seq < ?",
                arguments: [bounds.reason, latest.number])
            try execute(
                sql: "UPDATE main.\(HistoryTables.state) SET purged = ?, print = ?",
                arguments: [latest.number, latest.fingerprint])
        }
        return (purged, .now - start)
    }

    /// Purges one part, whose size follows from the time that the parts before it took.
    ///
    /// - Returns: How many changes were purged; 0 when there is nothing left to purge.
    package func purgePartOfHistory() throws -> Int64 {
        let part = try purgeHistory(count: hooks.history.purgeCount, for: DatabaseLimits.historyPurgeTime / 2)
        if part.count == 0 {
            try purgeAuthors()
            return 0
        }
        if part.time < DatabaseLimits.historyPurgeTime / 2 {
            hooks.history.purgeCount = min(hooks.history.purgeCount * 2, 100_000)
        }
        if part.time > DatabaseLimits.historyPurgeTime {
            hooks.history.purgeCount = max(hooks.history.purgeCount / 4, 50)
        }
        return part.count
    }

    /// Whether the connection has written enough to purge some of the history.
    var isHistoryPurgeDue: Bool { hooks.history.rows >= hooks.history.purgeInterval }

    /// Called after an access that wrote: purges one part of the history when that is due.
    func purgeHistoryIfDue() {
        guard isHistoryPurgeDue, !isClosed else { return }
        hooks.history.rows = 0
        hooks.history.purgeInterval =
            (try? historyState()?.settings.purgeInterval) ?? DatabaseLimits.historyPurgeInterval
        // A step that fails, for example at a lock, is tried again after the next interval.
        guard let count = try? purgePartOfHistory(), count > 0 else { return }
        // If parts must be small, the next one is due before as many changes are recorded as this one has purged.
        hooks.history.rows = max(0, hooks.history.purgeInterval - Int(count) / 2)
    }

    private func historyEntry(atMost number: Int64) throws -> HistoryEntry? {
        guard let catalog = try historyCatalog() else { return nil }
        return try historyEntries(catalog, "WHERE seq <= ? ORDER BY seq DESC LIMIT 1", [number]).last
    }

    /// The tables whose changes are recorded, as they are named, how many changes are kept, and about how many bytes
    /// these take.
    package func historyExtent() throws -> (tables: [String], count: Int64, bytes: Int64) {
        try withoutWatching {
            guard let catalog = try historyCatalog() else { throw HistoryError.notRecorded }
            let tables = catalog.recording.map(\.name).sorted()
            guard let (first, last) = try historyNumbers() else { return (tables, 0, 0) }
            let count = last - first + 1
            return (tables, count, Int64(saturating: Double(count) * (try bytesPerChange(first, last))))
        }
    }

    /// The numbers of the first and the last change that are kept. Numbers are positive.
    private func historyNumbers() throws -> (first: Int64, last: Int64)? {
        let row = try Row.fetchOne(
            self,
            sql: """
                SELECT (SELECT min(seq) FROM main.\(HistoryTables.history) WHERE seq > 0),
                    (SELECT max(seq) FROM main.\(HistoryTables.history) WHERE seq > 0)
                """)
        guard let row, let first = row[0] as Int64?, let last = row[1] as Int64? else { return nil }
        return (first, last)
    }

    private func historyBounds() throws -> (start: Int64, end: Int64, reason: String)? {
        guard let state = try historyState(), try historyCatalog() != nil, let (first, last) = try historyNumbers()
        else { return nil }
        let readers = try historyReaderRows().filter { $0.expired == nil }.map(\.number)
        let bounds = HistoryBounds(
            first...last, readers: readers, settings: state.settings, bytesPerChange: try bytesPerChange(first, last),
            aged: try lastChange(olderThan: state.settings.maximumSeconds, first, last))
        return (first, bounds.end, bounds.reason)
    }

    /// About how many bytes a change takes, by the first and the last ones.
    func bytesPerChange(_ first: Int64, _ last: Int64) throws -> Double {
        let names = try columns(in: HistoryTables.history, in: "main").map(\.name).filter { $0 != "seq" }
        let bytes = names.map { name in
            "CASE typeof(\(name)) WHEN 'null' THEN 1 WHEN 'integer' THEN 5 WHEN 'real' THEN 9 "
                + "ELSE length(CAST(\(name) AS BLOB)) + 2 END"
        }.joinedAsExpression(by: " + ")
        let average = try Double.fetchOne(
            self,
            sql: """
                SELECT avg((\(bytes) + 8) * 1.0 / CASE WHEN kind & 7 = \(HistoryRun.operation) THEN max(columns, 1) ELSE 1 END)
                FROM (
                    SELECT * FROM (SELECT * FROM main.\(HistoryTables.history) ORDER BY seq LIMIT 50)
                    UNION ALL
                    SELECT * FROM (SELECT * FROM main.\(HistoryTables.history) ORDER BY seq DESC LIMIT 50))
                """)
        // Cell, number and the unused part of pages.
        return (average ?? 8) * 1.1
    }

    /// The last change that is older than a time; 0 where none is. Changes of unknown time count as their neighbours.
    private func lastChange(olderThan seconds: Double, _ first: Int64, _ last: Int64) throws -> Int64 {
        let now = HistoryStamp.time(ofSeconds: Date().timeIntervalSince1970)
        let limit = HistoryStamp(time: max(1, now - Int64(saturating: seconds * 1_000)), author: 0).number
        var (low, high) = (first - 1, last)
        while low < high {
            let middle = high - (high - low) / 2
            let stamp = try Int64.fetchOne(
                self,
                sql: """
                    SELECT origin FROM main.\(HistoryTables.history)
                    WHERE seq >= ? AND origin IS NOT NULL ORDER BY seq LIMIT 1
                    """,
                arguments: [middle])
            if let stamp, stamp < limit { low = middle } else { high = middle - 1 }
        }
        return low >= first ? low : 0
    }

    /// Forgets authors of whom no change is left, where there are many.
    private func purgeAuthors() throws {
        let authors = HistoryTables.author
        let count = try withoutWatching { try Int.fetchOne(self, sql: "SELECT count(*) FROM main.\(authors)") ?? 0 }
        if count <= DatabaseLimits.historyAuthors { return }
        let (last, used) = try withoutWatching {
            try isolated {
                let numbers = try Int64.fetchSet(
                    self,
                    sql: """
                        SELECT DISTINCT origin & \(HistoryStamp.authors) FROM main.\(HistoryTables.history)
                        WHERE origin IS NOT NULL
                        """)
                return (try lastHistoryNumber(), numbers)
            }
        }
        try changingHistory {
            let later = try Int64.fetchSet(
                self,
                sql: """
                    SELECT DISTINCT origin & \(HistoryStamp.authors) FROM main.\(HistoryTables.history)
                    WHERE seq > ? AND origin IS NOT NULL
                    """,
                arguments: [last])
            let kept = used.union(later)
            for number in try Int64.fetchAll(self, sql: "SELECT id FROM main.\(authors)")
            where !kept.contains(number) {
                try execute(sql: "DELETE FROM main.\(authors) WHERE id = ?", arguments: [number])
            }
        }
    }
}

extension HistorySettings {
    /// After how many changes a connection purges some: as many as are kept, within bounds, so that a small limit is not
    /// exceeded many times.
    var purgeInterval: Int {
        Int(
            clamping: max(
                DatabaseLimits.historyPurgeStep, min(Int64(DatabaseLimits.historyPurgeInterval), maximumCount)))
    }
}

extension Int64 {
    /// The whole part of a number, or the nearest one that there is.
    fileprivate init(saturating number: Double) {
        self = Int64(exactly: number.rounded(.towardZero)) ?? (number > 0 ? .max : .min)
    }
}
