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
        let (number, fingerprint) = (Int64.fromDatabaseValue(row[1]), Int64.fromDatabaseValue(row[2]))
        let transaction = Int64.fromDatabaseValue(row[3])
        let seconds = Double.fromDatabaseValue(row[4]).flatMap { Self.times.contains($0) ? $0 : nil }
        let expired = String.fromDatabaseValue(row[5])
        let isValid =
            number.map { $0 >= 0 } == true && fingerprint != nil && seconds != nil
            && (transaction != nil || row.hasNull(atIndex: 3)) && (expired != nil || row.hasNull(atIndex: 5))
        self.init(
            name: name, number: max(0, number ?? 0), fingerprint: fingerprint ?? 0, transaction: transaction,
            seconds: seconds ?? 0,
            expired: isValid ? expired : expired ?? "what the database contains of it is damaged")
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
    }
}
