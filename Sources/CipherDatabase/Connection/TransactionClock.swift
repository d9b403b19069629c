import Foundation

/// Provides the date of transactions.
///
/// ```swift
/// config.transactionClock = .custom { db in Date() }
/// ```
public protocol TransactionClock: Sendable {
    /// The date of the transaction that has just begun, or the current date outside of transactions.
    func now(_ db: Database) throws -> Date
}

/// The system clock.
public struct DefaultTransactionClock: TransactionClock {
    public func now(_ db: Database) throws -> Date { Date() }
}

/// A clock that is a function.
public struct CustomTransactionClock: TransactionClock {
    private let date: @Sendable (Database) throws -> Date
    public init(_ now: @escaping @Sendable (Database) throws -> Date) { date = now }
    public func now(_ db: Database) throws -> Date { try date(db) }
}

extension TransactionClock where Self == DefaultTransactionClock {
    /// The system clock.
    public static var `default`: DefaultTransactionClock { DefaultTransactionClock() }
}

extension TransactionClock where Self == CustomTransactionClock {
    /// A clock that calls a function each time a transaction begins, and for each request outside of transactions.
    public static func custom(_ now: @escaping @Sendable (Database) throws -> Date) -> CustomTransactionClock {
        CustomTransactionClock(now)
    }
}
