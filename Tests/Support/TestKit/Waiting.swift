import CTestKit
import Foundation

/// How many times as long anything may take: a sanitizer slows a process down.
let slowness = Int(test_slowness())

/// Looks again and again until a condition holds.
///
/// - Returns: Whether it held before the limit had passed.
public func waitUntil(within limit: Duration = .seconds(30), _ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = ContinuousClock.now + limit * slowness
    while try !condition() {
        guard ContinuousClock.now < deadline else { return false }
        usleep(500)
    }
    return true
}

/// Looks again and again until a condition holds, without blocking the thread of a task: there are as few of them as
/// the machine has cores.
///
/// - Returns: Whether it held before the limit had passed.
public func eventually(within limit: Duration = .seconds(30), _ condition: @Sendable () -> Bool) async -> Bool {
    let deadline = ContinuousClock.now + limit * slowness
    while !condition() {
        guard ContinuousClock.now < deadline else { return false }
        try? await Task.sleep(for: .microseconds(500))
    }
    return true
}
