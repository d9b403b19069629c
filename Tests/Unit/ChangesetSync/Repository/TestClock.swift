import CipherDatabase
import Foundation
import Synchronization

/// A clock that a test sets.
final class TestClock: TransactionClock {
    let seconds: Mutex<Double>

    init(seconds: Double) { self.seconds = Mutex(seconds) }

    func now(_ db: Database) throws -> Date { Date(timeIntervalSince1970: seconds.withLock { $0 }) }
}
