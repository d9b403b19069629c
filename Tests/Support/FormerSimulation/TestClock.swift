import CipherDatabase
import Foundation
import Synchronization

/// A clock that a test sets.
package final class TestClock: TransactionClock {
    package let seconds: Mutex<Double>

    package init(seconds: Double) { self.seconds = Mutex(seconds) }

    package func now(_ db: Database) throws -> Date { Date(timeIntervalSince1970: seconds.withLock { $0 }) }
}
