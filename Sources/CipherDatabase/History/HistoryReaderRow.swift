import Foundation

/// How far a registered reader has read.
package struct HistoryReaderRow: Sendable {
    package let name: String
    /// The last change that it has read, and the fingerprint of that.
    package let number: Int64
    package let fingerprint: Int64
    /// The first change of the transaction in whose middle it is; nil between two transactions.
    package let transaction: Int64?
    /// When it acknowledged last, in seconds of Unix time.
    package let seconds: Double
    /// Why its part was purged before it had read it; nil for a reader that can continue.
    package let expired: String?

    package init(
        name: String, number: Int64, fingerprint: Int64, transaction: Int64?, seconds: Double, expired: String?
    ) {
        self.name = name
        self.number = number
        self.fingerprint = fingerprint
        self.transaction = transaction
        self.seconds = seconds
        self.expired = expired
    }
}

extension HistoryReaderRow {
    /// Times of readers, in seconds of Unix time, that a date can represent.
    private static let times = -1e11...1e11

    /// - Parameter row: The name, and what is stored of the reader, which may be anything.
    fileprivate init(name: String, _ row: Row) {
        let number = Self.integer(row, 1)
        let fingerprint = Self.integer(row, 2)
        let transaction = Self.integer(row, 3)
        let seconds = Self.seconds(row, 4)
        var expired = Self.text(row, 5)
        if Self.isDamaged(row) && expired == nil { expired = "what the database contains of it is damaged" }
        self.init(
            name: name, number: max(0, number ?? 0), fingerprint: fingerprint ?? 0, transaction: transaction,
            seconds: seconds ?? 0, expired: expired)
    }

    private static func isDamaged(_ row: Row) -> Bool {
        guard let number = integer(row, 1), number >= 0, integer(row, 2) != nil, seconds(row, 4) != nil else {
            return true
        }
        if integer(row, 3) == nil && !row.hasNull(atIndex: 3) { return true }
        return text(row, 5) == nil && !row.hasNull(atIndex: 5)
    }

    // Not inlined: the optimizer of Swift 6.3 stops with an error of its own where several of them are.
    @inline(never)
    private static func integer(_ row: Row, _ index: Int) -> Int64? { Int64.fromDatabaseValue(row[index]) }

    @inline(never)
    private static func text(_ row: Row, _ index: Int) -> String? { String.fromDatabaseValue(row[index]) }

    @inline(never)
    private static func seconds(_ row: Row, _ index: Int) -> Double? {
        guard let seconds = Double.fromDatabaseValue(row[index]), times.contains(seconds) else { return nil }
        return seconds
    }
}

extension Database {
    /// The registered readers, by name. One whose row has no valid content has expired: it keeps nothing, and can be
    /// registered again.
    package func historyReaderRows() throws -> [HistoryReaderRow] {
        try withoutWatching {
            guard try historyCatalog() != nil else { throw HistoryError.notRecorded }
            // This library stores no name of another type.
            return try Row.fetchAll(
                self,
                sql: """
                    SELECT name, seq, print, open, time, expired FROM main.\(HistoryTables.reader)
                    WHERE typeof(name) = 'text' ORDER BY name
                    """
            ).compactMap { row in
                String.fromDatabaseValue(row[0]).map { HistoryReaderRow(name: $0, row) }
            }
        }
    }

    /// The names of the registered readers.
    func historyReaderNames() throws -> [String] {
        try String.fetchAll(
            self, sql: "SELECT name FROM main.\(HistoryTables.reader) WHERE typeof(name) = 'text' ORDER BY name")
    }

    /// Records a reader that cannot continue.
    func addExpiredHistoryReader(_ name: String, because reason: String) throws {
        try execute(
            sql: """
                INSERT INTO main.\(HistoryTables.reader) (name, seq, print, open, time, expired)
                VALUES (?, 0, 0, NULL, ?, ?)
                """,
            arguments: [name, Date().timeIntervalSince1970, reason])
    }

    /// Records how far a reader has read; nil forgets the reader.
    package func setHistoryReader(_ name: String, _ row: HistoryReaderRow?) throws {
        try changingHistory {
            guard let row else {
                return try execute(
                    sql: "DELETE FROM main.\(HistoryTables.reader) WHERE name = ?", arguments: [name])
            }
            try execute(
                sql: """
                    INSERT INTO main.\(HistoryTables.reader) (name, seq, print, open, time, expired)
                    VALUES (?, ?, ?, ?, ?, NULL)
                    ON CONFLICT (name) DO UPDATE
                    SET seq = excluded.seq, print = excluded.print, open = excluded.open, time = excluded.time,
                        expired = NULL
                    """,
                arguments: [name, row.number, row.fingerprint, row.transaction, row.seconds])
        }
    }

    /// Changes the settings of the history.
    package func updateHistorySettings(_ change: (inout HistorySettings) -> Void) throws {
        try changingHistory {
            guard var settings = try historyState()?.settings else { throw HistoryError.notRecorded }
            change(&settings)
            try store(settings.withinRange())
        }
        hooks.history.purgeInterval = Int(DatabaseLimits.historyPurgeStep)
    }
}
