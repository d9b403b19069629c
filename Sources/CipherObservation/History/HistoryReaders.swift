import CipherDatabase
import Foundation

/// A reader that is registered in the database, so that what it has not read is kept for it.
public struct HistoryReader: Sendable {
    /// The name.
    public let name: String
    /// Where it continues; of no use when it has expired.
    public let token: HistoryToken
    /// When it was registered, or acknowledged last.
    public let date: Date
    /// How many changes it has not acknowledged.
    public let lag: Int64
    /// Why changes were purged that it had not read; nil for a reader that can continue.
    public let expirationReason: String?

    /// Whether changes were purged that it had not read.
    public var isExpired: Bool { expirationReason != nil }
}

/// How much of the history is kept. Changes beyond a limit are purged, even if a registered reader has not read them.
public struct HistoryLimits: Hashable, Sendable {
    /// The most changes. Default: 1,000,000.
    ///
    /// A connection that writes purges after as many changes as the limit, but at least 100 and at most 5,000. Until then
    /// it may exceed the limit by that number, and by the changes of one transaction.
    public var count: Int64
    /// The most bytes that the changes take, about. Default: 256 MB.
    public var bytes: Int64
    /// How long changes are kept; 1,000,000,000 seconds, about 31 years, at the most. Default: 30 days.
    public var age: Duration

    public init(count: Int64 = 1_000_000, bytes: Int64 = 256 << 20, age: Duration = .seconds(30 * 86_400)) {
        self.count = count
        self.bytes = bytes
        self.age = age
    }
}

/// The tables whose changes a database records, and the values that it keeps.
public struct HistoryStatus: Sendable {
    /// The tables whose changes are recorded.
    public let tableNames: [String]
    /// How many changes are kept.
    public let changeCount: Int64
    /// About how many bytes they take.
    public let byteCount: Int64
    public let limits: HistoryLimits
    /// The registered readers, by name.
    public let readers: [HistoryReader]
}

extension Database {
    /// The recorded tables and kept values; nil if there is no history.
    ///
    /// - Throws: `DatabaseError`.
    public func historyStatus() throws -> HistoryStatus? {
        try isolated(readOnly: true) {
            guard try historyState() != nil else { return nil }
            let (tables, count, bytes) = try historyExtent()
            return HistoryStatus(
                tableNames: tables, changeCount: count, byteCount: bytes, limits: try historyLimits(),
                readers: try historyReaders())
        }
    }

    // MARK: Registered readers

    /// Registers a reader: what it has not acknowledged is kept for it, within the limits of the history.
    ///
    /// - Parameters:
    ///   - name: A name of the program's choice. A reader of this name continues at the new place.
    ///   - token: Where it begins; by default after the last change.
    /// - Throws: `HistoryError` `.notRecorded`, `.expired`; `DatabaseError`.
    public func registerHistoryReader(_ name: String, at token: HistoryToken? = nil) throws {
        try changingHistory { try setHistoryReader(name, to: token ?? historyToken()) }
    }

    /// Records that a reader has read everything up to a token, so that it may be purged.
    ///
    /// A token before the last one that was acknowledged changes nothing. Observers are not notified.
    ///
    /// - Throws: `HistoryError` `.noSuchReader`, `.expired` when the reader or the token has expired;
    ///   `DatabaseError`.
    public func acknowledgeHistory(upTo token: HistoryToken, by name: String) throws {
        func isLater() throws -> Bool {
            let last = try historyToken(ofReader: name)
            return token.number > last.number || token.history != last.history
        }
        guard try isLater() else { return }
        // Again, where nobody else writes: another process may read under this name.
        try changingHistory { if try isLater() { try setHistoryReader(name, to: token) } }
    }

    /// Where a reader continues.
    ///
    /// - Throws: `HistoryError` `.noSuchReader`, `.expired` when the reader has expired;
    ///   `DatabaseError`.
    public func historyToken(ofReader name: String) throws -> HistoryToken {
        let reader = try historyReader(name)
        if let reason = reader.expirationReason { throw Self.expired(name, reason) }
        return reader.token
    }

    /// Forgets a reader; nothing is kept for it from then on.
    ///
    /// - Throws: `HistoryError` `.noSuchReader`; `DatabaseError`.
    public func removeHistoryReader(_ name: String) throws {
        _ = try historyReader(name)
        try setHistoryReader(name, nil)
    }

    /// The registered readers, by name, those that have expired too.
    ///
    /// - Throws: `HistoryError` `.notRecorded`; `DatabaseError`.
    public func historyReaders() throws -> [HistoryReader] {
        try isolated(readOnly: true) {
            guard let state = try historyState() else { throw HistoryError.notRecorded }
            let last = try lastHistoryNumber()
            return try historyReaderRows().map { row in
                HistoryReader(
                    name: row.name,
                    token: HistoryToken(
                        history: state.history, number: row.number, fingerprint: row.fingerprint,
                        transaction: row.transaction),
                    date: Date(timeIntervalSince1970: row.seconds), lag: max(0, last - row.number),
                    expirationReason: row.expired)
            }
        }
    }

    private func historyReader(_ name: String) throws -> HistoryReader {
        guard let reader = try historyReaders().first(where: { $0.name == name }) else {
            throw HistoryError(
                .noSuchReader, "No reader of the history has the name \"\(name)\". Call registerHistoryReader first.")
        }
        return reader
    }

    private func setHistoryReader(_ name: String, to token: HistoryToken) throws {
        try requireValid(token)
        try setHistoryReader(
            name,
            HistoryReaderRow(
                name: name, number: token.number, fingerprint: token.fingerprint, transaction: token.transaction,
                seconds: Date().timeIntervalSince1970, expired: nil))
    }

    private static func expired(_ name: String, _ reason: String) -> HistoryError {
        HistoryError(
            .expired,
            "The reader \"\(name)\" has expired: \(reason). Fetch everything again, and register it with a new token.")
    }

    // MARK: Limits

    /// How much of the history is kept.
    ///
    /// - Throws: `HistoryError` `.notRecorded`; `DatabaseError`.
    public func historyLimits() throws -> HistoryLimits {
        guard let settings = try historyState()?.settings else { throw HistoryError.notRecorded }
        return HistoryLimits(
            count: settings.maximumCount, bytes: settings.maximumBytes, age: .seconds(settings.maximumSeconds))
    }

    /// Sets how much of the history is kept. The next purge applies it.
    ///
    /// - Throws: `HistoryError` `.notRecorded`; `DatabaseError`.
    public func setHistoryLimits(_ limits: HistoryLimits) throws {
        try updateHistorySettings { settings in
            settings.maximumCount = max(0, limits.count)
            settings.maximumBytes = max(0, limits.bytes)
            settings.maximumSeconds = max(0, limits.age / .seconds(1))
        }
    }
}

extension DatabaseWriter {
    /// Purges the changes that all registered readers have acknowledged, and those beyond the limits.
    ///
    /// Writers do this by themselves from time to time; a program may call it while it has nothing else to do. It takes
    /// many short transactions, whose size follows from their time: each is meant to keep other writers waiting for
    /// less than 20 ms.
    ///
    /// - Throws: `DatabaseError`.
    public func purgeHistory() throws {
        while try writeWithoutTransaction({ try $0.purgePartOfHistory() }) > 0 {}
    }
}
