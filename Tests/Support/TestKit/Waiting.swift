import Foundation

/// Looks again and again until a condition holds.
///
/// - Returns: Whether it held before the limit had passed.
public func waitUntil(within limit: Duration = .seconds(30), _ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = ContinuousClock.now + limit
    while try !condition() {
        guard ContinuousClock.now < deadline else { return false }
        usleep(500)
    }
    return true
}

/// Lets other tasks go on, between two looks at a condition.
public func shortRest() async { try? await Task.sleep(for: .milliseconds(1)) }
