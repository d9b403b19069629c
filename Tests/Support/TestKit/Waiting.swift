import Foundation

/// Waits for a condition, looking every few milliseconds.
///
/// - Returns: Whether it came true in time.
public func wait(upTo seconds: Double = 30, until condition: () throws -> Bool) rethrows -> Bool {
    let deadline = Date(timeIntervalSinceNow: seconds)
    while try !condition() {
        if Date() >= deadline { return false }
        usleep(2000)
    }
    return true
}
