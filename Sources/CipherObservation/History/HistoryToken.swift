import CipherDatabase

/// A place in the history of a database: all changes up to it, and none after.
///
/// ```swift
/// let (players, token) = try pool.read { db in try (Player.fetchAll(db), db.historyToken()) }
/// // Later, perhaps in another process:
/// let page = try pool.history(since: token)
/// ```
///
/// Take the first token in the transaction of the first fetch: then no change is missed, and none comes twice. A token
/// is valid in every process that opens the database, and in copies of it. It can be stored, as text or by `Codable`.
///
/// A token expires when changes after it were purged, and when the database was replaced by an older copy of itself:
/// reading then throws `HistoryError`.
public struct HistoryToken: Hashable, Sendable {
    /// The history.
    let history: String
    /// The last change before the place.
    let number: Int64
    /// The fingerprint of that change.
    let fingerprint: Int64
    /// The first change of the transaction in whose middle the place is; nil between two transactions.
    let transaction: Int64?
}

extension HistoryToken {
    /// The place before the oldest change that is kept.
    fileprivate init(beginningOf state: HistoryState) {
        self.init(history: state.history, number: state.purged, fingerprint: state.fingerprint, transaction: nil)
    }
}

extension HistoryToken: LosslessStringConvertible {
    /// The token as text, without blanks.
    public var description: String {
        let numbers = [number, fingerprint] + (transaction.map { [$0] } ?? [])
        return ([history] + numbers.map { String($0) }).joined(separator: "-")
    }

    /// A token from the text that `description` has returned; nil for another text.
    public init?(_ description: String) {
        let parts = description.split(separator: "-", omittingEmptySubsequences: false)
        let numbers = parts.dropFirst().compactMap { Int64($0) }
        guard (3...4).contains(parts.count), numbers.count == parts.count - 1, !parts[0].isEmpty else { return nil }
        history = String(parts[0])
        (number, fingerprint) = (numbers[0], numbers[1])
        transaction = numbers.count > 2 ? numbers[2] : nil
    }
}

extension HistoryToken: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let token = HistoryToken(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "This text is no HistoryToken.")
        }
        self = token
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension Database {
    /// The place after the last change that this connection sees.
    ///
    /// - Throws: `HistoryError` `.notRecorded` where there is no history; `DatabaseError`.
    public func historyToken() throws -> HistoryToken {
        try isolated(readOnly: true) {
            guard let state = try historyState() else { throw HistoryError.notRecorded }
            guard let last = try lastHistoryEntry() else {
                return HistoryToken(beginningOf: state)
            }
            return HistoryToken(
                history: state.history, number: last.number, fingerprint: last.fingerprint, transaction: nil)
        }
    }

    /// The place before the oldest change that is kept.
    ///
    /// - Throws: `HistoryError` `.notRecorded` where there is no history; `DatabaseError`.
    public func oldestHistoryToken() throws -> HistoryToken {
        guard let state = try historyState() else { throw HistoryError.notRecorded }
        return HistoryToken(beginningOf: state)
    }

    /// The place before the last changes, at the beginning of a transaction.
    ///
    /// - Parameter count: How many changes follow at least, where the history has so many; 0 and less for the end.
    /// - Throws: `HistoryError` `.notRecorded` where there is no history; `DatabaseError`.
    public func historyToken(beforeLast count: Int) throws -> HistoryToken {
        try isolated(readOnly: true) {
            guard let state = try historyState() else { throw HistoryError.notRecorded }
            if count <= 0 { return try historyToken() }
            let last = try lastHistoryNumber()
            let number = last > Int64(count) ? try historyNumber(beforeTransactionOf: last - Int64(count) + 1) : 0
            guard number > state.purged, let entry = try historyEntry(number) else { return try oldestHistoryToken() }
            return HistoryToken(
                history: state.history, number: number, fingerprint: entry.fingerprint, transaction: nil)
        }
    }

    /// Checks that nothing after a token is missing.
    ///
    /// - Throws: `HistoryError` `.notRecorded`, `.expired`; `DatabaseError`.
    func requireValid(_ token: HistoryToken) throws {
        guard let state = try historyState() else { throw HistoryError.notRecorded }
        guard token.history == state.history else {
            throw HistoryError.expired(because: "it is of the history of another database")
        }
        if token.number < state.purged { throw HistoryError.expired(because: "changes after it were purged") }
        let isKnown =
            token.number == state.purged
            ? token.fingerprint == state.fingerprint
            : try historyEntry(token.number)?.fingerprint == token.fingerprint
        if isKnown { return }
        throw HistoryError.expired(
            because: "the database was replaced by an older copy, or the token was taken in a transaction that was "
                + "rolled back")
    }
}
